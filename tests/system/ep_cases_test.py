import pathlib
import struct
import tempfile
import unittest

from program import npy, run

HEAD = """
[topology]
nodes = 2
gpus_per_node = 4
planes = 4
{sections}
[workload]
kind = "ep"
tokens = {tokens}
hidden = 1024
experts = 64
topk = 4
{workload}
"""


class EpCases(unittest.TestCase):
    def check(self, tokens=32, workload='routing = "uniform"', sections=""):
        result, report, _ = run(HEAD.format(tokens=tokens, workload=workload, sections=sections))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["complete"] and report["verified"])
        return report

    def routed(self, choose, tokens=32):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "routing.npy"
            values = [choose(rank, token, k) for rank in range(8) for token in range(tokens) for k in range(4)]
            path.write_bytes(npy(struct.pack(f"<{len(values)}h", *values), "<i2", (8, tokens, 4)))
            return self.check(tokens, f'routing = "{path}"')

    def test_no_token_has_an_expert(self):
        self.routed(lambda rank, token, k: -1)

    def test_some_choices_are_missing(self):
        self.routed(lambda rank, token, k: -1 if (token + k) % 3 else (rank * 7 + token * 5 + k) % 64)

    def test_an_expert_chosen_twice_by_a_token(self):
        self.routed(lambda rank, token, k: (rank + token) % 64 if k < 2 else (rank * 3 + token + 9 * k) % 64)

    def test_idle_ranks_take_part(self):
        self.check(workload='routing = "uniform"\nidle_ranks = [0, 3, 7]')

    def test_all_but_ten_tokens_alike(self):
        self.check(tokens=2304, workload='routing = "skewed"')

    def test_two_micro_batches_at_once(self):
        self.check(workload='routing = "uniform"\nmicro_batches = 2')

    def test_cached_routing(self):
        self.assertEqual(len(self.check(workload='routing = "uniform"\nrepeat = 3\ncached = true')["phases"]), 6)

    def test_every_policy_and_format(self):
        for policy in ("same_index", "spread", "target"):
            for form in ("bf16", "e4m3_f32"):
                with self.subTest(policy, form=form):
                    self.check(workload=f'routing = "uniform"\nentry_policy = "{policy}"\ndispatch_format = "{form}"')

    def test_few_accumulators(self):
        self.check(tokens=128, sections="[device]\naccumulators = 16")


if __name__ == "__main__":
    unittest.main()
