"""The SystemVerilog package: the same constants, enums, records, headers and registers for the RTL."""

from description import SCALARS, snake_case

KEYWORDS = set(
    """accept_on alias always and assert assign assume automatic before begin bind bins bit break buf byte case cell checker
    class clocking config const constraint context continue cover cross deassign default defparam design disable dist do edge
    else end endcase enum event expect export extends extern final first_match for force foreach forever fork forkjoin function
    generate genvar global highz0 if iff ifnone implements import include initial inout input inside instance int integer
    interconnect interface intersect join large let liblist library local localparam logic longint macromodule matches medium
    modport module nand negedge nettype new nexttime nor not null or output package packed parameter posedge primitive priority
    program property protected pull0 pulldown pure rand randc randcase real realtime ref reg reject_on release repeat restrict
    return scalared sequence shortint shortreal signed small soft solve specify static string strong struct super supply0 table
    tagged task this throughout time timeprecision timeunit tran tri trior type typedef union unique unsigned until untyped use
    uwire var vectored virtual void wait wand weak while wildcard wire with within wor xnor xor queue""".split()  # Verilator keeps `queue` for its C++
)


def identifier(name):
    """A field name; one that is reserved gets a trailing underscore."""
    return name + "_" if name in KEYWORDS else name


def comment(text, indent=""):
    return [f"{indent}// {text}"] if text else []


def vector(bits):
    return "logic" if bits == 1 else f"logic [{bits - 1}:0]"


def emit_constant(c):
    bits = 32 if c.value < 2**32 else 64
    return comment(c.doc, "    ") + [f"    localparam logic [{bits - 1}:0] {c.name.upper()} = {bits}'d{c.value};"]


def emit_enum(e):
    prefix = snake_case(e.name).upper()
    lines = comment(e.doc, "    ") + [f"    typedef enum logic [{e.width - 1}:0] {{"]
    for i, v in enumerate(e.values):
        comma = "," if i + 1 < len(e.values) else ""
        lines.append(f"        {prefix}_{v.name.upper()} = {e.width}'d{v.value}{comma}")
    lines.append(f"    }} {snake_case(e.name)}_e;")
    for key, numbers in e.properties.items():
        for v, number in zip(e.values, numbers):
            lines.append(f"    localparam int unsigned {prefix}_{v.name.upper()}_{key.upper()} = {number};")
    return lines + [""]


def record_field(f):
    if f.type in SCALARS:
        bits = SCALARS[f.type] * 8
        sign = " signed" if f.type == "i64" else ""
        if f.count > 1:
            return f"logic{sign} [{f.count - 1}:0][{bits - 1}:0] {identifier(f.name)};"
        return f"logic{sign} [{bits - 1}:0] {identifier(f.name)};"
    # An enum field comes from memory and may hold any value, so it is a plain vector here.
    bits = f.size // f.count * 8
    dimension = f"[{f.count - 1}:0]" if f.count > 1 else ""
    return f"logic {dimension}[{bits - 1}:0] {identifier(f.name)};"


def size(entry):
    return f"    localparam int unsigned {snake_case(entry.name).upper()}_BYTES = {entry.size};"


def emit_record(r):
    lines = comment(r.doc, "    ") + ["    typedef struct packed {"]
    lines += [f"        {record_field(f)}" for f in reversed(r.fields)]
    return lines + [f"    }} {snake_case(r.name)}_t;", size(r), ""]


def emit_header(h):
    lines = comment(h.doc, "    ") + ["    typedef struct packed {"]
    lines += [f"        {vector(f.bits)} {identifier(f.name)};" for f in h.fields]
    return lines + [f"    }} {snake_case(h.name)}_t;", size(h), ""]


def emit_register(r):
    name = f"REG_{r.name.upper()}"
    lines = comment(r.doc, "    ") + [f"    localparam logic [31:0] {name}_OFFSET = 32'h{r.offset:x};",
                                      f"    localparam logic [{r.width - 1}:0] {name}_RESET_VALUE = {r.width}'h{r.reset:x};"]
    if r.count > 1:
        lines += [f"    localparam int unsigned {name}_COUNT = {r.count};",
                  f"    localparam logic [31:0] {name}_STRIDE = 32'h{r.stride:x};"]
    for f in r.fields:
        lines += [f"    localparam int unsigned {name}_{f.name.upper()}_LSB = {f.lsb};",
                  f"    localparam int unsigned {name}_{f.name.upper()}_BITS = {f.bits};"]
    return lines


def emit(description):
    lines = ["// Generated from rtl_models/regmap/*.toml. Do not edit.", "/* verilator lint_off UNUSEDPARAM */",
             "package plait_regmap_pkg;", "",
             f"    localparam logic [31:0] REGMAP_VERSION = 32'h{description.version:08x};", ""]
    for c in description.constants:
        lines += emit_constant(c)
    lines.append("")
    for e in description.enums:
        lines += emit_enum(e)
    lines += ["    // Records: byte 0 of the memory is bits 7:0 of the struct.", ""]
    for r in description.records:
        lines += emit_record(r)
    lines += ["    // Wire headers: the first byte on the wire is the most significant byte of the struct.", ""]
    for h in description.headers:
        lines += emit_header(h)
    for r in description.registers:
        lines += emit_register(r)
    lines += ["", "endpackage", "/* verilator lint_on UNUSEDPARAM */", ""]
    return "\n".join(lines)
