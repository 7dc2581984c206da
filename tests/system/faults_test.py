import unittest

from program import run

FLOWS = """
[topology]
nodes = 2
gpus_per_node = 4
planes = 4
[scale_out]
{impairment}
[workload]
kind = "permutation"
bytes_per_flow = 4194304
message_bytes = 65536
"""
EP = """
[topology]
nodes = 2
gpus_per_node = 4
planes = 4
[scale_out]
{impairment}
[workload]
kind = "ep"
tokens = 256
hidden = 1024
experts = 64
topk = 8
routing = "uniform"
{faults}
"""


class Faults(unittest.TestCase):
    def test_nothing_is_lost_up_to_ten_per_cent(self):
        for impairment in ("loss = 0.1", "corruption = 0.1", "duplication = 0.1", "reordering = 0.1\nreordering_delay_ns = 20000"):
            for scenario, seed in ((FLOWS, 1), *((EP, seed) for seed in range(1, 9))):
                with self.subTest(impairment, ep=scenario is EP, seed=seed):
                    result, report, _ = run(scenario.format(impairment=impairment, faults=""), "--seed", seed)
                    self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                    self.assertTrue(report["verified"])

    def test_a_plane_that_fails_silently_costs_no_byte(self):
        fault = '[[fault]]\nat_us = 70\nwhat = "plane_down"\nplane = 1\nsilent = true\n'
        result, report, _ = run(EP.format(impairment="", faults=fault))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["verified"])

    def test_a_device_that_dies_is_reported(self):
        fault = '[[fault]]\nat_us = {}\nwhat = "device_down"\ndevice = 5\n'
        for at_us in (70, 110):  # in dispatch, in combine
            with self.subTest(at_us):
                result, report, _ = run(EP.format(impairment="", faults=fault.format(at_us)))
                self.assertEqual(result.returncode, 1)
                self.assertFalse(report["complete"])
                self.assertTrue(any(one["errors"] for one in report["runs"]))


if __name__ == "__main__":
    unittest.main()
