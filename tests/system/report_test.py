"""The JSON report: the documented keys, with the right types, and no others."""

import unittest

from program import SOURCE, run

number = (int, float)
text, flag, whole, nothing = str, bool, int, type(None)

TOP = {"report_version": whole, "scenario": text, "description": text, "complete": flag, "verified": flag,
       "interrupted": flag, "seed": whole, "payload": text, "firmware": text, "engines": text, "topology": dict, "phases": list,
       "runs": list}
TOPOLOGY = {"nodes": whole, "gpus_per_node": whole, "gpus": whole, "planes": whole}
PHASE = {"variant": text, "name": text, "micro_batch": whole, "repetition": whole, "complete": flag,
         "verified": flag, "start_us": number, "time_us": number, "floor_us": number, "floor_best_us": number,
         "hottest_link": text, "efficiency": number, "goodput_gbytes_per_s": number,
         "scale_out_bytes_per_gpu": number, "scale_up_bytes_per_gpu": number,
         "scale_out_bytes_per_gpu_with_duplicates": number, "saved_by_duplicate_removal": number, "packets": whole,
         "retransmitted": whole, "out_of_order_max": whole, "latency_ns": dict,
         "published_us": (*number, nothing), "non_finite": whole, "noise": (*number, nothing)}
LATENCY = {key: whole for key in ("packets", "p50", "p90", "p99", "p999", "max")}
RUN = {"variant": text, "complete": flag, "verified": flag, "errors": list, "simulated_us": number, "workload": text,
       "spray": text, "high_water": dict, "firmware_work": dict, "drops": dict, "counters": dict, "timeline": dict}
OF_EP = {"mode": text, "entry_policy": text, "dispatch_format": text, "combine_format": text, "partial_format": text,
         "encode_dispatch": flag, "encode_combine": flag, "biases": whole, "tokens": whole}
OF_FLOWS = {"flows": dict}
FLOWS = {"count": whole, "complete": whole, "time_us_min": number, "time_us_mean": number, "time_us_max": number,
         "victim_time_us": (*number, nothing)}
HIGH_WATER = {key: whole for key in ("window_packets", "accumulators", "packet_memory_bytes", "switch_queue_bytes")}
WORK = {"instruction_counts": text, "instructions": whole, "instructions_per_data_packet": number,
        "cores_for_line_rate": number, "core_load_mean": number, "core_load_max": number, "kinds": dict}
KIND = {"events": whole, "instructions": number}
TIMELINE = {"bin_us": number, "goodput_gbytes_per_s": list}


class Report(unittest.TestCase):
    def has(self, table, types):
        self.assertEqual(set(table), set(types))
        for key, wanted in types.items():
            self.assertIsInstance(table[key], wanted, key)
            if wanted is not flag:
                self.assertNotIsInstance(table[key], bool, key)

    def check(self, name, own_keys):
        report = run(name)[1]
        self.has(report, TOP)
        self.assertEqual(report["report_version"], 1)
        self.has(report["topology"], TOPOLOGY)
        for phase in report["phases"]:
            self.has(phase, PHASE)
            self.has(phase["latency_ns"], LATENCY)
            shares = [phase["latency_ns"][key] for key in ("p50", "p90", "p99", "p999", "max")]
            self.assertEqual(shares, sorted(shares))
        for one in report["runs"]:
            self.has(one, {**RUN, **own_keys})
            self.has(one["high_water"], HIGH_WATER)
            self.has(one["firmware_work"], WORK)
            for kind in one["firmware_work"]["kinds"].values():
                self.has(kind, KIND)
            self.has(one["timeline"], TIMELINE)
            for count in (*one["drops"].values(), *one["counters"].values()):
                self.assertIsInstance(count, int)
            if "flows" in one:
                self.has(one["flows"], FLOWS)
        return report

    def test_ep(self):
        report = self.check("ep8", OF_EP)
        self.assertEqual([phase["name"] for phase in report["phases"]], ["dispatch", "combine"])

    def test_flows(self):
        self.assertIsNotNone(self.check("incast", OF_FLOWS)["runs"][0]["flows"]["victim_time_us"])

    def test_variants(self):
        report = self.check("lossy", OF_FLOWS)
        self.assertEqual([one["variant"] for one in report["runs"]], [phase["variant"] for phase in report["phases"]])
        self.assertIsNone(report["runs"][0]["flows"]["victim_time_us"])

    def test_every_key_is_documented(self):
        documentation = (SOURCE / "docs" / "report.md").read_text()
        for types in (TOP, TOPOLOGY, PHASE, LATENCY, RUN, OF_EP, OF_FLOWS, FLOWS, HIGH_WATER, WORK, TIMELINE):
            for key in types:
                self.assertIn(f"`{key}`", documentation)

    def test_virtual_payload_is_never_verified(self):
        result, report, _ = run('payload = "virtual"\n[topology]\nnodes = 2\ngpus_per_node = 2\n'
                                '[scale_out]\nleaf_down_ports = 4\n[workload]\nkind = "permutation"\n'
                                "bytes_per_flow = 65536\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((report["payload"], report["complete"], report["verified"]), ("virtual", True, False))
        self.assertFalse(report["phases"][0]["verified"])


if __name__ == "__main__":
    unittest.main()
