"""The C++ header: constants, enums, records as they lie in memory, wire headers with their codec, register offsets."""

from description import snake_case

TYPES = {"u8": "std::uint8_t", "u16": "std::uint16_t", "u32": "std::uint32_t", "u64": "std::uint64_t",
         "i64": "std::int64_t", "f32": "float"}


def comment(text, indent=""):
    return [f"{indent}/// {text}"] if text else []


def literal(value):
    return f"{value}u" if value < 2**32 else f"0x{value:x}ull"


def unsigned(bits):
    return f"std::uint{next(n for n in (8, 16, 32, 64) if bits <= n)}_t"


def emit_constant(c):
    return comment(c.doc) + [f"inline constexpr {unsigned(max(32, c.value.bit_length()))} {c.name} = {literal(c.value)};"]


def emit_enum(e):
    lines = comment(e.doc) + [f"enum class {e.name} : std::uint{e.width}_t {{"]
    for v in e.values:
        lines += comment(v.doc, "    ") + [f"    {v.name} = {v.value},"]
    lines += ["};", f"inline constexpr std::size_t {snake_case(e.name)}_count = {len(e.values)};  // named values",
              f"constexpr const char* name({e.name} value) {{", "    switch (value) {"]
    lines += [f"        case {e.name}::{v.name}: return \"{v.name}\";" for v in e.values]
    lines += ["    }", "    return \"unknown\";", "}",
              f"constexpr bool is_known({e.name} value) {{", "    switch (value) {"]
    lines += [f"        case {e.name}::{v.name}:" for v in e.values]
    lines += ["            return true;", "    }", "    return false;", "}"]
    for key, numbers in e.properties.items():
        lines += ["/// 0 for a value that is not known.", f"constexpr std::uint32_t {key}({e.name} value) {{", "    switch (value) {"]
        lines += [f"        case {e.name}::{v.name}: return {number};" for v, number in zip(e.values, numbers)]
        lines += ["    }", "    return 0;", "}"]
    return lines + [""]


def emit_record(r):
    lines = comment(r.doc) + [f"struct {r.name} {{"]
    for f in r.fields:
        dimension = f"[{f.count}]" if f.count > 1 else ""
        lines += comment(f.doc, "    ") + [f"    {TYPES.get(f.type, f.type)} {f.name}{dimension}{{}};"]
    lines += [f"    friend constexpr bool operator==(const {r.name}&, const {r.name}&) = default;", "};",
              f"static_assert(sizeof({r.name}) == {r.size} && alignof({r.name}) == {r.alignment});",
              f"static_assert(std::is_trivially_copyable_v<{r.name}> && std::is_standard_layout_v<{r.name}>);"]
    lines += [f"static_assert(offsetof({r.name}, {f.name}) == {f.offset});" for f in r.fields]
    return lines + [""]


def pieces(header):
    """For each byte, the (field, bits taken, shift right in the field, shift left in the byte) that make it up."""
    for byte in range(header.size):
        first, end = 8 * byte, 8 * byte + 8
        parts = []
        for f in header.named_fields:
            field_end = f.first_bit + f.bits
            low, high = max(first, f.first_bit), min(end, field_end)
            if low < high:
                parts.append((f, high - low, field_end - high, end - high))
        yield byte, parts


def wide(f):
    """The type in which a field's bits are shifted: never narrower than int, so that nothing is promoted to a signed type."""
    return "std::uint64_t" if f.bits > 32 else "std::uint32_t"


def encode_piece(f, bits, right, left):
    if f.is_bytes:
        return f"{f.name}[{(f.bits - right) // 8 - 1}]"
    text = f"{wide(f)}{{{f.name}}}"
    if right:
        text = f"({text} >> {right})"
    text = f"({text} & 0x{(1 << bits) - 1:x}u)"
    return f"({text} << {left})" if left else text


def emit_encode(h):
    lines = ["    constexpr void encode(std::uint8_t* out) const {"]
    for byte, parts in pieces(h):
        text = " | ".join(encode_piece(*part) for part in parts) or "0"
        lines.append(f"        out[{byte}] = static_cast<std::uint8_t>({text});")
    return lines + ["    }"]


def decode_pieces(h):
    by_field = {f.name: [] for f in h.named_fields}
    for byte, parts in pieces(h):
        for f, bits, right, left in parts:
            text = f"{wide(f)}{{in[{byte}]}}"
            if left:
                text = f"({text} >> {left})"
            if bits + left < 8:
                text = f"({text} & 0x{(1 << bits) - 1:x}u)"
            by_field[f.name].append(f"({text} << {right})" if right else text)
    return by_field


def emit_decode(h):
    by_field = decode_pieces(h)
    lines = [f"    static constexpr {h.name} decode(const std::uint8_t* in) {{", f"        {h.name} header;"]
    for f in h.named_fields:
        if f.is_bytes:
            lines.append(f"        for (std::size_t i = 0; i < {f.bits // 8}; ++i) header.{f.name}[i] = in[{f.first_bit // 8} + i];")
        elif f.bits == 1:
            lines.append(f"        header.{f.name} = ({by_field[f.name][0]}) != 0;")
        else:
            lines.append(f"        header.{f.name} = static_cast<{unsigned(f.bits)}>({' | '.join(by_field[f.name])});")
    return lines + ["        return header;", "    }"]


def emit_fits(h):
    narrow = [f for f in h.named_fields if f.bits not in (1, 8, 16, 32, 64) and not f.is_bytes]
    tests = [f"{f.name} <= 0x{(1 << f.bits) - 1:x}u" + ("ll" if f.bits > 32 else "") for f in narrow]
    return ["    /// True when every value fits the bits of its field; encode() keeps only the low bits of one that does not.",
            f"    constexpr bool fits() const {{ return {' && '.join(tests) or 'true'}; }}"]


def emit_header(h):
    lines = comment(h.doc) + [f"struct {h.name} {{", f"    static constexpr std::uint32_t size_bytes = {h.size};"]
    for f in h.named_fields:
        lines += comment(f.doc, "    ")
        if f.is_bytes:
            lines.append(f"    std::uint8_t {f.name}[{f.bits // 8}]{{}};")
        elif f.bits == 1:
            lines.append(f"    bool {f.name} = {'true' if f.value else 'false'};")
        else:
            lines.append(f"    {unsigned(f.bits)} {f.name} = {literal(f.value)};")
    lines += emit_fits(h)
    lines += [f"    /// Writes {h.size} bytes in network order; reserved bits are 0."] + emit_encode(h)
    lines += [f"    /// Reads {h.size} bytes; reserved bits are ignored."] + emit_decode(h)
    return lines + [f"    friend constexpr bool operator==(const {h.name}&, const {h.name}&) = default;", "};", ""]


def emit_register(r):
    register_type = f"std::uint{r.width}_t"
    lines = comment(f"{r.doc} ({r.access})" if r.doc else f"({r.access})")
    lines += [f"inline constexpr std::uint32_t {r.name}_offset = 0x{r.offset:02x};",
              f"inline constexpr {register_type} {r.name}_reset_value = {literal(r.reset)};"]
    if r.count > 1:
        lines += [f"inline constexpr std::uint32_t {r.name}_count = {r.count};",
                  f"inline constexpr std::uint32_t {r.name}_stride = 0x{r.stride:x};"]
    for f in r.fields:
        mask = ((1 << f.bits) - 1) << f.lsb
        lines += comment(f.doc)
        lines += [f"inline constexpr {register_type} {r.name}_{f.name}_mask = 0x{mask:x}u{'ll' if r.width == 64 else ''};",
                  f"inline constexpr std::uint32_t {r.name}_{f.name}_shift = {f.lsb};"]
    return lines


def emit(description):
    lines = ["// Generated from rtl_models/regmap/*.toml. Do not edit.", "#pragma once", "",
             "#include <bit>", "#include <cstddef>", "#include <cstdint>", "#include <type_traits>", "",
             "namespace plait::regmap {", "",
             "static_assert(std::endian::native == std::endian::little, \"records are little-endian in memory\");", "",
             "/// CRC-32 of the description: two builds that disagree about the contract have different values.",
             f"inline constexpr std::uint32_t regmap_version = 0x{description.version:08x}u;", ""]
    for c in description.constants:
        lines += emit_constant(c)
    lines.append("")
    for emit_one, entries in ((emit_enum, description.enums), (emit_record, description.records),
                              (emit_header, description.headers)):
        for entry in entries:
            lines += emit_one(entry)
    lines += ["/// Registers: byte offsets, and for each field its mask in place and its lowest bit.", "namespace reg {", ""]
    for r in description.registers:
        lines += emit_register(r)
    lines += ["", "}  // namespace reg", "", "}  // namespace plait::regmap", ""]
    return "\n".join(lines)
