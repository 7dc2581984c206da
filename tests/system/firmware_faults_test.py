"""Firmware that goes wrong: the run stops, says where, and the exit status is 3. An image that cannot be run is refused."""

import os
import pathlib
import unittest

from program import PLAIT, plait, run

IMAGE = pathlib.Path(os.environ["PLAIT_FAULTY"])
# By the number that tells the image what to do: what the line says, and the function that it names.
FAULTS = {
    101: ("read of 8 bytes at 0x18", "plait_wild_read"),
    102: ("write of 4 bytes at 0x700000000000", "plait_wild_write"),
    103: ("write of 4 bytes at 0x80000000", "plait_write_to_code"),
    104: ("jump of", "0x4000", "plait_wild_jump"),
    105: ("illegal instruction", "plait_illegal"),
    106: ("stack overflow", "plait_recurse"),
    107: ("no end after", "plait_hang"),
    108: ("panic: window_taken, cause 7, address 0x55", "plait_fault"),
    109: ("write of 8 bytes at 0x2001", "another device's memory", "plait_write_to_neighbour"),
    120: ("command: a place or length that is not possible", "plait_serve"),
    121: ("command: a kind that there is not",),
    122: ("command: send by a plane that does not exist",),
    123: ("command: payload of another length than its header says",),
    124: ("command: buffer 77, which is not allocated",),
    125: ("command: scale-up to devices that do not exist",),
    126: ("command: accumulator 9999 cannot take 1 contributions of 64 elements",),
    127: ("command: a drop for no known reason",),
    128: ("command: a timer of no known kind",),
    129: ("command: shorter than what it says",),
    130: ("counter 63 of infinities and NaN, which there is not", "give_nonsense"),
    131: ("command: a place or length that is not possible",),
}
DRAWN = range(1000, 1030)
SCENARIO = """
[topology]
nodes = 2
gpus_per_node = 1
[workload]
kind = "permutation"
bytes_per_flow = 4096
[transport]
base_rtt_ns = %d
"""


class FirmwareFaults(unittest.TestCase):
    def ends_the_run(self, number, words):
        result, report, _ = run(SCENARIO % number, "--firmware", "riscv", "--image", IMAGE)
        self.assertEqual(result.returncode, 3, result.stderr)
        first, *state = result.stderr.splitlines()
        for word in ("firmware fault", "device ", "pc 0x", *words):
            self.assertIn(word, first)
        self.assertTrue(any(line.startswith("x0 ") for line in state), result.stderr)
        self.assertFalse(report["complete"])
        self.assertIn(first, report["runs"][0]["errors"])

    def test_each_ends_the_run_and_says_where(self):
        for number, words in FAULTS.items():
            with self.subTest(words[0]):
                self.ends_the_run(number, words)

    def test_so_do_commands_that_are_drawn(self):
        for number in DRAWN:
            with self.subTest(number):
                self.ends_the_run(number, ("command: ",))

    def test_what_is_no_image_is_refused_by_name(self):
        for file, words in ((PLAIT, "no RV64 ELF program"), (__file__ + ".elf", "cannot be read")):
            with self.subTest(file):
                copy = pathlib.Path(file)
                if not file.endswith(".elf"):
                    copy = IMAGE.with_name("refused.elf")
                    copy.unlink(missing_ok=True)
                    copy.symlink_to(file)
                result = plait("run", "ep8", "--firmware", "riscv", "--image", copy)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")
                self.assertEqual(len(result.stderr.splitlines()), 1)
                self.assertIn(str(copy), result.stderr)
                self.assertIn(words, result.stderr)
        IMAGE.with_name("refused.elf").unlink()


if __name__ == "__main__":
    unittest.main()
