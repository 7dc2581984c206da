"""The C header: constants and enums for users of the C interface. Records and registers are the C++ code's alone."""

from description import snake_case


def comment(text):
    return [f"/** {text} */"] if text else []


def define(name, value, doc):
    return comment(doc) + [f"#define PLAIT_{name.upper()} {value}{'u' if value < 2**32 else 'ull'}"]


def emit_enum(e):
    """Integers of fixed size, no enum of C: a struct looks alike to every compiler, and a foreign value is no error."""
    prefix = snake_case(e.name)
    lines = comment(e.doc) + [f"typedef uint32_t plait_{prefix};"]
    for v in e.values:
        lines += define(f"{prefix}_{v.name}", v.value, v.doc)
    for key, numbers in e.properties.items():
        for v, number in zip(e.values, numbers):
            lines += define(f"{prefix}_{v.name}_{key}", number, "")
    return lines + [""]


def emit(description):
    lines = ["/* Generated from the .toml files of rtl_models/regmap. Do not edit. */",
             "#ifndef PLAIT_REGMAP_H", "#define PLAIT_REGMAP_H", "", "#include <stdint.h>", ""]
    for c in description.constants:
        lines += define(c.name, c.value, c.doc)
    lines.append("")
    for e in description.enums:
        lines += emit_enum(e)
    return "\n".join(lines + ["#endif", ""])
