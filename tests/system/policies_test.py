"""The entry policies side by side."""

import unittest

from figures import SAME_INDEX_FLOOR_US
from program import run


class Policies(unittest.TestCase):
    def test_side_by_side(self):
        result, report, _ = run("ep64-policies")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["verified"])
        self.assertEqual([one["entry_policy"] for one in report["runs"]], ["same_index", "spread", "target", "balanced"])
        floors = {p["variant"]: p["floor_us"] for p in report["phases"] if p["name"] == "dispatch"}
        times = {p["variant"]: p["time_us"] for p in report["phases"] if p["name"] == "dispatch"}
        tokens = report["runs"][0]["tokens"]
        self.assertAlmostEqual(floors["same_index"] * 4096 / tokens / SAME_INDEX_FLOOR_US, 1, delta=0.03)
        for other in ("spread", "target", "balanced"):
            self.assertLess(floors[other], floors["same_index"])
            self.assertLess(times[other], times["same_index"])
        # What perfect spreading could reach does not depend on the policy.
        best = {p["floor_best_us"] for p in report["phases"] if p["name"] == "dispatch"}
        self.assertEqual(len(best), 1)


if __name__ == "__main__":
    unittest.main()
