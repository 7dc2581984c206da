#!/usr/bin/env python3
"""What the blocks take, as yosys synthesises them: gates of two inputs, flip-flops, bits of memory, and the longest path in gates.

    report.py PACKAGE [--check PAGE]

PACKAGE is the generated plait_regmap_pkg.sv. Prints a table for docs/rtl.md, or with --check nothing: exit status 1 then says that
PAGE has other figures. A netlist of gates knows neither wires nor a library's cells: the figures compare blocks, they are no timing.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RTL = Path(__file__).resolve().parents[1]


def counts(modules, name):
    """Gates, flip-flops and bits of memory of a module and all that it is made of."""
    total = [0, 0, 0]
    for cell in modules[name]["cells"].values():
        if cell["type"] in modules:
            total = [mine + its for mine, its in zip(total, counts(modules, cell["type"]))]
        elif cell["type"].startswith("$mem"):
            total[2] += int(cell["parameters"]["SIZE"], 2) * int(cell["parameters"]["WIDTH"], 2)
        else:
            total["DFF" in cell["type"]] += 1
    return total


def synthesise(block, package, folder):
    """One row of the table. Memories stay memories, and what says keep_hierarchy is synthesised once for all of its copies."""
    sources = [package, *sorted(RTL.glob("common/*.sv")), *sorted(RTL.glob("blocks/*/*.sv"))]
    netlist, path = Path(folder, f"{block}.json"), Path(folder, f"{block}.txt")
    script = "; ".join([
        "read_verilog -defer -sv " + " ".join(map(str, sources)), f"synth -top {block} -flatten -run begin:fine", "opt -fast -full",
        "techmap", "opt -fast", "abc -fast -g AND,NAND,OR,NOR,XOR,XNOR,MUX", "opt -fast", "opt_clean",
        f"tee -q -o {path} ltp -noff", f"write_json {netlist}"])
    subprocess.run(["yosys", "-q", "-p", script], check=True, stdout=subprocess.DEVNULL)
    gates, flip_flops, memory_bits = counts(json.loads(netlist.read_text())["modules"], block)
    longest = max(map(int, re.findall(r"\(length=(\d+)\)", path.read_text())))
    return f"| `{block}` | {gates:,} | {flip_flops:,} | {memory_bits:,} | {longest} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=Path)
    parser.add_argument("--check", type=Path, metavar="PAGE")
    arguments = parser.parse_args()
    blocks = sorted(block.name for block in (RTL / "blocks").iterdir() if block.is_dir())
    lines = ["| block | gates | flip-flops | memory, bits | longest path, gates |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        lines += pool.map(lambda block: synthesise(block, arguments.package, folder), blocks)
    if not arguments.check:
        print("\n".join(lines))
        return 0
    page = arguments.check.read_text(encoding="utf-8").splitlines()
    stale = [line for line in lines if line not in page]
    for line in stale:
        print(f"{arguments.check} lacks: {line}", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
