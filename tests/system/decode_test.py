"""Low latency: decode steps on 64 and 256 GPUs, with uniform and with recorded routing."""

import unittest

from figures import DECODE64, DECODE64_LOGFMT10
from program import run


class Decode(unittest.TestCase):
    def check(self, name, variants):
        result, report, _ = run(name)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["complete"] and report["verified"])
        self.assertEqual([one["variant"] for one in report["runs"]], variants)
        self.assertTrue(all(one["mode"] == "low_latency" for one in report["runs"]))
        phases = {(phase["variant"], phase["name"]): phase for phase in report["phases"]}
        for (variant, _), phase in phases.items():
            self.assertLess(phase["floor_us"], phase["time_us"])
            if variant == "uniform":  # what was published was near it
                self.assertLess(phase["time_us"], phase["published_us"])
        return phases

    def test_decode64(self):
        phases = self.check("decode64", ["uniform", "weights at combine", "recorded", "logfmt10"])
        for variant, figures in (("uniform", DECODE64), ("logfmt10", DECODE64_LOGFMT10)):
            for name, time_us in figures.items():
                self.assertLess(phases[variant, name]["time_us"], time_us)
        # The weights go ahead of the combine: that is measured, and costs less than a tenth.
        given = phases["weights at combine", "combine"]
        self.assertGreater(given["time_us"], 0)
        self.assertLess(given["time_us"], phases["uniform", "combine"]["time_us"] * 1.1)

    def test_decode256(self):
        self.check("decode256", ["uniform", "recorded"])


if __name__ == "__main__":
    unittest.main()
