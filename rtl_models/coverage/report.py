#!/usr/bin/env python3
"""How much of each block the contract tests run: lines, and bits that changed (of vectors of up to 256 bits, which is what
Verilator counts; in blocks with many copies of a lane they are not counted).

    report.py [--build FOLDER]

Configures and builds the contract tests with counters, in FOLDER or in one that is removed afterwards, runs them (not those of a
million commands) and prints a table. Exit status 1 when a block has less than 95 % of its lines.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEAST_LINES_PERCENT = 95


def build_and_run(build, counts):
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DPLAIT_RTL_COVERAGE=ON",
                    "--log-level=WARNING"], **quiet)
    subprocess.run(["cmake", "--build", build, "--target", "engine_contract_tests"], **quiet)
    subprocess.run([Path(build, "tests", "contract", "engines", "engine_contract_tests"), "--gtest_filter=-*Million*"],
                   env=os.environ | {"PLAIT_RTL_COVERAGE_FOLDER": str(counts)}, **quiet)


def read_points(counts):
    """(file, kind, place) of every point that is counted: how often it was met, over all instances and runs."""
    points = collections.Counter()
    for file in Path(counts).glob("*.dat"):
        for point, count in re.findall(r"^C '(.*)' (\d+)$", file.read_text(), re.MULTILINE):
            fields = dict(field.split("\2", 1) for field in point.split("\1") if field)
            kind = fields["page"].split("/")[0].removeprefix("v_")
            points[fields["f"], kind, (fields["l"], fields["n"], fields["o"])] += int(count)
    return points


def percent(points, folder, kind):
    met = [count > 0 for (file, of_kind, _), count in points.items() if of_kind in kind and Path(file).parent.name == folder]
    return 100 * sum(met) / len(met) if met else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder, "counts")
        counts.mkdir()
        build_and_run(arguments.build or Path(folder, "build"), counts)
        points = read_points(counts)
    print("| block | lines | toggles |\n|---|---|---|")
    least = 100
    for block in ["common", *sorted(block.name for block in (ROOT / "rtl_models" / "blocks").iterdir() if block.is_dir())]:
        lines = percent(points, block, {"line", "branch"})
        least = min(least, lines)
        toggles = percent(points, block, {"toggle"})
        print(f"| `{block}` | {lines:.1f} % | {'not counted' if toggles is None else f'{toggles:.1f} %'} |")
    return 1 if least < LEAST_LINES_PERCENT else 0


if __name__ == "__main__":
    sys.exit(main())
