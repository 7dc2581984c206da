"""The published size: every byte, and what must be reached."""

import unittest

from figures import FULL_SIZE, FULL_SIZE_FP8_COMBINE
from program import SCENARIOS, run


class FullSize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result, cls.report, _ = run("ep64-full", timeout=580)
        cls.phases = {phase["name"]: phase for phase in cls.report["phases"]} if cls.report else {}

    def test_every_byte_is_right(self):
        self.assertEqual(self.result.returncode, 0, self.result.stdout + self.result.stderr)
        self.assertTrue(self.report["complete"] and self.report["verified"])

    def test_must_reach(self):
        for name, (efficiency, time_us) in FULL_SIZE.items():
            with self.subTest(name):
                self.assertGreaterEqual(self.phases[name]["efficiency"], efficiency)
                self.assertLess(self.phases[name]["time_us"], time_us)

    def test_combine_of_fp8_rows(self):
        """Given as FP8, or as BF16 that the devices encode: the host interface is the busiest link then."""
        text = (SCENARIOS / "ep64-full.toml").read_text().replace('"data/', f'"{SCENARIOS}/data/')
        fp8 = 'combine_format = "e4m3_f32"\npartial_format = "e4m3_f32"\n'
        variants = '[[variant]]\nname = "given"\n[[variant]]\nname = "encoded"\nworkload = { encode_combine = true }\n'
        virtual = 'payload = "virtual"\n' + text.replace("[workload]\n", "[workload]\n" + fp8) + variants  # takes the same time
        _, report, _ = run(virtual, timeout=580)
        combines = [phase for phase in report["phases"] if phase["name"] == "combine"]
        self.assertEqual(len(combines), 2)
        for combine in combines:
            with self.subTest(combine["variant"]):
                self.assertGreaterEqual(combine["efficiency"], FULL_SIZE_FP8_COMBINE)


if __name__ == "__main__":
    unittest.main()
