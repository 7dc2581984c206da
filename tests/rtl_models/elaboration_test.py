"""Blocks with parameters that are not allowed do not elaborate, and say why; with those at the limits they do.

    elaboration_test.py PACKAGE
"""

import subprocess
import sys
import unittest
from pathlib import Path

RTL = Path(__file__).resolve().parents[2] / "rtl_models"

ALLOWED = {
    "plait_forward": ["NODE_RANKS=1", "NODE_RANKS=5", "NODE_RANKS=64", "SLOT_BITS=1"],
    "plait_order": ["COUNTERS=2", "COUNTERS=1000", "RELEASES=2", "RELEASES=4096", "COUNT_BITS=2", "TAG_BITS=1"],
    "plait_quantise": ["ELEMENT_BITS=32", "MAX_ELEMENTS=1000"],
    "plait_reduce": ["SUMS=1000", "PAGES=8", "PAGE_ELEMENTS=64"],
    "plait_rx_window": ["QUEUE_PAIRS=2", "QUEUE_PAIRS=1000", "RING_PACKETS=1024", "LEAST_PACKETS=512", "BITMAP_BITS=512",
                        "QPN_BITS=10"],
    "plait_spray": ["QUEUE_PAIRS=2", "QUEUE_PAIRS=1000", "QPN_BITS=10", "PLANES=2", "PLANES=5", "ENTROPIES=8", "BYTES_BITS=8",
                    "CREDIT_BITS=17"],
}
# Parameter: what the message says. A block without parameters has none.
REFUSED = {
    "plait_forward": {"NODE_RANKS=65": "NODE_RANKS is 65, expected 1 .. 64"},
    "plait_icrc": {},
    "plait_order": {
        "COUNTERS=1": "COUNTERS is 1, expected at least 2",
        "RELEASES=1": "RELEASES is 1, expected a power of two, 2 .. 4096",
        "RELEASES=100": "RELEASES is 100, expected a power of two, 2 .. 4096",
        "RELEASES=8192": "RELEASES is 8192, expected a power of two, 2 .. 4096",
        "COUNT_BITS=1": "COUNT_BITS is 1, expected at least 2",
    },
    "plait_quantise": {
        "ELEMENT_BITS=8": "ELEMENT_BITS is 8, expected 16 or 32",
        "MAX_ELEMENTS=127": "MAX_ELEMENTS is 127, expected 128 .. 16384",
        "MAX_ELEMENTS=16385": "MAX_ELEMENTS is 16385, expected 128 .. 16384",
    },
    "plait_reduce": {
        "SUMS=1": "SUMS is 1, expected 2 .. 65536",
        "SUMS=65537": "SUMS is 65537, expected 2 .. 65536",
        "PAGES=4": "PAGES is 4, expected a power of two, 8 .. 65536",
        "PAGES=1000": "PAGES is 1000, expected a power of two, 8 .. 65536",
        "PAGE_ELEMENTS=32": "PAGE_ELEMENTS is 32, expected a power of two, 64 .. 512",
        "PAGE_ELEMENTS=1024": "PAGE_ELEMENTS is 1024, expected a power of two, 64 .. 512",
        "PAGE_ELEMENTS=100": "PAGE_ELEMENTS is 100, expected a power of two, 64 .. 512",
    },
    "plait_rx_window": {
        "QUEUE_PAIRS=1": "QUEUE_PAIRS is 1, expected at least 2",
        "QPN_BITS=9": "QPN_BITS is 9, too few to name all queue pairs",
        "RING_PACKETS=500": "RING_PACKETS is 500, expected a power of two",
        "RING_PACKETS=8192": "RING_PACKETS is 8192, expected a power of two up to 4096",
        "PSN_BITS=11": "RING_PACKETS is 512, expected a power of two up to 4096 and below a quarter of the PSNs",
        "LEAST_PACKETS=0": "LEAST_PACKETS is 0, expected 1 .. RING_PACKETS",
        "LEAST_PACKETS=513": "LEAST_PACKETS is 513, expected 1 .. RING_PACKETS",
        "BITMAP_BITS=513": "BITMAP_BITS is 513, expected at most RING_PACKETS",
    },
    "plait_spray": {
        "QUEUE_PAIRS=1": "QUEUE_PAIRS is 1, expected at least 2",
        "QPN_BITS=9": "QPN_BITS is 9, too few to name all queue pairs",
        "PLANES=1": "PLANES is 1, expected 2 .. 8",
        "PLANES=9": "PLANES is 9, expected 2 .. 8",
        "ENTROPIES=100": "ENTROPIES is 100, expected a power of two, PLANES .. 256",
        "ENTROPIES=4": "ENTROPIES is 4, expected a power of two, PLANES .. 256",
        "ENTROPIES=512": "ENTROPIES is 512, expected a power of two, PLANES .. 256",
        "CREDIT_BITS=16": "CREDIT_BITS is 16, expected more than BYTES_BITS",
    },
}


def elaborate(block, parameter):
    folder = RTL / "blocks" / block
    cells = [argument for cells in (RTL / "common", *(RTL / "blocks").iterdir()) for argument in ("-y", cells)]
    # Not the warnings about widths, which follow from the parameter.
    return subprocess.run(
        ["verilator", "--lint-only", "-Werror-USERFATAL", *cells, f"-G{parameter}", PACKAGE, folder / f"{block}.sv"],
        capture_output=True, text=True, timeout=120)


class Elaboration(unittest.TestCase):
    def test_allowed(self):
        for block, parameters in ALLOWED.items():
            for parameter in parameters:
                with self.subTest(block=block, parameter=parameter):
                    done = elaborate(block, parameter)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_refused(self):
        for block, parameters in REFUSED.items():
            for parameter, message in parameters.items():
                with self.subTest(block=block, parameter=parameter):
                    done = elaborate(block, parameter)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(f"{block}: {message}", done.stderr)

    def test_all_blocks(self):
        self.assertEqual(sorted(REFUSED), sorted(folder.name for folder in (RTL / "blocks").iterdir() if folder.is_dir()))


if __name__ == "__main__":
    PACKAGE = sys.argv.pop(1)
    unittest.main()
