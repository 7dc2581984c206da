import pathlib
import struct
import tempfile
import unittest

from program import npy, plait

GOOD = '[topology]\nnodes = 2\ngpus_per_node = 4\nplanes = 4\n[workload]\nkind = "ep"\ntokens = 4\ntopk = 2\nexperts = 64\nhidden = 1024\n'


class Input(unittest.TestCase):
    def refused(self, *arguments, words=()):
        result = plait(*arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        lines = result.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def file_refused(self, text, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "case.toml"
            path.write_text(text)
            self.refused("run", path, words=("case.toml", *words))

    def routing_refused(self, data, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "routing.npy"
            path.write_bytes(data)
            case = pathlib.Path(folder) / "case.toml"
            case.write_text(GOOD + 'routing = "routing.npy"\n')
            self.refused("run", case, words=("routing.npy", *words))

    def test_keys_and_types(self):
        self.file_refused(GOOD.replace("tokens", "tokns"), "tokns")
        self.file_refused(GOOD.replace("tokens = 4", 'tokens = "four"'), "tokens")
        self.file_refused(GOOD.replace("planes = 4", "planes = 0"), "planes")
        self.file_refused("")

    def test_routing(self):
        good = struct.pack("<64h", *range(64))
        self.routing_refused(npy(struct.pack("<64h", *([64] + [0] * 63)), "<i2", (8, 4, 2)), "64")
        self.routing_refused(npy(struct.pack("<64f", *([0] * 64)), "<f4", (8, 4, 2)), "f4")
        self.routing_refused(npy(good, "<i2", (64,)))
        self.routing_refused(npy(good[:-2], "<i2", (8, 4, 2)))
        self.routing_refused(b"")

    def test_files_and_options(self):
        self.refused("run", "no-such-scenario", words=("no-such-scenario",))
        with tempfile.TemporaryDirectory() as folder:
            self.refused("run", folder)
        for arguments in (("run", "ep8", "--no-such-option"), ("frobnicate",)):
            result = plait(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertTrue(result.stderr.strip())


if __name__ == "__main__":
    unittest.main()
