"""Rules that hold for the files of this tree. Each takes the tree's root and yields one line for each breach."""

import os
import re
from pathlib import Path

CODE = {".cpp", ".hpp", ".c", ".h", ".py", ".sv", ".S"}
TEXT = CODE | {".md", ".toml", ".txt", ".sh", ".json", ".cmake", ""}
MAX_LINES = 400

# Folders of headers and of inputs belong to the folder above them.
INNER_FOLDERS = {"plait", "include", "fixture", "data"}

# Folder: what its files may include of ours besides the folder itself. The table of docs/architecture.md.
MODULES = {
    "firmware/engines": ["regmap"],
    "firmware/core": ["regmap", "engines"],
    "firmware/hal": ["regmap", "engines", "firmware"],
    "firmware/port_riscv": ["regmap", "engines", "firmware", "hal"],
    "hostlib/include": ["regmap"],
    "hostlib/driver": ["regmap", "host"],
    "hostlib/collectives": ["regmap", "host"],
    "hostlib/capi": ["regmap", "host"],
    "sim/fabric": [],
    "sim/models": ["regmap", "engines", "firmware", "hal", "host", "fabric"],
    "sim/riscv": ["regmap", "engines", "firmware", "hal", "port", "fabric", "models"],
    "sim/verilated": ["regmap", "engines", "firmware", "fabric", "models"],
    "sim/bridge": ["regmap", "engines", "firmware", "hal", "host", "fabric", "models"],
    "sim/app": ["regmap", "engines", "firmware", "hal", "host", "port", "fabric", "models", "riscv", "verilated", "bridge"],
}
OWN_NAME = {"firmware/engines": "engines", "firmware/core": "firmware", "firmware/hal": "hal",
            "firmware/port_riscv": "port", "hostlib/include": "host",
            "sim/fabric": "fabric", "sim/models": "models", "sim/riscv": "riscv", "sim/verilated": "verilated", "sim/bridge": "bridge", "sim/app": "app"}

# What a freestanding implementation has, and the parts of <algorithm>, <array>, ... that need neither heap nor system.
FREESTANDING = {"algorithm", "array", "atomic", "bit", "climits", "concepts", "cstddef", "cstdint", "cstring", "initializer_list",
                "limits", "new", "numeric", "optional", "span", "tuple", "type_traits", "utility"}

MACHINE = re.compile(
    r"(?<![\w.$}/-])/(?:work|home|root|tmp|mnt|Users)/\w|"
    r"(?:deb\.debian|registry\.npmjs|pypi|crates|rubygems|proxy\.golang)\.(?:org|io)")
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")


def files(root):
    """All files but those of builds and of git, in order."""
    for folder, names, file_names in os.walk(root):
        names[:] = sorted(name for name in names if name not in {".git", ".cache", "__pycache__"}
                          and not name.startswith("build"))
        for name in sorted(file_names):
            yield Path(folder, name)


def text_files(root):
    for file in files(root):
        if file.suffix in TEXT:
            try:
                yield file, file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                yield file, ""


def readmes(root):
    """Every folder with code says what lives there."""
    folders = set()
    for file in files(root):
        parts = file.relative_to(root).parent.parts
        if file.suffix not in CODE or not parts or parts[0].startswith("."):
            continue
        inner = next((i for i, part in enumerate(parts) if part in INNER_FOLDERS), len(parts))
        folders.add(Path(*parts[:inner]))
    for folder in sorted(folders):
        if not (root / folder / "README.md").is_file():
            yield f"{folder}: has no README.md"


def lengths(root):
    for file, text in text_files(root):
        count = text.count("\n")
        if file.suffix in CODE and count > MAX_LINES:
            yield f"{file.relative_to(root)}: {count} lines, expected at most {MAX_LINES}"


def machines(root):
    """Nothing names a place on one machine or a package host; nothing is left for later."""
    for file, text in text_files(root):
        if file.parent == Path(__file__).parent:  # names what it looks for
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, what in ((MACHINE, "names a machine"), (UNFINISHED, "is unfinished")):
                if pattern.search(line):
                    yield f"{file.relative_to(root)}:{number}: {what}: {line.strip()[:80]}"


def module_of_header(header):
    """The module of an `#include <plait/...>`."""
    parts = header.split("/")
    if parts[1] in {"regmap.hpp", "regmap.h"}:
        return "regmap"
    if parts[1] == "sim":
        return parts[2]
    return parts[1] if len(parts) > 2 else "host"


def includes(root):
    for folder, allowed in MODULES.items():
        for file in files(root / folder):
            if file.suffix not in {".cpp", ".hpp", ".h"}:
                continue
            text = file.read_text(encoding="utf-8")
            for header in re.findall(r'^\s*#\s*include\s*[<"](plait/[^>"]+)[>"]', text, re.MULTILINE):
                module = module_of_header(header)
                if module not in allowed and module != OWN_NAME.get(folder):
                    yield f"{file.relative_to(root)}: may not include <{header}>"
            for header in re.findall(r"^\s*#\s*include\s*<([^>/]+)>", text, re.MULTILINE):
                if folder.startswith("firmware/") and header not in FREESTANDING:
                    yield f"{file.relative_to(root)}: <{header}> is not freestanding"


def links(root):
    """Links of the pages lead to files that exist. So do paths in backticks that begin with a folder of the tree, and names of
    sources in backticks."""
    top = {folder.name for folder in root.iterdir() if folder.is_dir()} - {"build"}
    sources = {file.name for file in files(root)}
    for file, text in text_files(root):
        if file.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in target and not (file.parent / target).exists():
                yield f"{file.relative_to(root)}: link to {target}, which does not exist"
        for path in re.findall(r"`([\w.-]+/[\w./-]+)`", text):
            if path.split("/")[0] in top and not (root / path).exists():
                yield f"{file.relative_to(root)}: names {path}, which does not exist"
        for name in re.findall(r"`(\w+\.(?:hpp|h|cpp|c|py))`", text):
            if name not in sources | {"regmap.hpp", "regmap.h"}:  # those are generated
                yield f"{file.relative_to(root)}: names {name}, which does not exist"


def figures(root):
    """Each section of the page of measured figures shows the command that gives them."""
    page = root / "docs" / "performance.md"
    if not page.is_file():
        return
    for section in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        if re.search(r"\d", section) and not re.search(r"^(?:    \S|```)", section, re.MULTILINE):
            yield f"docs/performance.md: no command in section {section.splitlines()[0]}"


RULES = (readmes, lengths, machines, includes, links, figures)
