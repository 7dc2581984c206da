"""The description of Plait's device contract: reads the TOML files and checks every rule before anything is written."""

import json
import re
import tomllib
import zlib
from dataclasses import dataclass, field
from pathlib import Path

SCALARS = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "i64": 8, "f32": 4}
ACCESS = ("ro", "rw", "wo", "rw1c")
RESERVED_WORDS = set(
    """alignas alignof and asm auto bool break case catch char class concept const consteval constexpr constinit continue
    decltype default delete do double else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not nullptr operator or private protected public register requires return short signed sizeof
    static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while xor
    decode encode fits name size_bytes is_known reg""".split()
)
SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
CAMEL = re.compile(r"[A-Z][A-Za-z0-9]*")


class DescriptionError(Exception):
    """One line that names the file, the entry and what was expected."""


@dataclass
class Constant:
    name: str
    value: int
    doc: str


@dataclass
class Enum:
    name: str
    width: int
    values: list  # of Constant
    doc: str
    properties: dict = field(default_factory=dict)  # name -> what each value has, in order

    @property
    def size(self):
        return self.width // 8


@dataclass
class RecordField:
    name: str
    type: str
    count: int
    doc: str
    offset: int = 0
    size: int = 0  # bytes of the whole field, all elements


@dataclass
class Record:
    name: str
    size: int
    fields: list
    doc: str
    alignment: int = 1


@dataclass
class HeaderField:
    name: str
    bits: int
    value: int
    doc: str
    first_bit: int = 0  # counted from the most significant bit of the first byte

    @property
    def is_reserved(self):
        return self.name.startswith("reserved")

    @property
    def is_bytes(self):
        return self.bits > 64


@dataclass
class Header:
    name: str
    size: int
    fields: list
    doc: str

    @property
    def named_fields(self):
        return [f for f in self.fields if not f.is_reserved]


@dataclass
class RegisterField:
    name: str
    lsb: int
    bits: int
    doc: str


@dataclass
class Register:
    name: str
    offset: int
    access: str
    reset: int
    width: int
    count: int
    stride: int
    fields: list
    doc: str


@dataclass
class Description:
    constants: list = field(default_factory=list)
    enums: list = field(default_factory=list)
    records: list = field(default_factory=list)  # a record follows those it contains
    headers: list = field(default_factory=list)
    registers: list = field(default_factory=list)
    version: int = 0

    def enum(self, name):
        return next((e for e in self.enums if e.name == name), None)

    def record(self, name):
        return next((r for r in self.records if r.name == name), None)


def snake_case(camel):
    """WorkRequest -> work_request, Bth -> bth."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", camel).lower()


class Table:
    """One TOML table whose keys are taken one at a time; what is left over is an unknown key."""

    def __init__(self, where, table):
        if not isinstance(table, dict):
            raise DescriptionError(f"{where}: expected a table")
        self.where = where
        self.left = dict(table)

    def fail(self, message):
        raise DescriptionError(f"{self.where}: {message}")

    def take(self, key, kind, default=None):
        if key not in self.left:
            if default is None:
                self.fail(f"missing key `{key}`")
            return default
        value = self.left.pop(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            self.fail(f"`{key}` must be {'an integer' if kind is int else 'a string' if kind is str else 'an array'}")
        return value

    def integer(self, key, low, high, default=None):
        value = self.take(key, int, default)
        if not low <= value <= high:
            self.fail(f"`{key}` = {value} is outside {low}..{high}")
        return value

    def identifier(self, pattern, what):
        name = self.take("name", str)
        self.where += f" `{name}`"
        if not pattern.fullmatch(name) or name in RESERVED_WORDS:
            self.fail(f"the name must be {what} and no reserved word")
        return name

    def snake(self):
        return self.identifier(SNAKE, "snake_case")

    def camel(self):
        return self.identifier(CAMEL, "CamelCase")

    def doc(self):
        text = self.take("doc", str, "")
        if "\n" in text:
            self.fail("`doc` must be one line")
        return text

    def children(self, key, what, required=True):
        entries = self.take(key, list, None if required else [])
        if required and not entries:
            self.fail(f"`{key}` is empty")
        return [Table(f"{self.where}: {what}", entry) for entry in entries]

    def done(self, made):
        if self.left:
            self.fail(f"unknown key `{sorted(self.left)[0]}`")
        return made


def no_duplicates(where, keys, what):
    seen = set()
    for key in keys:
        if key in seen:
            raise DescriptionError(f"{where}: duplicate {what} `{key}`")
        seen.add(key)


def read_constant(table):
    name = table.snake()
    return table.done(Constant(name, table.integer("value", 0, 2**64 - 1), table.doc()))


def read_enum(table):
    name = table.camel()
    width = table.integer("width", 8, 32)
    if width not in (8, 16, 32):
        table.fail(f"`width` = {width} must be 8, 16 or 32")
    properties = {}
    for key in table.take("properties", list, []):
        if not isinstance(key, str) or not SNAKE.fullmatch(key) or key in RESERVED_WORDS:
            table.fail(f"property `{key}` must be snake_case and no reserved word")
        properties[key] = []
    values = []
    for child in table.children("values", "value"):
        value = Constant(child.snake(), child.integer("value", 0, 2**width - 1), child.doc())
        for key, numbers in properties.items():
            numbers.append(child.integer(key, 0, 2**32 - 1))
        values.append(child.done(value))
    no_duplicates(table.where, [v.name for v in values], "value name")
    no_duplicates(table.where, [v.value for v in values], "value")
    return table.done(Enum(name, width, values, table.doc(), properties))


def read_record(table):
    name = table.camel()
    fields = []
    for child in table.children("fields", "field"):
        fields.append(child.done(RecordField(child.snake(), child.take("type", str),
                                             child.integer("count", 1, 65536, 1), child.doc())))
    no_duplicates(table.where, [f.name for f in fields], "field")
    return table.done(Record(name, table.integer("size", 1, 65536), fields, table.doc()))


def read_header(table):
    name = table.camel()
    size = table.integer("size", 1, 256)
    fields, bit = [], 0
    for child in table.children("fields", "field"):
        made = HeaderField(child.snake(), child.integer("bits", 1, 256), 0, child.doc(), bit)
        if made.is_bytes and (made.bits % 8 or bit % 8):
            child.fail("a field of more than 64 bits must be whole bytes")
        made.value = child.integer("value", 0, 0 if made.is_reserved or made.is_bytes else 2**made.bits - 1, 0)
        fields.append(child.done(made))
        bit += made.bits
    no_duplicates(table.where, [f.name for f in fields], "field")
    if bit != size * 8:
        table.fail(f"the fields have {bit} bits, `size` = {size} means {size * 8}")
    return table.done(Header(name, size, fields, table.doc()))


def read_register(table):
    name = table.snake()
    width = table.integer("width", 32, 64, 32)
    if width not in (32, 64):
        table.fail(f"`width` = {width} must be 32 or 64")
    size = width // 8
    offset = table.integer("offset", 0, 2**32 - size)
    access = table.take("access", str)
    if access not in ACCESS:
        table.fail(f"`access` = \"{access}\" must be one of {', '.join(ACCESS)}")
    reset = table.integer("reset", 0, 2**width - 1, 0)
    count = table.integer("count", 1, 65536, 1)
    stride = table.integer("stride", size, 2**24, size)
    if offset % size or stride % size:
        table.fail(f"offset and stride must be multiples of {size}")
    fields, taken = [], 0
    for child in table.children("fields", "field", required=False):
        made = RegisterField(child.snake(), child.integer("lsb", 0, width - 1), child.integer("bits", 1, width), child.doc())
        mask = ((1 << made.bits) - 1) << made.lsb
        if mask >> width:
            child.fail(f"bits {made.lsb}..{made.lsb + made.bits - 1} do not fit {width} bits")
        if mask & taken:
            child.fail("overlaps another field")
        taken |= mask
        fields.append(child.done(made))
    no_duplicates(table.where, [f.name for f in fields], "field")
    return table.done(Register(name, offset, access, reset, width, count, stride, fields, table.doc()))


def lay_out(record, description):
    """Offsets by natural alignment: the description must spell out its padding, so that nothing is implicit."""
    offset = 0
    for f in record.fields:
        where = f"record `{record.name}`: field `{f.name}`"
        other = description.enum(f.type) or description.record(f.type)
        if f.type in SCALARS:
            unit = alignment = SCALARS[f.type]
        elif isinstance(other, Enum):
            unit = alignment = other.size
        elif isinstance(other, Record):
            unit, alignment = other.size, other.alignment
        else:
            raise DescriptionError(f"{where}: unknown type `{f.type}`")
        if offset % alignment:
            raise DescriptionError(f"{where}: offset {offset} is not a multiple of its alignment {alignment}")
        f.offset, f.size = offset, unit * f.count
        offset += f.size
        record.alignment = max(record.alignment, alignment)
    if offset != record.size:
        raise DescriptionError(f"record `{record.name}`: the fields take {offset} bytes, `size` is {record.size}")
    if record.size % record.alignment:
        raise DescriptionError(f"record `{record.name}`: size {record.size} is not a multiple of its alignment {record.alignment}")


def contained_first(records):
    """The records in an order in which each follows those it contains; given order otherwise."""
    by_name = {r.name: r for r in records}
    ordered, state = [], {}

    def visit(record):
        if state.get(record.name) == "open":
            raise DescriptionError(f"record `{record.name}` contains itself")
        if record.name in state:
            return
        state[record.name] = "open"
        for f in record.fields:
            if f.type in by_name:
                visit(by_name[f.type])
        state[record.name] = "done"
        ordered.append(record)

    for record in records:
        visit(record)
    return ordered


def check_registers(registers):
    """No two registers share a byte."""
    places = []
    for r in registers:
        places += [(r.offset + i * r.stride, r.width // 8, r.name) for i in range(r.count)]
    places.sort()
    for (offset, size, name), (next_offset, _, next_name) in zip(places, places[1:]):
        if offset + size > next_offset:
            raise DescriptionError(f"registers `{name}` and `{next_name}` overlap at offset 0x{next_offset:x}")


def version_of(tables):
    """CRC-32 of the description without its prose: it changes exactly when the contract does."""

    def strip(value):
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k != "doc"}
        return [strip(v) for v in value] if isinstance(value, list) else value

    canonical = {kind: sorted((strip(e) for e in entries), key=lambda e: e["name"]) for kind, entries in tables.items()}
    return zlib.crc32(json.dumps(canonical, sort_keys=True).encode())


def load(directory):
    """Reads every .toml of the directory; raises DescriptionError with one clear line."""
    readers = {"constant": read_constant, "enum": read_enum, "record": read_record, "header": read_header,
               "register": read_register}
    tables = {kind: [] for kind in readers}
    made = {kind: [] for kind in readers}
    paths = sorted(Path(directory).glob("*.toml"))
    if not paths:
        raise DescriptionError(f"{directory}: no .toml file")
    for path in paths:
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DescriptionError(f"{path.name}: {error}") from None
        for kind, entries in content.items():
            if kind not in readers:
                raise DescriptionError(f"{path.name}: unknown table `{kind}`, expected one of {', '.join(readers)}")
            if not isinstance(entries, list):
                raise DescriptionError(f"{path.name}: write [[{kind}]]")
            for entry in entries:
                made[kind].append(readers[kind](Table(f"{path.name}: {kind}", entry)))
                tables[kind].append(entry)
    description = Description(made["constant"], made["enum"], contained_first(made["record"]), made["header"],
                              sorted(made["register"], key=lambda r: r.offset))
    types = description.enums + description.records + description.headers
    no_duplicates("description", [snake_case(t.name) for t in types], "type name")
    no_duplicates("description", [c.name for c in description.constants + description.registers], "name")
    for record in description.records:
        lay_out(record, description)
    check_registers(description.registers)
    description.version = version_of(tables)
    return description
