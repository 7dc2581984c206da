"""Runs the program and reads its report."""

import json
import os
import pathlib
import subprocess
import tempfile

PLAIT = os.environ["PLAIT"]
SOURCE = pathlib.Path(os.environ["PLAIT_SOURCE"])
SCENARIOS = SOURCE / "sim" / "scenarios"


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


def npy(array_bytes, descr, shape):
    """A .npy file, version 1.0."""
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, tuple(shape))
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + array_bytes
