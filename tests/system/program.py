"""Runs the program and reads its report."""

import json
import os
import pathlib
import pty
import subprocess
import tempfile

PLAIT = os.environ["PLAIT"]
SOURCE = pathlib.Path(os.environ["PLAIT_SOURCE"])
SCENARIOS = SOURCE / "sim" / "scenarios"
# Seeds of the cases that are drawn; a subtest's message names the one that failed.
SEEDS = [int(os.environ["PLAIT_SEED"])] if "PLAIT_SEED" in os.environ else [1, 2, 3, 4, 5]
# Eight GPUs and a few tokens with recorded routing. [workload] is its last table, for keys that follow.
SMALL_EP = f"""
[topology]
nodes = 2
gpus_per_node = 4
[workload]
kind = "ep"
tokens = 48
hidden = 7168
experts = 256
topk = 8
routing = "{SCENARIOS}/data/prefill_last.npy"
routing_weights = "{SCENARIOS}/data/prefill_last_weights.npy"
"""
DEVICE_DOWN = '[[fault]]\nat_us = 30\nwhat = "device_down"\ndevice = 3\n'


def plait(*arguments, program=PLAIT, timeout=300):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


def run(scenario, *arguments, program=PLAIT, timeout=300):
    """Exit status, report and the bytes it was read from, for a scenario by name or as the text of a file."""
    with tempfile.TemporaryDirectory() as folder:
        if "\n" in str(scenario):
            path = pathlib.Path(folder) / "case.toml"
            path.write_text(scenario)
            scenario = path
        out = pathlib.Path(folder) / "report.json"
        result = plait("run", scenario, "--quiet", "--json", out, *arguments, program=program, timeout=timeout)
        data = out.read_bytes() if out.exists() else b""
        return result, json.loads(data) if data else None, data


class OnTerminal:
    """The program with a terminal as its standard error, where a progress bar would be."""

    def __init__(self, *arguments):
        self.terminal, other = pty.openpty()
        self.process = subprocess.Popen([PLAIT, *map(str, arguments)], stdout=subprocess.PIPE, stderr=other, text=True)
        os.close(other)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        os.close(self.terminal)

    def read(self):
        """What the terminal got since; empty when the program has ended."""
        try:
            return os.read(self.terminal, 4096)
        except OSError:  # nobody has the other end any more
            return b""

    def finish(self, timeout=60):
        """Standard output, and what the terminal still got."""
        text, _ = self.process.communicate(timeout=timeout)
        shown = b""
        while more := self.read():
            shown += more
        return text, shown


def npy(array_bytes, descr, shape):
    """A .npy file, version 1.0."""
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, tuple(shape))
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + array_bytes
