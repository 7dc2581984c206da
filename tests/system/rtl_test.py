"""Verilated engines in the simulator's loop: the same results and completions as with the C++ engines, in the same time."""

import unittest

from program import DEVICE_DOWN, SMALL_EP, run

MOST_APART = 0.05  # of a phase's time

FAULTS = SMALL_EP.replace("[workload]", "[scale_out]\nloss = 0.01\nduplication = 0.01\ncorruption = 0.01\n[workload]")
FLOWS = """
[topology]
nodes = 2
gpus_per_node = 4
[scale_out]
%s
[workload]
kind = "%s"
operation = "%s"
bytes_per_flow = 400000
message_bytes = 40000
qps_per_flow = 2
"""
CASES = {
    "ep": SMALL_EP,
    "faults": FAULTS,
    "dead_device": SMALL_EP + DEVICE_DOWN,
    "small_window": SMALL_EP + "[transport]\nwindow_packets = 64\n",
    "trimming": FLOWS % ("trimming = true\nbuffer_bytes = 16384\necn_threshold_bytes = 8192", "incast", "write"),
    "out_of_order": FLOWS.replace("400000", "4000000") % ("reordering = 0.1\nreordering_delay_ns = 8000", "permutation", "send"),
    "immediates": FLOWS % ("", "alltoall", "write_immediate"),
}
BLOCKS = ["plait_rx_window", "plait_spray", "plait_icrc", "plait_forward", "plait_order", "plait_quantise", "plait_reduce"]
# Without plait_reduce, which takes most of the time.
QUICK = f"engines = \"rtl\"\nrtl_blocks = {BLOCKS[:-1]}\n"
ALL = 'engines = "rtl"\n'
FEW_TOKENS = SMALL_EP.replace("tokens = 48", "tokens = 3")
SUMS = {
    "bf16": "",
    "encoded_fp8": 'encode_dispatch = true\nencode_combine = true\ncombine_format = "e4m3_f32"\npartial_format = "e4m3_ue8m0"\n',
    "weights_and_bias": 'mode = "low_latency"\nbiases = 1\n',
    "logfmt10": 'combine_format = "logfmt10"\npartial_format = "f32"\nencode_combine = true\n',
}


class Rtl(unittest.TestCase):
    def compare(self, cpp, rtl):
        """Everything that was moved and done is the same, and about as fast."""
        self.assertEqual((cpp[0].returncode, cpp[0].stderr), (rtl[0].returncode, rtl[0].stderr))
        for before, after in zip(cpp[1]["phases"], rtl[1]["phases"], strict=True):
            for key in ("name", "complete", "verified", "floor_us", "non_finite", "noise"):
                self.assertEqual(before[key], after[key], key)
            self.assertAlmostEqual(after["time_us"] / max(before["time_us"], 1e-9), 1, delta=MOST_APART)
        for before, after in zip(cpp[1]["runs"], rtl[1]["runs"], strict=True):
            self.assertEqual(before["errors"], after["errors"])
            for key in ("qp_errors", "host_faults", "reductions"):
                self.assertEqual(before["counters"][key], after["counters"][key], key)
        return rtl[1]["runs"][0]["blocks"]

    def test_ep8_with_the_engines_of_a_node(self):
        blocks = self.compare(run("ep8"), run("ep8-rtl"))
        self.assertEqual(list(blocks), BLOCKS)
        del blocks["plait_quantise"]  # its rows come encoded
        for block in blocks.values():
            self.assertGreater(block["commands"], 4000)
        self.assertEqual([blocks[name]["cycles_max"] for name in ("plait_rx_window", "plait_forward")], [3, 1])

    def test_all_devices_whatever_happens(self):
        for name, scenario in CASES.items():
            with self.subTest(name):
                self.compare(run(scenario), run(ALL + scenario))

    def test_sums_and_rows_of_formats(self):
        for name, keys in SUMS.items():
            with self.subTest(name):
                scenario = FEW_TOKENS + keys
                blocks = self.compare(run(scenario), run(ALL + scenario))
                self.assertEqual(list(blocks), BLOCKS)
                self.assertGreater(blocks["plait_reduce"]["commands"], 300)
                self.assertEqual(blocks["plait_quantise"]["commands"] > 0, "encode" in keys)

    def test_the_same_bytes_again(self):
        first = run(QUICK + FAULTS)
        self.assertEqual(first[2], run(QUICK + FAULTS)[2])

    def test_chosen_devices(self):
        def commands(keys):
            return run(QUICK + keys + SMALL_EP)[1]["runs"][0]["blocks"]["plait_icrc"]["commands"]

        every = commands("")
        self.assertEqual(commands("rtl_nodes = [0]\nrtl_devices = [4, 5, 6, 7]\n"), every)
        self.assertEqual(commands("rtl_nodes = [1]\n") + commands("rtl_devices = [1, 0, 3, 2, 2]\n"), every)
        self.assertLess(commands("rtl_devices = [6]\n"), every / 4)

    def test_a_slow_clock(self):
        slow = SMALL_EP.replace("[workload]", "[device]\nclock_ghz = 0.05\ncore_mhz = 1000\n[workload]")
        self.assertGreater(run(slow)[1]["phases"][0]["time_us"], 1.5 * run(SMALL_EP)[1]["phases"][0]["time_us"])
        self.compare(run(slow), run(QUICK + slow))


if __name__ == "__main__":
    unittest.main()
