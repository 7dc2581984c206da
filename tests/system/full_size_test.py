"""The published size. The bounds on time and efficiency are what is reached today; docs/performance.md has the goal beside it."""

import unittest

from program import run


class FullSize(unittest.TestCase):
    def test_dispatch_and_combine(self):
        result, report, _ = run("ep64-full", timeout=580)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["complete"] and report["verified"])
        phases = {phase["name"]: phase for phase in report["phases"]}
        self.assertGreater(phases["dispatch"]["efficiency"], 0.87)
        self.assertGreater(phases["combine"]["efficiency"], 0.87)


if __name__ == "__main__":
    unittest.main()
