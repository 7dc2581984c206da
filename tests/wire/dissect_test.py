"""An independent dissector (tshark) finds in our frames the fields that were put there.

    dissect_test.py WRITE_CAPTURE TSHARK          (run by ctest)

WRITE_CAPTURE writes a capture and prints the expected fields, a line a frame; every other field below must be absent.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

FIELDS = """eth.src eth.dst ip.src ip.dst ip.checksum.status ipv6.src ipv6.dst udp.srcport udp.dstport infiniband.bth.opcode
    infiniband.bth.destqp infiniband.bth.psn infiniband.bth.a infiniband.bth.padcnt infiniband.bth.m infiniband.bth.p_key
    infiniband.reth.va infiniband.reth.r_key infiniband.reth.dmalen infiniband.aeth.syndrome infiniband.aeth.msn
    infiniband.atomiceth.swapdt infiniband.atomiceth.cmpdt infiniband.atomicacketh.origremdt infiniband.immdt
    infiniband.deth.q_key infiniband.deth.srcqp infiniband.invariant.crc infiniband.vendor _ws.malformed""".split()


def main():
    write_capture, tshark = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "frames.pcap"
        written = subprocess.run([write_capture, capture], capture_output=True, text=True, check=True)
        # The last occurrence: the dissector shows some fields twice. An empty home: no one's preferences.
        command = [tshark, "-r", capture, "-n", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "occurrence=l"]
        for field in FIELDS:
            command += ["-e", field]
        dissected = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "HOME": folder})
    expected = [dict(pair.split("=", 1) for pair in line.split()) for line in written.stdout.splitlines()]
    found = [dict(zip(FIELDS, line.split("\t"))) for line in dissected.stdout.splitlines()]
    wrong = 0
    if len(expected) != len(found) or not expected:
        print(f"{len(expected)} frames written, {len(found)} dissected")
        wrong += 1
    for number, (want, have) in enumerate(zip(expected, found), start=1):
        for field in FIELDS:
            if want.get(field, "") != have.get(field, ""):
                print(f"frame {number} (opcode {want['infiniband.bth.opcode']}): {field} is `{have.get(field, '')}`, "
                      f"expected `{want.get(field, '')}`")
                wrong += 1
        unknown = set(want) - set(FIELDS)
        if unknown:
            print(f"frame {number}: {unknown} is not compared")
            wrong += 1
    opcodes = {want["infiniband.bth.opcode"] for want in expected}
    print(f"{len(expected)} frames, {len(opcodes)} opcodes, {wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
