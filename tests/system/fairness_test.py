"""Senders that start at the same time: nobody starves, and a flow that only passes by is left alone."""

import unittest

from program import SCENARIOS, SEEDS, run

# Every device on a leaf of its own, so that all senders are alike.
EQUAL_SENDERS = """
[topology]
nodes = {devices}
gpus_per_node = 1
[scale_out]
leaf_down_ports = 1
[transport]
qp_time_limit_us = 10000
[workload]
kind = "incast"
receiver = 0
bytes_per_flow = 2097152
message_bytes = 65536
"""


class Fairness(unittest.TestCase):
    def test_equal_senders_end_together(self):
        for senders in (4, 16):
            for seed in SEEDS:
                with self.subTest(senders=senders, seed=seed):
                    result, report, _ = run(EQUAL_SENDERS.format(devices=senders + 1), "--seed", seed)
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    self.assertTrue(report["verified"])
                    flows = report["runs"][0]["flows"]
                    self.assertEqual(flows["complete"], senders)
                    self.assertLessEqual(flows["time_us_max"], 1.25 * flows["time_us_min"])
                    # Nor do they end together because all of them waited.
                    self.assertLessEqual(flows["time_us_max"], 1.25 * report["phases"][0]["floor_us"])

    def test_incast_hardly_delays_a_victim(self):
        scenario = (SCENARIOS / "incast.toml").read_text()
        size = "bytes_per_flow = 2097152"
        self.assertIn(size, scenario)
        alone, beside = (run(text)[1]["runs"][0]["flows"]["victim_time_us"]
                         for text in (scenario.replace(size, "bytes_per_flow = 0"), scenario))
        self.assertGreater(alone, 0)
        self.assertLess(beside, 1.10 * alone)


if __name__ == "__main__":
    unittest.main()
