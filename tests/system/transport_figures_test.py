"""What loss, overload and a plane that fails may cost."""

import unittest

from figures import FULL_RATE_SHARE, LOSSY, PLANE_BACK_US, PLANE_DOWN_SHARE
from program import run


class TransportFigures(unittest.TestCase):
    def test_loss_keeps_the_goodput(self):
        result, report, _ = run("lossy")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["verified"])
        goodput = {phase["variant"]: phase["goodput_gbytes_per_s"] for phase in report["phases"]}
        for phase in report["phases"]:
            if phase["variant"] in LOSSY:
                self.assertGreater(phase["retransmitted"], 0)
        for variant, share in LOSSY.items():
            with self.subTest(variant):
                self.assertGreaterEqual(goodput[variant], share * goodput["no loss"])

    def test_trimming_spares_an_incast_its_timeouts(self):
        result, report, _ = run("incast-trimming")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["verified"])
        lost, trimmed = report["runs"]
        self.assertGreater(lost["drops"]["lost_in_fabric"], 1000)
        self.assertGreater(lost["counters"]["timeouts"], 100)
        self.assertGreater(trimmed["counters"]["trimmed"], 1000)
        self.assertEqual(trimmed["drops"], {"trimmed": trimmed["counters"]["trimmed"]})  # nothing else is lost
        self.assertEqual(trimmed["counters"]["retransmitted"], trimmed["counters"]["trimmed"])
        self.assertEqual(trimmed["counters"]["timeouts"], 0)
        for figure in ("time_us_max", "time_us_mean", "victim_time_us"):
            self.assertLessEqual(trimmed["flows"][figure], lost["flows"][figure], figure)

    def test_a_plane_down_costs_its_share(self):
        result, report, _ = run("plane-down")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["verified"])  # no byte lost, none placed twice
        self.assertEqual({one["variant"] for one in report["runs"]}, {"announced", "silent"})
        down_us, up_us = 2000, 4000
        for one in report["runs"]:
            with self.subTest(one["variant"]):
                self.assertEqual(one["errors"], [])
                self.assertEqual(one["counters"]["qp_errors"], 0)
                self.assertGreaterEqual(one["simulated_us"], 6000)
                width = one["timeline"]["bin_us"]
                bins = one["timeline"]["goodput_gbytes_per_s"]

                def mean(begin_us, end_us):
                    part = bins[round(begin_us / width):round(end_us / width)]
                    return sum(part) / len(part)

                healthy = mean(1000, 1900)
                self.assertGreater(healthy, 40)
                self.assertGreaterEqual(mean(down_us, up_us), PLANE_DOWN_SHARE * healthy)
                self.assertGreaterEqual(mean(down_us + 300, up_us - 100), PLANE_DOWN_SHARE * healthy)
                self.assertLess(mean(down_us + 300, up_us - 100), 0.80 * healthy)  # the plane was really down
                back_us = up_us + PLANE_BACK_US
                for begin_us in range(back_us, back_us + 1000, round(width)):
                    self.assertGreaterEqual(mean(begin_us, begin_us + width), FULL_RATE_SHARE * healthy)


if __name__ == "__main__":
    unittest.main()
