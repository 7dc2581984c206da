"""Engines that differ from the C++ ones end the run at once: exit status 3, one line that says which.

    difference_test.py PROGRAM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCENARIO = """
engines = "rtl"
rtl_devices = [5]
[topology]
nodes = 2
gpus_per_node = 4
[workload]
kind = "permutation"
bytes_per_flow = 40000000
"""
LINE = "device 5: another answer"


class Difference(unittest.TestCase):
    def test_it_ends_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            scenario, report = pathlib.Path(folder, "case.toml"), pathlib.Path(folder, "report.json")
            scenario.write_text(SCENARIO)
            done = subprocess.run([PROGRAM, "run", scenario, "--quiet", "--json", report], capture_output=True, text=True, timeout=120)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", LINE + "\n"))
            run = json.loads(report.read_text())["runs"][0]
        self.assertFalse(run["complete"])
        self.assertEqual(run["errors"], [LINE])
        self.assertLess(run["simulated_us"], 200)  # at an early packet: all take 800 us


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
