"""The published size: what must be reached, and that no run is worse than what docs/performance.md shows."""

import unittest

from figures import FULL_SIZE
from program import run

REACHED_EFFICIENCY = 0.87


class FullSize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result, cls.report, _ = run("ep64-full", timeout=580)
        cls.phases = {phase["name"]: phase for phase in cls.report["phases"]} if cls.report else {}

    def test_every_byte_is_right(self):
        self.assertEqual(self.result.returncode, 0, self.result.stdout + self.result.stderr)
        self.assertTrue(self.report["complete"] and self.report["verified"])

    def test_no_worse_than_before(self):
        for name in FULL_SIZE:
            self.assertGreater(self.phases[name]["efficiency"], REACHED_EFFICIENCY, name)

    def test_must_reach(self):
        for name, (efficiency, time_us) in FULL_SIZE.items():
            with self.subTest(name):
                self.assertGreaterEqual(self.phases[name]["efficiency"], efficiency)
                self.assertLess(self.phases[name]["time_us"], time_us)


if __name__ == "__main__":
    unittest.main()
