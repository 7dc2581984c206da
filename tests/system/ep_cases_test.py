"""Routings, shapes and resources that EP libraries got wrong."""

import pathlib
import struct
import tempfile
import unittest

from program import SEEDS, npy, run

HEAD = """
[topology]
nodes = 2
gpus_per_node = 4
planes = 4
{sections}
[workload]
kind = "ep"
tokens = {tokens}
hidden = {hidden}
experts = 64
topk = 4
{workload}
"""
RANKS, TOPK, EXPERTS = 8, 4, 64
UNIFORM = 'routing = "uniform"'


class EpCases(unittest.TestCase):
    def check(self, tokens=32, workload=UNIFORM, sections="", hidden=1024, seed=1):
        scenario = HEAD.format(tokens=tokens, workload=workload, sections=sections, hidden=hidden)
        result, report, _ = run(scenario, "--seed", seed)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["complete"] and report["verified"])
        self.assertEqual(report["runs"][0]["errors"], [])
        for phase in report["phases"]:
            self.assertLess(phase["scale_up_bytes_per_gpu"], 1e9)  # a count did not go below zero
        return report

    def routed(self, choose, tokens=32):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "routing.npy"
            values = [choose(rank, token, k) for rank in range(RANKS) for token in range(tokens) for k in range(TOPK)]
            path.write_bytes(npy(struct.pack(f"<{len(values)}h", *values), "<i2", (RANKS, tokens, TOPK)))
            return self.check(tokens, f'routing = "{path}"')

    def test_no_token_has_an_expert(self):
        report = self.routed(lambda rank, token, k: -1)
        self.assertEqual([phase["scale_up_bytes_per_gpu"] for phase in report["phases"]], [0, 0])

    def test_some_choices_are_missing(self):
        self.routed(lambda rank, token, k: -1 if (token + k) % 3 else (rank * 7 + token * 5 + k) % EXPERTS)

    def test_one_rank_s_tokens_have_no_expert(self):
        self.routed(lambda rank, token, k: -1 if rank == 3 else (rank * 7 + token * 5 + 9 * k) % EXPERTS)

    def test_an_expert_chosen_twice_by_a_token(self):
        self.routed(lambda rank, token, k: (rank + token) % 64 if k < 2 else (rank * 3 + token + 9 * k) % 64)

    def test_an_expert_chosen_by_every_place(self):
        self.routed(lambda rank, token, k: (rank * 5 + token) % EXPERTS)

    def test_all_tokens_to_one_rank(self):
        self.routed(lambda rank, token, k: EXPERTS - TOPK + k, tokens=300)

    def test_all_tokens_stay_at_home(self):
        report = self.routed(lambda rank, token, k: rank * (EXPERTS // RANKS) + k)
        dispatch, combine = report["phases"]
        # Ranks still tell each other how many rows come, here none: a packet for each pair, and no more.
        self.assertLessEqual(dispatch["packets"], RANKS * RANKS)
        self.assertEqual((combine["packets"], combine["scale_out_bytes_per_gpu"]), (0, 0))

    def test_idle_ranks_take_part(self):
        self.check(workload=f"{UNIFORM}\nidle_ranks = [0, 3, 7]")
        self.check(workload=f"{UNIFORM}\nidle_ranks = [0, 1, 2, 3, 4, 5, 6, 7]")
        self.check(tokens=0)

    def test_all_but_ten_tokens_alike(self):
        for policy in ("same_index", "spread", "target", "balanced"):
            with self.subTest(policy):
                self.check(tokens=2304, workload=f'routing = "skewed"\nentry_policy = "{policy}"')

    def test_two_micro_batches_at_once(self):
        for repeat in (1, 3):
            phases = self.check(workload=f"{UNIFORM}\nmicro_batches = 2\nrepeat = {repeat}")["phases"]
            self.assertEqual([phase["micro_batch"] for phase in phases], [0, 1] * 2 * repeat)
            first, second = (phase for phase in phases[:2])
            self.assertEqual(first["start_us"], second["start_us"])  # both were in flight

    def test_cached_routing(self):
        phases = self.check(workload=f"{UNIFORM}\nrepeat = 3\ncached = true")["phases"]
        self.assertEqual([(p["name"], p["repetition"]) for p in phases],
                         [(name, repetition) for repetition in range(3) for name in ("dispatch", "combine")])
        self.check(workload=f"{UNIFORM}\nrepeat = 2\ncached = true\nmicro_batches = 2")

    def test_every_policy_and_format(self):
        for policy in ("same_index", "spread", "target", "balanced"):
            for form in ("bf16", "e4m3_f32"):
                with self.subTest(policy, form=form):
                    self.check(workload=f'{UNIFORM}\nentry_policy = "{policy}"\ndispatch_format = "{form}"')

    def test_hidden_sizes_and_mtus(self):
        for hidden in (128, 2880, 7168, 8192, 16384):
            for mtu in (256, 1024, 4096):
                if 2 * hidden > 32 * mtu:  # more parts than a row may have
                    continue
                for form in ("bf16", "e4m3_f32"):
                    with self.subTest(hidden=hidden, mtu=mtu, form=form):
                        self.check(tokens=16, hidden=hidden, sections=f"[scale_out]\nmtu_bytes = {mtu}",
                                   workload=f'{UNIFORM}\ndispatch_format = "{form}"')

    def shaped(self, experts, topk, workload=UNIFORM, tokens=64, hidden=1024):
        scenario = HEAD.format(tokens=tokens, workload=workload, sections="", hidden=hidden)
        scenario = scenario.replace("experts = 64", f"experts = {experts}").replace("topk = 4", f"topk = {topk}")
        result, report, _ = run(scenario)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["complete"] and report["verified"])

    def test_many_experts_and_one_choice_or_sixteen(self):
        for experts, topk in ((8, 1), (64, 1), (512, 1), (512, 16), (1024, 16)):
            for mode in ("normal", "low_latency"):
                with self.subTest(experts=experts, topk=topk, mode=mode):
                    self.shaped(experts, topk, f'{UNIFORM}\nmode = "{mode}"')

    def test_buffers_beyond_four_gibibytes(self):
        # Outputs of [64 experts, 8 ranks, 512 tokens, 16384 elements] in BF16: 8 GiB of each rank.
        self.shaped(512, 4, f'{UNIFORM}\nmode = "low_latency"\ndispatch_format = "bf16"\n'
                            "idle_ranks = [0, 1, 2, 4, 5, 6, 7]", tokens=512, hidden=16384)

    def test_low_latency(self):
        low_latency = f'{UNIFORM}\nmode = "low_latency"\n'
        for workload in ("idle_ranks = [0, 3, 7]", "idle_ranks = [0, 1, 2, 3, 4, 5, 6, 7]", "repeat = 3",
                         "micro_batches = 2", 'weights_at = "combine"\nmicro_batches = 2\nrepeat = 2',
                         'dispatch_format = "bf16"', 'entry_policy = "target"', 'entry_policy = "same_index"'):
            with self.subTest(workload):
                self.check(workload=low_latency + workload)
        self.check(workload='routing = "skewed"\nmode = "low_latency"', tokens=512)
        self.check(workload=low_latency, sections="[scale_out]\nloss = 0.01\nreordering = 0.05\n"
                                                  "reordering_delay_ns = 20000\nduplication = 0.01")

    def test_few_accumulators(self):
        for accumulators in (8, 16, 32, 64):
            for routing in ("uniform", "skewed"):
                with self.subTest(accumulators, routing=routing):
                    report = self.check(tokens=256, workload=f'routing = "{routing}"',
                                        sections=f"[device]\naccumulators = {accumulators}")
                    self.assertLessEqual(report["runs"][0]["high_water"]["accumulators"], accumulators)

    def test_little_packet_memory(self):
        for memory, reserve in ((65536, 0), (65536, 32768), (131072, 65536), (1 << 20, 1 << 18)):
            for seed in SEEDS:
                with self.subTest(memory, reserve=reserve, seed=seed):
                    report = self.check(tokens=128, seed=seed,
                                        sections=f"[device]\npacket_memory_bytes = {memory}\n"
                                                 f"scale_up_reserve_bytes = {reserve}\naccumulators = 16")
                    self.assertLessEqual(report["runs"][0]["high_water"]["packet_memory_bytes"], memory)

    def test_nodes_and_planes(self):
        for nodes, gpus, planes in ((1, 1, 4), (1, 8, 4), (8, 1, 4), (2, 4, 1), (2, 4, 2), (2, 4, 8)):
            with self.subTest(nodes=nodes, gpus=gpus, planes=planes):
                scenario = HEAD.format(tokens=32, workload=UNIFORM, sections="", hidden=1024)
                scenario = scenario.replace("nodes = 2", f"nodes = {nodes}", 1).replace(
                    "gpus_per_node = 4", f"gpus_per_node = {gpus}").replace("planes = 4", f"planes = {planes}")
                result, report, _ = run(scenario)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertTrue(report["verified"])


if __name__ == "__main__":
    unittest.main()
