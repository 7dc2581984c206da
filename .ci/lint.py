"""Checks of form: clang-format and clang-tidy over the C++ of this tree, Verilator's lint over its SystemVerilog.

    lint.py BUILD-FOLDER

The build folder is a configured one, with its compile_commands.json; nothing need be built. clang-tidy looks at a unit
again only when something that it depends on has changed: what passed leaves an empty file, named by a hash of it all,
in the user's cache folder. Exit status 1 when something is to be mended.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plait" / "clang-tidy"
CACHE_DAYS = 30


def tracked(*suffixes):
    """Files that git knows or would add, in order."""
    patterns = [f"*{suffix}" for suffix in suffixes]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in sorted(set(listed.split("\0"))) if name and (ROOT / name).is_file()]


def in_parallel(check, items):
    """Calls check(item) -> (passed, output) for all, prints what they say in order; answers how many did not pass."""
    failures = 0
    seen = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for passed, output in pool.map(check, items):
            failures += not passed
            # A fault in a header is found through many units: it is told once.
            for finding in re.split(r"\n(?=/)", output.strip()):
                if finding and finding not in seen:
                    seen.add(finding)
                    print(finding.replace(f"{ROOT}/", ""), flush=True)
    return failures


def run_tool(command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    # clang-tidy finds on standard output and counts on the other; Verilator and a tool that fails say it there.
    return done.returncode == 0, done.stdout or (done.stderr if done.returncode != 0 else "")


def check_format():
    files = tracked(".cpp", ".hpp", ".c", ".h")

    def check(file):
        passed, _ = run_tool(["clang-format", "--dry-run", "-Werror", str(file)])
        return passed, "" if passed else f"{file}: clang-format would change it (clang-format -i)"

    return len(files), in_parallel(check, files)


class Tidy:
    def __init__(self, build):
        self.build = build
        version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True).stdout
        configuration = b"".join(file.read_bytes() for file in tracked(".clang-tidy"))
        self.common = version + configuration
        self.dependencies = self.read_dependencies()
        self.hashes = {}

    def read_dependencies(self):
        """What each object was compiled from, as ninja noted it; empty before the first build."""
        answer = subprocess.run(["ninja", "-C", str(self.build), "-t", "deps"], capture_output=True, text=True)
        dependencies = {}
        for line in answer.stdout.splitlines():
            if line.startswith("    "):
                dependencies[target].append((self.build / line.strip()).resolve())
            elif ": #deps" in line and "(VALID)" in line:
                target = line.split(": #deps")[0]
                dependencies[target] = []
            elif line:
                target = None
                dependencies[target] = []
        return dependencies

    def key(self, unit):
        """Names everything that the outcome depends on; nothing when that is not known."""
        match = re.search(r" -o (\S+)", unit["command"])
        files = self.dependencies.get(match.group(1)) if match else None
        if not files:
            return None
        key = hashlib.sha256(self.common)
        key.update(unit["command"].replace(str(ROOT), "").encode())
        for file in files:
            if file.is_relative_to(ROOT):  # the system's headers change with the tool's version or with the packages
                if file not in self.hashes:
                    self.hashes[file] = hashlib.sha256(file.read_bytes()).digest()
                key.update(self.hashes[file])
        return key.hexdigest()

    def check(self, unit):
        key = self.key(unit)
        if key and (CACHE / key).exists():
            (CACHE / key).touch()
            return True, ""
        passed, output = run_tool(["clang-tidy", "--quiet", "-p", str(self.build), unit["file"]])
        if passed and key:
            (CACHE / key).touch()
        return passed, output


def check_tidy(build):
    CACHE.mkdir(parents=True, exist_ok=True)
    for mark in CACHE.iterdir():
        if mark.stat().st_mtime < time.time() - CACHE_DAYS * 86400:
            mark.unlink(missing_ok=True)
    units = {unit["file"]: unit for unit in json.loads((build / "compile_commands.json").read_text())}
    # Units of the build folder are those that the tests generate for each header: so that all headers are looked at. What
    # Verilator generates, and its own library, is nobody's text.
    generated = build / "rtl_models" / "verilated"
    ours = [unit for file, unit in sorted(units.items())
            if not Path(file).is_relative_to(generated) and "/verilator/" not in file]
    return len(ours), in_parallel(Tidy(build).check, ours)


def check_verilog(build):
    rtl = ROOT / "rtl_models"
    folders = [rtl / "common", *sorted(folder for folder in (rtl / "blocks").glob("*") if folder.is_dir())]
    files = [file for file in tracked(".sv") if file.parent in folders]
    package = build / "rtl_models" / "regmap" / "plait_regmap_pkg.sv"
    include = [argument for folder in folders for argument in ("-y", str(folder))]
    command = ["verilator", "--lint-only", "-Wall", *include, str(package)]
    return len(files), in_parallel(lambda file: run_tool([*command, "--top", file.stem, str(file)]), files)


def main():
    build = (ROOT / sys.argv[1]).resolve()
    failures = 0
    for name, check in (
            ("clang-format", check_format),
            ("clang-tidy", lambda: check_tidy(build)),
            ("verilator", lambda: check_verilog(build))):
        started = time.monotonic()
        count, failed = check()
        failures += failed
        print(f"{name}: {count} files, {failed} to mend, {time.monotonic() - started:.0f} s", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
