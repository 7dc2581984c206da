#!/usr/bin/env python3
"""Proves the properties in the *_proof.sv files beside this script with yosys-smtbmc and z3.

    prove.py PACKAGE [--rtl FOLDER] [NAME...]

PACKAGE is the generated plait_regmap_pkg.sv, FOLDER the rtl_models folder whose blocks are looked at, NAME a proof without its
_proof.sv. Exit status 1 when an assertion can fail, 2 when something else went wrong.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Cycles from the start that are looked at. One is all there is of a block without state: its proof begins anywhere.
STEPS = {"plait_fifo": 12, "plait_forward": 6, "plait_icrc": 11, "plait_order": 10, "plait_ram": 12,
         "plait_reduce_pages": 14, "plait_rx_window": 12, "plait_rx_window_update": 1, "plait_spray": 8}

# Cells that a proof takes from the folder `free`, because it must hold whatever they compute.
FREE = {"plait_icrc": {"plait_linear_map"}, "plait_spray": {"plait_spray_setup", "plait_spray_failures"}}


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def prove(name, package, rtl, folder):
    """Whether all assertions hold, and what the tools say."""
    free = FREE.get(name, set())
    cells = [HERE / "free" / file.name if file.stem in free else file
             for file in sorted([*rtl.glob("common/*.sv"), *rtl.glob("blocks/*/*.sv")])]
    sources = [package, *cells, HERE / f"{name}_proof.sv"]
    model = Path(folder) / f"{name}.smt2"
    script = "; ".join([
        "read_verilog -defer -formal -sv " + " ".join(map(str, sources)), f"prep -flatten -top {name}_proof", "memory_map",
        "async2sync", "dffunmap", f"write_smt2 -wires {model}"])
    made = run(["yosys", "-q", "-p", script])
    if made.returncode != 0:
        print(f"prove.py: {name}: {made.stdout}{made.stderr}", file=sys.stderr)
        sys.exit(2)
    # Without --unroll z3 would expand definitions within definitions; without --noincr it would not take its solver for bits.
    answer = run(["yosys-smtbmc", "-s", "z3", "--unroll", "--noincr", "--noprogress", "-t", str(STEPS[name]), str(model)])
    if answer.returncode != 0 and "Assert failed" not in answer.stdout:
        print(answer.stdout + answer.stderr, file=sys.stderr)
        sys.exit(2)
    return answer.returncode == 0, answer.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=Path)
    parser.add_argument("--rtl", type=Path, default=HERE.parent)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_intermixed_args()  # names may follow --rtl
    unknown = set(arguments.names) - set(STEPS)
    if unknown:
        parser.error(f"unknown proof {min(unknown)}, expected one of {', '.join(STEPS)}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.names or STEPS:
            holds, output = prove(name, arguments.package, arguments.rtl, folder)
            print(f"{name}: proved" if holds else f"{name}: FAILED\n{output}", flush=True)
            failed |= not holds
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
