"""Bad input: exit status 2 and one line that names the file, the place and what was expected. Nothing is run."""

import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

from program import PLAIT, npy, plait

GOOD = '[topology]\nnodes = 2\ngpus_per_node = 4\nplanes = 4\n[workload]\nkind = "ep"\ntokens = 4\ntopk = 2\nexperts = 64\nhidden = 1024\n'
FLOWS = '[topology]\nnodes = 2\ngpus_per_node = 4\n[workload]\nkind = "incast"\n'

# What is wrong, and words of the line that says so.
KEYS = (
    (GOOD.replace("tokens", "tokns"), "workload.tokns", "tokens"),
    (GOOD.replace("[topology]", "[topolgy]"), "topolgy", "topology"),
    (GOOD + "[[fault]]\nat_us = 1\nwhat = \"plane_down\"\nplane = 0\nsilnt = true\n", "silnt", "silent"),
    (GOOD + "zebra = 1\n", "workload.zebra", "expected"),
    (GOOD.replace("planes = 4", "planes = 4\nplanes = 4"), "case.toml:5"),
    (GOOD + "= 3\n", "not TOML"),
    (GOOD + 'entry_policy = "nearest"\n', "entry_policy", "same_index"),
    ("", "workload"),
)
TYPES = (
    (GOOD.replace("tokens = 4", 'tokens = "four"'), "workload.tokens", "integer"),
    (GOOD.replace("tokens = 4", "tokens = 4.0"), "workload.tokens", "integer"),
    (GOOD.replace("tokens = 4", "tokens = -1"), "workload.tokens", "integer"),
    (GOOD.replace("tokens = 4", "tokens = 16385"), "workload.tokens", "16384"),
    (GOOD.replace("tokens = 4", "tokens = [4]"), "workload.tokens", "integer"),
    (GOOD.replace("tokens = 4", "tokens = true"), "workload.tokens", "integer"),
    (GOOD + "cached = 1\n", "workload.cached", "true or false"),
    (GOOD + "idle_ranks = [8]\n", "workload.idle_ranks", "7"),
    ("topology = 3\n[workload]\nkind = \"ep\"\n", "topology", "table"),
    ("seed = -1\n" + GOOD, "seed", "integer"),
    (GOOD.replace("[workload]", "[scale_out]\nloss = 1.5\n[workload]"), "scale_out.loss", "0 to 1"),
    (GOOD.replace("[workload]", "[scale_out]\nloss = nan\n[workload]"), "scale_out.loss", "0 to 1"),
    (GOOD.replace("[workload]", "[scale_out]\nmtu_bytes = 1500\n[workload]"), "scale_out.mtu_bytes", "power of two"),
)
IMPOSSIBLE = (
    (GOOD.replace("planes = 4", "planes = 0"), "topology.planes", "1 to 8"),
    (GOOD.replace("planes = 4", "planes = 9"), "topology.planes", "1 to 8"),
    (GOOD.replace("gpus_per_node = 4", "gpus_per_node = 9"), "topology.gpus_per_node"),
    (GOOD.replace("gpus_per_node = 4", "gpus_per_node = 3"), "leaf_down_ports", "gpus_per_node = 3"),
    (GOOD.replace("planes = 4", "planes = 3"), "entropy_values", "planes"),
    (GOOD.replace("[workload]", "[scale_out]\nspine_ports = 1\nleaf_down_ports = 4\n[workload]"), "spine_ports", "2 leaves"),
    (GOOD.replace("nodes = 2", "nodes = 64"), "256"),
    (GOOD.replace("experts = 64", "experts = 63"), "workload.experts", "multiple of the ranks"),
    (GOOD.replace("topk = 2", "topk = 17"), "workload.topk", "16"),
    (GOOD.replace("hidden = 1024", "hidden = 2890"), "workload.hidden", "multiple of 64"),
    (GOOD.replace("hidden = 1024", 'hidden = 3584\ncombine_format = "e4m3_f32"\npartial_format = "e4m3_f32"').replace(
        "[workload]", "[device]\naccumulators = 6\n[workload]"), "workload.hidden", "7 quarters", "accumulators = 6"),
    (GOOD.replace("hidden = 1024", "hidden = 7168").replace("[workload]", "[scale_out]\nmtu_bytes = 256\n[workload]"),
     "workload.hidden", "parts"),
    (GOOD.replace("[workload]", "[device]\naccumulators = 3\n[workload]"), "workload.hidden", "accumulators"),
    (GOOD.replace("hidden = 1024", "hidden = 7168").replace("[workload]", "[device]\npacket_memory_bytes = 65536\n"
                                                            "scale_up_reserve_bytes = 0\n[workload]"),
     "workload.hidden", "packet_memory_bytes"),
    (GOOD + "biases = 3\n", "workload.biases", "0 to 2"),
    ('engines = "verilog"\n' + GOOD, "engines", '"rtl"'),
    ('engines = "rtl"\npayload = "virtual"\n' + GOOD, "engines", 'payload = "real"'),
    ('engines = "rtl"\nfirmware = "riscv"\n' + GOOD, "engines", '"native"'),
    ('engines = "rtl"\nrtl_nodes = [2]\n' + GOOD, "rtl_nodes", "0 to 1"),
    ('engines = "rtl"\nrtl_devices = [8]\n' + GOOD, "rtl_devices", "0 to 7"),
    ("rtl_nodes = [1]\n" + GOOD, "rtl_nodes"),
    ('engines = "rtl"\nrtl_blocks = ["plait_ram"]\n' + GOOD, "plait_ram", "rtl_blocks", "plait_icrc"),
    ('engines = "rtl"\nrtl_blocks = []\n' + GOOD, "rtl_blocks", "plait_icrc"),
    ('engines = "rtl"\n' + GOOD + "[device]\naccumulators = 257\n", "plait_reduce", "257", "rtl_blocks"),
    ("[topology]\nnodes = 8\ngpus_per_node = 1\n[device]\npacket_memory_bytes = 200000\nscale_up_reserve_bytes = 0\n"
     '[workload]\nkind = "ep"\nhidden = 4096\nexperts = 64\nbiases = 2\n', "workload.biases", "packet_memory_bytes"),
    (FLOWS + "receiver = 8\n", "workload.receiver", "0 to 7"),
    (FLOWS + "senders = 8\n", "workload.senders", "1 to 7"),
    (FLOWS + "message_bytes = 2147483648\n", "workload.message_bytes", "2147483647"),
    (FLOWS + "victim = { source = 1, destination = 1 }\n", "victim.destination"),
    (FLOWS + '[[fault]]\nat_us = 1\nwhat = "plane_down"\nplane = 4\n', "fault[0].plane", "0 to 3"),
    (FLOWS + '[[fault]]\nat_us = 1\nwhat = "meteor"\n', "fault[0].what", "plane_down"),
    (FLOWS + '[[variant]]\nname = "a"\n[[variant]]\nname = "a"\n', "variant[1].name"),
    (FLOWS + "[[variant]]\nworkload = { sendrs = 2 }\nname = \"a\"\n", "sendrs", "senders"),
)


class Input(unittest.TestCase):
    def refused(self, *arguments, words=()):
        result = plait(*arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr.endswith("\n"))
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def files_refused(self, cases):
        for text, *words in cases:
            with self.subTest(words), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "case.toml"
                path.write_text(text)
                out = pathlib.Path(folder) / "report.json"
                self.refused("run", path, "--json", out, words=(str(path), *words))
                self.assertFalse(out.exists())
                self.refused("check", path, words=(str(path), *words))

    def test_good_input_is_taken(self):
        for text in (GOOD, FLOWS):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "case.toml"
                path.write_text(text)
                result = plait("check", path)
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_keys(self):
        self.files_refused(KEYS)

    def test_types_and_ranges(self):
        self.files_refused(TYPES)

    def test_impossible_combinations(self):
        self.files_refused(IMPOSSIBLE)

    def routing_refused(self, data, *words, key="routing"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "array.npy"
            path.write_bytes(data)
            case = pathlib.Path(folder) / "case.toml"
            good_routing = npy(bytes(64), "|u1", (8, 4, 2))
            (pathlib.Path(folder) / "good.npy").write_bytes(good_routing)
            case.write_text(GOOD + ('routing = "array.npy"\n' if key == "routing" else
                                    'routing = "good.npy"\nrouting_weights = "array.npy"\n'))
            self.refused("run", case, words=("array.npy", *words))

    def test_routing_ids(self):
        shape = (8, 4, 2)
        for bad in (64, -2, 32767):
            values = [0] * 64
            values[13] = bad  # rank 1, token 2, choice 1
            self.routing_refused(npy(struct.pack("<64h", *values), "<i2", shape), str(bad), "rank 1", "token 2", "63")
        self.routing_refused(npy(bytes(63) + b"\x40", "|u1", shape), "64", "rank 7")
        self.routing_refused(npy(struct.pack("<64q", *([1 << 32] + [0] * 63)), "<i8", shape), str(1 << 32))

    def test_routing_files(self):
        good = bytes(64)
        for data, *words in (
                (npy(bytes(256), "<f4", (8, 4, 2)), "f4", "expected"),
                (npy(bytes(256), "<u4", (8, 4, 2)), "u4", "expected"),
                (npy(bytes(128), ">i2", (8, 4, 2)), ">i2", "expected"),
                (npy(good, "|u1", (64,)), "expected"),
                (npy(good, "|u1", (2, 2, 4, 4)), "expected"),
                (npy(good, "|u1", (4, 8, 2)), "expected"),
                (npy(good, "|u1", (8, 8, 1)), "expected"),
                (npy(good[:-2], "|u1", (8, 4, 2)), "expected"),
                (npy(good, "|u1", (8, 2, 2)), "expected"),
                (npy(good, "|u1", (1 << 62, 4, 2)), "expected"),
                (npy(good, "|u1", (8, 4, 2)).replace(b"False", b"True "), "expected"),
                (npy(good, "|u1", (8, 4, 2))[:9], "expected"),
                (b"\x93NUMPY\x01\x00\xff\xff", "expected"),
                (b"PK\x03\x04" + bytes(60), "expected"),
                (b"",)):
            with self.subTest(data[:70]):
                self.routing_refused(data, *words)

    def test_weights(self):
        for data, *words in ((npy(bytes(64), "|u1", (8, 4, 2)), "u1"), (npy(bytes(256), "<f4", (4, 8, 2)),),
                             (npy(struct.pack("<64f", *([float("nan")] * 64)), "<f4", (8, 4, 2)), "nan")):
            with self.subTest(data[:70]):
                self.routing_refused(data, *words, key="weights")

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            missing = pathlib.Path(folder) / "missing.toml"
            empty = pathlib.Path(folder) / "empty.toml"
            empty.touch()
            case = pathlib.Path(folder) / "case.toml"
            for command in ("run", "check"):
                self.refused(command, "no-such-scenario", words=("no-such-scenario",))
                self.refused(command, "ep46", words=("ep46", "did you mean"))
                self.refused(command, missing, words=(str(missing),))
                self.refused(command, empty, words=(str(empty), "workload"))
                self.refused(command, folder, words=(folder,))
                case.write_text(GOOD + 'routing = "missing.npy"\n')
                self.refused(command, case, words=("missing.npy",))
                case.write_text(GOOD + 'routing = "missing"\n')
                self.refused(command, case, words=(str(case), "workload.routing", ".npy"))
                case.write_bytes(b"\xff\xfe\x00binary" * 9)
                self.refused(command, case, words=(str(case),))
            self.refused("run", "ep8", "--json", folder, words=("--json", folder))
            self.refused("run", "ep8", "--json", f"{folder}/no/such/folder.json", words=("--json",))

    def test_options(self):
        for arguments, *words in (
                ((), "list, check, run, profile, calibrate or campaign"),
                (("frobnicate",), "frobnicate", "list, check, run, profile, calibrate or campaign"),
                (("run",), "SCENARIO"),
                (("run", "ep8", "--no-such-option"), "--no-such-option", "plait run SCENARIO"),
                (("run", "ep8", "--jsn", "x"), "--jsn", 'did you mean "--json"?'),
                (("run", "ep8", "--seed"), "--seed", "missing"),
                (("run", "ep8", "--seed", "-1"), "--seed", "-1", "integer from 0"),
                (("run", "ep8", "--seed", "one"), "--seed", "one", "integer from 0"),
                (("run", "ep8", "--json", ""), "--json", "expected a file"),
                (("run", "ep8", "ep16"), "ep16", "plait run SCENARIO"),
                (("check", "ep8", "--json", "x"), "--json", "plait check SCENARIO"),
                (("list", "ep8"), "ep8", "plait list")):
            with self.subTest(arguments):
                self.refused(*arguments, words=words)

    def test_too_large_for_memory_is_refused_before_anything_is_allocated(self):
        huge = ('[topology]\nnodes = 2048\ngpus_per_node = 8\n[scale_out]\nspine_ports = 1024\n'
                '[device]\npacket_memory_bytes = 1073741824\n[workload]\nkind = "permutation"\n')
        limited = GOOD + "[limits]\nmemory_gib = 0.01\n"
        for text, *words in ((huge, "GiB", "available"), (limited, "GiB", "limits.memory_gib")):
            with self.subTest(words), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "case.toml"
                path.write_text(text)
                with subprocess.Popen([PLAIT, "run", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True) as process:
                    line = process.stderr.read()
                    _, status, usage = os.wait4(process.pid, 0)
                    process.returncode = os.waitstatus_to_exitcode(status)
                self.assertEqual(process.returncode, 2, line)
                self.assertEqual(len(line.splitlines()), 1, line)
                for word in (str(path), *words):
                    self.assertIn(word, line)
                self.assertLess(usage.ru_maxrss, 256 * 1024)  # KiB; room for a sanitizer


if __name__ == "__main__":
    unittest.main()
