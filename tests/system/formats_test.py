"""EP in every format: each combination of them runs, and every byte is right."""

import unittest

from program import run

HEAD = """[topology]
nodes = 2
gpus_per_node = 4
planes = 4
[workload]
kind = "ep"
tokens = 16
experts = 32
topk = 6
"""
ENCODED = ("e4m3_f32", "e4m3_ue8m0", "e5m2_f32", "e5m2_ue8m0", "logfmt8", "logfmt10")
FORMATS = ("bf16", *ENCODED, "f32")


class Formats(unittest.TestCase):
    def check(self, hidden=320, payload="real", **keys):
        lines = [f"{key} = " + (f'"{value}"' if isinstance(value, str) else str(value).lower()) for key, value in keys.items() if value]
        result, report, _ = run(f'payload = "{payload}"\n{HEAD}hidden = {hidden}\n' + "\n".join(lines) + "\n")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(report["verified"], payload == "real")
        for phase in report["phases"]:
            self.assertEqual(phase["non_finite"], 0)
        return report

    def test_dispatch(self):
        for hidden in (320, 2880):
            for form in FORMATS[:-1]:
                for encode in (False, True) if form in ENCODED else (False,):
                    with self.subTest(form, hidden=hidden, encode=encode):
                        self.check(hidden, dispatch_format=form, encode_dispatch=encode)

    def test_combine(self):
        for combine in FORMATS:
            for partial in FORMATS:
                for encode in (False, True) if combine in ENCODED else (False,):
                    with self.subTest(combine, partial=partial, encode=encode):
                        self.check(combine_format=combine, partial_format=partial, encode_combine=encode)

    def test_biases_are_bf16_beside_any_format(self):
        for form in FORMATS:
            for biases in (1, 2):
                for mode in ("normal", "low_latency"):
                    with self.subTest(form, biases=biases, mode=mode):
                        self.check(combine_format=form, partial_format=form, biases=biases, mode=mode)
        self.check(7168, combine_format="e4m3_f32", partial_format="e4m3_f32", biases=2)

    def test_hidden_that_no_block_divides(self):
        for form in ENCODED:
            with self.subTest(form):
                self.check(2880, dispatch_format=form, combine_format=form, partial_format=form,
                           encode_dispatch=True, encode_combine=True)

    def noise(self, **keys):
        dispatch, combine = self.check(2880, **keys)["phases"]
        self.assertIsNone(dispatch["noise"])
        return combine["noise"]

    def test_noise_grows_as_rows_shrink(self):
        for place in ("combine_format", "partial_format"):
            noise = [self.noise(**{place: form}) for form in ("f32", "bf16", "logfmt10", "logfmt8", "e5m2_f32")]
            self.assertEqual(noise, sorted(noise), place)
            self.assertGreater(noise[-1], 10 * noise[0], place)
        self.assertEqual(self.noise(combine_format="logfmt8"), self.noise(combine_format="logfmt8", encode_combine=True),
                         "who encodes makes no difference")

    def test_virtual_payload_takes_the_same_time(self):
        keys = {"dispatch_format": "e4m3_ue8m0", "encode_dispatch": True, "combine_format": "logfmt10",
                "encode_combine": True, "partial_format": "e5m2_f32"}
        real, virtual = (self.check(2880, payload, **keys)["phases"] for payload in ("real", "virtual"))
        self.assertEqual([phase["time_us"] for phase in real], [phase["time_us"] for phase in virtual])
        self.assertIsNone(virtual[1]["noise"])


if __name__ == "__main__":
    unittest.main()
