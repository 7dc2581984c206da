import re
import unittest

from program import SCENARIOS, plait, run


class Scenarios(unittest.TestCase):
    def check(self, name):
        result, report, _ = run(name)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["complete"] and report["verified"])
        for key in ("seed", "payload", "firmware", "topology", "phases", "runs"):
            self.assertIn(key, report)
        for phase in report["phases"]:
            self.assertGreater(phase["floor_us"], 0)
            self.assertLessEqual(phase["floor_us"], phase["time_us"])
            for key in ("efficiency", "goodput_gbytes_per_s", "scale_out_bytes_per_gpu", "scale_up_bytes_per_gpu",
                        "packets", "retransmitted", "out_of_order_max", "published_us", "floor_best_us"):
                self.assertIn(key, phase)
        return report

    def test_ep(self):
        for name in ("ep8", "ep16", "ep32", "ep64", "ep64-decode"):
            with self.subTest(name):
                report = self.check(name)
                self.assertEqual({phase["name"] for phase in report["phases"]}, {"dispatch", "combine"})

    def test_flows(self):
        for name in ("permutation", "alltoall", "incast"):
            with self.subTest(name):
                self.check(name)

    def test_policies_side_by_side(self):
        floors = {p["variant"]: p["floor_us"] for p in self.check("ep64-policies")["phases"] if p["name"] == "dispatch"}
        self.assertEqual(len(floors), 3)
        same_index = next(value for variant, value in floors.items() if "same" in variant)
        self.assertEqual(max(floors.values()), same_index)

    def test_loss_keeps_the_goodput(self):
        phases = self.check("lossy")["phases"]
        lossless, permille, percent = (phase["goodput_gbytes_per_s"] for phase in phases)
        self.assertGreater(phases[2]["retransmitted"], 0)
        self.assertGreaterEqual(permille, 0.97 * lossless)
        self.assertGreaterEqual(percent, 0.85 * lossless)

    def test_a_plane_down_costs_its_share(self):
        report = self.check("plane-down")
        for one in report["runs"]:
            with self.subTest(one["variant"]):
                width = one["timeline"]["bin_us"]
                bins = one["timeline"]["goodput_gbytes_per_s"]
                mean = lambda begin, end: sum(bins[int(begin / width):int(end / width)]) / ((end - begin) / width)
                healthy = mean(1000, 1900)
                self.assertGreater(healthy, 40)
                self.assertGreaterEqual(mean(2300, 3900), 0.72 * healthy)   # detection of the silent failure included below
                self.assertGreaterEqual(mean(2000, 4000), 0.72 * healthy)
                self.assertGreaterEqual(mean(5000, 6000), 0.98 * healthy)   # 1 ms after the return
                self.assertLess(mean(2300, 3900), 0.80 * healthy)           # the plane was really down

    def test_list_and_check(self):
        names = {path.stem for path in SCENARIOS.glob("*.toml")}
        listed = {re.split(r"\s+", line)[0] for line in plait("list").stdout.splitlines()}
        self.assertEqual(names, listed)
        for name in sorted(names):
            self.assertEqual(plait("check", name).returncode, 0, name)


if __name__ == "__main__":
    unittest.main()
