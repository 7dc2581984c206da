#!/usr/bin/env python3
"""Writes the C++ and C headers, the SystemVerilog package and docs/registers.md from the TOML files beside this script.

    generate.py [--description DIRECTORY] [--cpp FILE] [--c FILE] [--sv FILE] [--docs FILE] [--check]

Files are written only when their content changes. With --check nothing is written and a stale file is an error. Exit status
2 and one line on standard error: the description is wrong, or a file is stale.
"""

import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean

import emit_c
import emit_cpp
import emit_docs
import emit_sv
from description import DescriptionError, load


def write(path, text, check_only):
    path = Path(path)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    if check_only:
        raise DescriptionError(f"{path} is stale: run rtl_models/regmap/generate.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--description", default=Path(__file__).resolve().parent, help="the folder of the .toml files")
    parser.add_argument("--cpp", help="the C++ header to write")
    parser.add_argument("--c", help="the C header to write")
    parser.add_argument("--sv", help="the SystemVerilog package to write")
    parser.add_argument("--docs", help="the Markdown page to write")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a file is stale")
    arguments = parser.parse_args()
    try:
        description = load(arguments.description)
        for path, emit in ((arguments.cpp, emit_cpp.emit), (arguments.c, emit_c.emit), (arguments.sv, emit_sv.emit),
                           (arguments.docs, emit_docs.emit)):
            if path:
                write(path, emit(description), arguments.check)
    except (DescriptionError, OSError) as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
