"""Every proof holds for the blocks, and fails for a copy of them that is broken on purpose.

    proofs_test.py PACKAGE [--long]

Without --long those that take minutes are left out, with it the others are.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RTL = Path(__file__).resolve().parents[2] / "rtl_models"

# Proof: the file that is broken, what stands there, and what stands there instead.
BROKEN = {
    "plait_fifo": [
        ("common/plait_fifo.sv", "if (pop_i) first_q", "if (pop_i && !push_i) first_q"),
        ("common/plait_fifo.sv", "can_push_o = count_q != (PLACE_BITS + 1)'(WORDS)", "can_push_o = 1'b1"),
    ],
    "plait_forward": [
        ("blocks/plait_forward/plait_forward.sv", "i <= rank;", "i < rank;"),
        ("blocks/plait_forward/plait_forward.sv", "advance = !rsp_valid_o || rsp_ready_i", "advance = 1'b1"),
    ],
    "plait_icrc": [
        ("blocks/plait_icrc/plait_icrc.sv", "advance = !rsp_valid_o || rsp_ready_i", "advance = 1'b1"),
        ("blocks/plait_icrc/plait_icrc.sv", "valid_q[STATE] && last_q[STATE]", "valid_q[STATE]"),
        ("blocks/plait_icrc/plait_icrc.sv", "(!starts_q && is_wrong_q) || ", ""),
    ],
    "plait_order": [
        ("blocks/plait_order/plait_order.sv", "release_read.required <= target", "release_read.required < target"),
        ("blocks/plait_order/plait_order.sv", "release_write.has_next = counter.has_first", "release_write.has_next = 1'b0"),
        ("blocks/plait_order/plait_order.sv", "must_wait && free_q == '0", "must_wait && 1'b0"),
    ],
    "plait_ram": [
        ("common/plait_ram.sv", "write_i && write_address_i == read_address_i ? data_i : words", "words"),
    ],
    "plait_reduce_pages": [
        ("blocks/plait_reduce/plait_reduce_pages.sv", "if (give_back_i) next_q", "if (give_back_i && !take_i) next_q"),
        ("blocks/plait_reduce/plait_reduce_pages.sv", "if (take_i && is_fresh)", "if (take_i && is_fresh && !give_back_i)"),
    ],
    "plait_rx_window": [
        ("blocks/plait_rx_window/plait_rx_window.sv", "advance = !rsp_valid_o || rsp_ready_i", "advance = 1'b1"),
        ("blocks/plait_rx_window/plait_rx_window.sv", "fetched_q <= cmd_valid_i", "fetched_q <= cmd_valid_i && cmd_opcode_i != 2"),
    ],
    "plait_rx_window_update": [
        ("blocks/plait_rx_window/plait_rx_window_update.sv", "received_i & from_start & (is_around ? around : ALL)",
         "received_i & from_start"),
        ("blocks/plait_rx_window/plait_rx_window_update.sv", "ahead >= PSN_BITS'(window_packets_i)",
         "ahead > PSN_BITS'(window_packets_i)"),
        ("blocks/plait_rx_window/plait_rx_window_update.sv", "received_o = received_i & ~packet", "received_o = received_i"),
    ],
    "plait_spray": [
        ("blocks/plait_spray/plait_spray.sv", "credited[p] = !credit[CREDIT_BITS-1] && credit != '0", "credited[p] = 1'b1"),
        ("blocks/plait_spray/plait_spray.sv", "credited[p] = !credit[CREDIT_BITS-1] && credit", "credited[p] = credit"),
        ("blocks/plait_spray/plait_spray.sv", "else if (grants[p]) credit_q", "else if (grants[p] && p != 1) credit_q"),
        ("blocks/plait_spray/plait_spray.sv", "advance = (!rsp_valid_o || rsp_ready_i) && done", "advance = done"),
    ],
}


LONG = {"plait_spray"}


def prove(name, rtl):
    return subprocess.run([RTL / "formal" / "prove.py", PACKAGE, "--rtl", rtl, name], capture_output=True, text=True, timeout=1200)


def prove_broken(name, file, good, bad):
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "rtl_models")
        shutil.copytree(RTL, copy)
        text = (copy / file).read_text()
        assert text.count(good) == 1, f"{file} has no single {good}"
        (copy / file).write_text(text.replace(good, bad))
        return prove(name, copy)


class Proofs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        pool = ThreadPoolExecutor(os.cpu_count())
        cls.addClassCleanup(pool.shutdown, cancel_futures=True)
        cls.blocks = {name: pool.submit(prove, name, RTL) for name in CHOSEN}
        cls.broken = {(name, *change): pool.submit(prove_broken, name, *change) for name in CHOSEN for change in BROKEN[name]}

    def test_blocks(self):
        for name, proof in self.blocks.items():
            with self.subTest(name=name):
                done = proof.result()
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{name}: proved\n", ""))

    def test_broken_copies(self):
        for (name, _, _, bad), proof in self.broken.items():
            with self.subTest(name=name, bad=bad):
                done = proof.result()
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIn("Assert failed", done.stdout)

    def test_all_proofs(self):
        self.assertEqual(sorted(BROKEN), sorted(file.stem.removesuffix("_proof") for file in (RTL / "formal").glob("*_proof.sv")))


if __name__ == "__main__":
    is_long = "--long" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--long"]
    PACKAGE = sys.argv.pop(1)
    CHOSEN = [name for name in BROKEN if (name in LONG) == is_long]
    unittest.main()
