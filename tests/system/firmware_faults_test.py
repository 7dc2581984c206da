"""Firmware that goes wrong: the run stops, says where, and the exit status is 3. An image that cannot be run is refused."""

import os
import pathlib
import unittest

from program import PLAIT, plait, run

IMAGES = pathlib.Path(os.environ["PLAIT_FAULTY"])
# What the line says, and the function that it names.
FAULTS = (
    (1, "read of 8 bytes at 0x18", "plait_wild_read"),
    (2, "write of 4 bytes at 0x700000000000", "plait_wild_write"),
    (3, "write of 4 bytes at 0x80000000", "plait_write_to_code"),
    (4, "jump of", "0x4000", "plait_wild_jump"),
    (5, "illegal instruction", "plait_illegal"),
    (6, "stack overflow", "plait_recurse"),
    (7, "no end after", "plait_hang"),
    (8, "a command of no possible place or length", "plait_serve"),
    (9, "panic: window_taken, cause 7, address 0x55", "plait_fault"),
)
SCENARIO = """
[topology]
nodes = 2
gpus_per_node = 1
[workload]
kind = "permutation"
bytes_per_flow = 4096
"""


class FirmwareFaults(unittest.TestCase):
    def test_each_ends_the_run_and_says_where(self):
        for number, *words in FAULTS:
            with self.subTest(words[0]):
                result, report, _ = run(SCENARIO, "--firmware", "riscv", "--image", IMAGES / f"{number}.elf")
                self.assertEqual(result.returncode, 3, result.stderr)
                first, *state = result.stderr.splitlines()
                for word in ("firmware fault", "device ", "pc 0x", *words):
                    self.assertIn(word, first)
                self.assertTrue(any(line.startswith("x0 ") for line in state), result.stderr)
                self.assertFalse(report["complete"])
                self.assertIn(first, report["runs"][0]["errors"])

    def test_what_is_no_image_is_refused_by_name(self):
        for file, words in ((PLAIT, "no RV64 ELF program"), (__file__ + ".elf", "cannot be read")):
            with self.subTest(file):
                copy = pathlib.Path(file)
                if not file.endswith(".elf"):
                    copy = IMAGES / "refused.elf"
                    copy.unlink(missing_ok=True)
                    copy.symlink_to(file)
                result = plait("run", "ep8", "--firmware", "riscv", "--image", copy)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")
                self.assertEqual(len(result.stderr.splitlines()), 1)
                self.assertIn(str(copy), result.stderr)
                self.assertIn(words, result.stderr)
        (IMAGES / "refused.elf").unlink()


if __name__ == "__main__":
    unittest.main()
