"""Every scenario completes with every byte right. decode64, decode256, ep64-full, ep64-policies, incast-trimming, lossy and plane-down have tests of their own;
ep64-accumulators and ep64-full-formats, ep64-full many times over, take minutes."""

import unittest

from program import SCENARIOS, run

EP = ("ep8", "ep8-riscv", "ep8-rtl", "ep16", "ep32", "ep32-formats", "ep64", "ep64-decode")
FLOWS = ("permutation", "alltoall", "incast")
ELSEWHERE = ("decode256", "decode64", "ep64-accumulators", "ep64-full", "ep64-full-formats", "ep64-policies", "incast-trimming", "lossy", "plane-down")


class Scenarios(unittest.TestCase):
    def check(self, name):
        result, report, _ = run(name)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual((report["scenario"], report["payload"]), (name, "real"))
        self.assertTrue(report["complete"] and report["verified"] and not report["interrupted"])
        for phase in report["phases"]:
            self.assertTrue(phase["complete"] and phase["verified"])
            self.assertGreater(phase["floor_us"], 0)
            self.assertLessEqual(phase["floor_best_us"], phase["floor_us"])
            self.assertLessEqual(phase["floor_us"], phase["time_us"])
            self.assertAlmostEqual(phase["efficiency"], phase["floor_us"] / phase["time_us"], places=3)
        return report

    def test_every_scenario_is_tested(self):
        self.assertEqual({path.stem for path in SCENARIOS.glob("*.toml")}, {*EP, *FLOWS, *ELSEWHERE})

    def test_ep(self):
        for name in EP:
            with self.subTest(name):
                report = self.check(name)
                self.assertEqual({phase["name"] for phase in report["phases"]}, {"dispatch", "combine"})

    def test_flows(self):
        for name in FLOWS:
            with self.subTest(name):
                report = self.check(name)
                self.assertEqual([phase["name"] for phase in report["phases"]], ["transfer"])
                flows = report["runs"][0]["flows"]
                self.assertEqual(flows["complete"], flows["count"])


if __name__ == "__main__":
    unittest.main()
