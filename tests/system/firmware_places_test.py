"""The firmware image does what native firmware does: with the same costs, everything in the report is the same."""

import unittest

from program import DEVICE_DOWN, SCENARIOS, SMALL_EP, run

EP = SMALL_EP + 'entry_policy = "spread"\n'
LOW_LATENCY = """
[topology]
nodes = 2
gpus_per_node = 4
[workload]
kind = "ep"
mode = "low_latency"
tokens = 16
hidden = 2048
experts = 64
combine_format = "logfmt10"
partial_format = "logfmt10"
encode_combine = true
"""
LOSSY = EP.replace("[workload]", "[scale_out]\nloss = 0.01\nduplication = 0.01\n[workload]").replace("48", "16")
PLANE_DOWN = EP + '[[fault]]\nat_us = 30\nwhat = "plane_down"\nplane = 1\nsilent = true\n'
DEAD_DEVICE = EP + DEVICE_DOWN
FLOWS = """
[topology]
nodes = 2
gpus_per_node = 4
[workload]
kind = "%s"
operation = "%s"
bytes_per_flow = 400000
message_bytes = 40000
qps_per_flow = 2
"""
CASES = {
    "ep": EP, "low_latency": LOW_LATENCY, "lossy": LOSSY, "plane_down": PLANE_DOWN, "dead_device": DEAD_DEVICE,
    "write": FLOWS % ("permutation", "write"), "send": FLOWS % ("alltoall", "send"),
    "write_immediate": FLOWS % ("incast", "write_immediate"),
}
DECLARED = '\n[device]\ninstruction_counts = "declared"\n'


class FirmwarePlaces(unittest.TestCase):
    def same(self, scenario, image):
        native = run(scenario)[1]
        riscv = run('firmware = "riscv"\n' + scenario + DECLARED, "--image", image)[1]
        self.assertEqual((native.pop("firmware"), riscv.pop("firmware")), ("native", "riscv"))
        for one in riscv["runs"]:
            self.assertGreater(one["firmware_work"].pop("stack_bytes"), 0)
            one["firmware_work"].pop("paths", None)
        self.assertEqual(native, riscv)

    def test_everything_is_the_same(self):
        for name, scenario in CASES.items():
            with self.subTest(name):
                self.same(scenario, "riscv-O2")

    def test_of_either_image(self):
        self.same(EP, "riscv-Os")

    def test_all_of_ep8(self):
        text = (SCENARIOS / "ep8.toml").read_text().replace('"data/', f'"{SCENARIOS}/data/')
        self.same(text, "riscv-O2")

    def test_measured_runs_are_repeatable_and_right(self):
        first = run(EP, "--firmware", "riscv")
        self.assertEqual(first[0].returncode, 0, first[0].stderr)
        self.assertEqual(first[1]["runs"][0]["firmware_work"]["instruction_counts"], "measured")
        self.assertEqual(first[2], run(EP, "--firmware", "riscv")[2])


if __name__ == "__main__":
    unittest.main()
