"""Packets that are lost, damaged, doubled and late; planes and devices that fail."""

import unittest

from program import SEEDS, run

TOPOLOGY = """
[topology]
nodes = 2
gpus_per_node = 4
planes = 4
[scale_out]
{impairment}
"""
FLOWS = TOPOLOGY + """
[workload]
kind = "permutation"
bytes_per_flow = 4194304
message_bytes = 65536
{faults}
"""
EP = TOPOLOGY + """
[workload]
kind = "ep"
tokens = 256
hidden = 1024
experts = 64
topk = 8
routing = "uniform"
{faults}
"""
# Rates end to end, and what the report counts for each.
IMPAIRMENTS = {
    "loss = {}": {"lost_in_fabric"},
    "corruption = {}": {"icrc"},
    "duplication = {}": {"duplicate"},
    "reordering = {}\nreordering_delay_ns = 20000": {"duplicate"},
}
DEVICE_DOWN = '[[fault]]\nat_us = {}\nwhat = "device_down"\ndevice = 5\n'
PLANE_DOWN = '[[fault]]\nat_us = {}\nwhat = "plane_down"\nplane = 1\nsilent = {}\n'


class Faults(unittest.TestCase):
    def all_right(self, scenario, *arguments):
        result, report, _ = run(scenario, *arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["complete"] and report["verified"])
        self.assertEqual(report["runs"][0]["counters"]["qp_errors"], 0)
        return report

    def test_slow_firmware_slows_and_breaks_nothing(self):
        # Round trips of up to a millisecond, where the transport assumes a few microseconds at first.
        slow = {"data_received": 1900, "data_sent": 1900, "acknowledgement": 11000, "doorbell": 2500, "fetched": 2500,
                "scale_up_received": 2500, "scale_up_sent": 2500, "reduced": 2500}
        table = "[device.instructions]\n" + "".join(f"{kind} = {count}\n" for kind, count in slow.items())
        scenario = EP.format(impairment="", faults="").replace("hidden = 1024", "hidden = 7168") + table
        run = self.all_right(scenario)["runs"][0]
        self.assertLess(run["counters"]["retransmitted"], run["counters"]["data_packets_sent"] / 10)

    def nothing_is_lost(self, scenario):
        for impairment, reasons in IMPAIRMENTS.items():
            for rate in (0.01, 0.1):
                for seed in SEEDS:
                    with self.subTest(impairment.format(rate), seed=seed):
                        report = self.all_right(scenario.format(impairment=impairment.format(rate), faults=""),
                                                "--seed", seed)
                        if rate == 0.1:  # it did happen
                            self.assertLessEqual(reasons, set(report["runs"][0]["drops"]))

    def test_flows_lose_nothing_up_to_ten_per_cent(self):
        self.nothing_is_lost(FLOWS)

    def test_ep_loses_nothing_up_to_ten_per_cent(self):
        self.nothing_is_lost(EP)

    def test_everything_at_once(self):
        impairment = "loss = 0.03\ncorruption = 0.03\nduplication = 0.03\nreordering = 0.03\nreordering_delay_ns = 20000"
        for scenario in (FLOWS, EP):
            for seed in SEEDS:
                with self.subTest(seed=seed, ep=scenario is EP):
                    self.all_right(scenario.format(impairment=impairment, faults=""), "--seed", seed)

    def test_trimmed_packets_come_again_even_where_bits_are_flipped(self):
        impairment = ("trimming = true\nbuffer_bytes = 8192\necn_threshold_bytes = 4096\ncorruption = {}\n"
                      "leaf_down_ports = 4\nleaf_up_ports = 1")  # four to one
        for scenario in (FLOWS, EP):
            for rate in (0, 0.03):
                for seed in SEEDS:
                    with self.subTest(seed=seed, ep=scenario is EP, corruption=rate):
                        report = self.all_right(scenario.format(impairment=impairment.format(rate), faults=""),
                                                "--seed", seed)
                        drops = report["runs"][0]["drops"]
                        self.assertGreater(drops["trimmed"], 0)
                        self.assertEqual("icrc" in drops, rate != 0)
                        self.assertNotIn("lost_in_fabric", drops)

    def test_links_that_repeat_delay_and_flap_lose_nothing(self):
        faults = ('[[fault]]\nat_us = 0\nwhat = "duplication"\nrate = 0.2\ndevice = 1\nplane = 2\n'
                  '[[fault]]\nat_us = 0\nwhat = "reordering"\nrate = 0.2\ndelay_ns = 50000\ndevice = 1\nplane = 2\n'
                  '[[fault]]\nat_us = 0\nwhat = "loss"\nrate = 0.1\ndevice = 6\nplane = 0\n'
                  '[[fault]]\nat_us = 50\nwhat = "link_flap"\nlinks = 8\ndown_us = 20\nup_us = 40\ntimes = 10\n'
                  'random = true\nsilent = {}\n')
        for scenario in (FLOWS, EP):
            for silent in ("true", "false"):
                for seed in SEEDS:
                    with self.subTest(seed=seed, ep=scenario is EP, silent=silent):
                        report = self.all_right(scenario.format(impairment="", faults=faults.format(silent)),
                                                "--seed", seed)
                        drops = report["runs"][0]["drops"]
                        self.assertGreater(drops["duplicate"], 0)
                        self.assertGreater(drops["lost_in_fabric"], 0)

    def test_a_single_packet_lost(self):
        for nth in (1, 2, 100):
            fault = f'[[fault]]\nat_us = 0\nwhat = "lose_nth"\nsource = 0\ndestination = 4\nnth = {nth}\n'
            scenario = FLOWS.replace('"permutation"', '"permutation"\nshift = 4')
            with self.subTest(nth):
                report = self.all_right(scenario.format(impairment="", faults=fault))
                self.assertEqual(report["runs"][0]["drops"].get("lost_in_fabric"), 1)

    def test_a_plane_that_fails_costs_no_byte(self):
        for silent in ("true", "false"):
            for at_us in (50, 60, 80, 100, 120):  # set-up ends at about 47 us, combine begins at about 91 us
                with self.subTest(silent=silent, at_us=at_us):
                    report = self.all_right(EP.format(impairment="", faults=PLANE_DOWN.format(at_us, silent)))
                    if silent == "true" or at_us > 50:  # told before they sent, ranks lose nothing
                        self.assertGreater(report["runs"][0]["drops"].get("lost_in_fabric", 0), 0)

    def test_an_ep_device_that_dies_is_reported(self):
        for at_us in (0, 20, 40, 70, 110):  # in set-up (three times), in dispatch, in combine
            with self.subTest(at_us):
                self.reported(EP.format(impairment="", faults=DEVICE_DOWN.format(at_us)), "rank 5")

    def test_survivors_do_not_wait_for_a_dead_rank(self):
        """The call's timeout is 100 ms, the time limit of a queue pair 4 ms."""
        for at_us in (40, 48, 70, 100, 110):  # before dispatch (twice), in dispatch, in combine (twice)
            with self.subTest(at_us):
                report = self.reported(EP.format(impairment="", faults=DEVICE_DOWN.format(at_us)), "rank 5")
                for phase in report["phases"]:
                    self.assertLess(phase["time_us"], 10_000, phase["name"])
                # What is missing is said once by each survivor and call, with who is to blame; nothing is wrong.
                lines = [line for line in report["runs"][0]["errors"] if not line.startswith("rank 5:")]
                for line in lines:
                    self.assertRegex(line, r"^rank \d: (dispatch|combine) ended as rank_failed .*; failed ranks: 5$")
                calls = [line.split(" ended")[0] for line in lines]
                self.assertEqual(len(calls), len(set(calls)))
                self.assertIn(len(calls), (7, 14))

    def test_a_host_that_stops_for_a_while_costs_nobody_a_byte(self):
        for at_us in (20, 60, 90):  # in set-up, in dispatch, in combine
            with self.subTest(at_us):
                stop = f'[[fault]]\nat_us = {at_us}\nwhat = "host_stops"\ndevice = 5\nfor_us = 3000\n'
                report = self.all_right(EP.format(impairment="", faults=stop))
                self.assertGreater(report["runs"][0]["simulated_us"], 3000)

    def test_ranks_that_make_no_call_are_named_in_every_call(self):
        twice = EP.replace('kind = "ep"', 'kind = "ep"\ntimeout_us = 20000\nrepeat = 2{absent}')
        stop = '[[fault]]\nat_us = 80\nwhat = "host_stops"\ndevice = 5\n'
        cases = {"absent": dict(absent="\nabsent_ranks = [5]", faults=""), "stopped": dict(absent="", faults=stop)}
        for name, case in cases.items():
            with self.subTest(name):
                result, report, _ = run(twice.format(impairment="", **case), timeout=60)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertFalse(report["complete"] or report["interrupted"])
                for line in report["runs"][0]["errors"]:
                    self.assertRegex(line, r"^rank [0-46-7]: ((dispatch|combine) ended as timeout .*; failed ranks: 5$"
                                           r"|combine not made: .* holds no routing)")
                last = report["phases"][-1]
                self.assertLess(last["start_us"] + last["time_us"], 3 * 20_500)

    def test_a_flow_s_device_that_dies_is_reported(self):
        for at_us in (0, 40, 60, 100):
            with self.subTest(at_us):
                self.reported(FLOWS.format(impairment="", faults=DEVICE_DOWN.format(at_us)), "device 5")

    def reported(self, scenario, who):
        result, report, _ = run(scenario, timeout=60)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertFalse(report["complete"] or report["verified"] or report["interrupted"])
        gone = [line for line in report["runs"][0]["errors"] if line.startswith(who) and "gone" in line]
        self.assertTrue(gone, report["runs"][0]["errors"])
        return report


if __name__ == "__main__":
    unittest.main()
