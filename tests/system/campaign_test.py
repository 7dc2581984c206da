"""Random small clusters with random faults: nothing lost, repeated, wrong or leaked, and no hang."""

import os
import re
import signal
import subprocess
import time
import unittest

PLAIT = os.environ["PLAIT"]


def campaign(*arguments, timeout=500):
    return subprocess.run([PLAIT, "campaign", *arguments], capture_output=True, text=True, timeout=timeout)


class Campaign(unittest.TestCase):
    def test_two_hundred_seeds(self):
        result = campaign("--seeds", "200")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "200 seeds from 1: 200 right, 0 failed\n")

    def test_a_process_for_each_seed_in_any_number_at_once(self):
        result = campaign("--seeds", "3", "--first", "90", "--jobs", "7")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "3 seeds from 90: 3 right, 0 failed\n")

    def test_shows_what_it_would_run(self):
        result = campaign("--seeds", "1", "--first", "3", "--show")
        self.assertEqual(result.returncode, 0)
        self.assertTrue(result.stdout.startswith("seed = 3\n"))

    def test_ctrl_c_ends_it_with_what_was_done(self):
        process = subprocess.Popen([PLAIT, "campaign", "--seeds", "1000000"], stdout=subprocess.PIPE, text=True)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertRegex(out, re.compile(r"^\d+ seeds from 1: \d+ right, 0 failed$", re.M))

    def test_bad_options_in_one_line(self):
        for arguments in (("--seeds", "x"), ("--first", "-1"), ("--jobs", "2000"), ("--sedes", "1"), ("ep8",)):
            result = campaign(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertIn("plait campaign", result.stderr)


if __name__ == "__main__":
    unittest.main()
