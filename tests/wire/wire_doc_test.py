"""docs/wire.md says what the description says: every table row of a header, opcode or reason is compared.

    wire_doc_test.py REGMAP_FOLDER DOCS/WIRE.MD          (run by ctest)
"""

import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text):
    """The tables of the page, each under the last heading: (heading, heads of the columns, rows)."""
    found, heading, heads, rows = [], "", None, []
    for line in text.splitlines() + [""]:
        if line.startswith("|"):
            if heads is None:
                heads = cells(line)
            elif not line.startswith("|---"):
                rows.append(cells(line))
        elif heads is not None:
            found.append((heading, heads, rows))
            heads, rows = None, []
        if line.startswith("#"):
            heading = line.lstrip("# ")
    return found


def header_rows(header):
    for f in header.fields:
        byte, bit = divmod(f.first_bit, 8)
        yield [f"{byte}.{bit}" if bit else str(byte), str(f.bits), f.name]


def main():
    folder, page = sys.argv[1:]
    sys.path.insert(0, folder)
    from description import load

    description = load(folder)
    headers = {h.name: h for h in description.headers if h.name.startswith("Mp")}
    wrong, seen = [], set()
    for heading, heads, rows in tables(Path(page).read_text(encoding="utf-8")):
        title = re.fullmatch(r"(\w+) \((\d+) bytes\)", heading)
        first = heads[0]
        have = [row[:3] for row in rows]
        if first == "byte" and title:
            name = title.group(1)
            header = next((h for h in description.headers if h.name == name), None)
            if header is None or str(header.size) != title.group(2) or have != list(header_rows(header)):
                wrong.append(f"{heading} differs from the description")
            seen.add(name)
            continue
        values = {"opcode": ("Opcode", "0x{:02x}"), "kind": ("EpControlKind", "{}"), "reason": ("NackReason", "{}")}.get(first)
        if values is None:
            wrong.append(f"a table that is not compared: {heads}")
            continue
        name, form = values
        want = [[form.format(v.value), v.name] for v in description.enum(name).values if name != "Opcode" or v.value >= 0xC0]
        if [row[:2] for row in rows] != want:
            wrong.append(f"the table of {name} differs from the description")
        seen.add(name)
    for name in set(headers) | {"Opcode", "EpControlKind", "NackReason"}:
        if name not in seen:
            wrong.append(f"{name} is not described")
    print("\n".join(wrong) or f"{len(seen)} tables agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
