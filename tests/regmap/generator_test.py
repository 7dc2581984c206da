"""The generator refuses each kind of mistake with one clear line and exit status 2, and writes only on change.

    generator_test.py GENERATE.PY          (run by ctest)
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GENERATOR = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
GOOD = '[[constant]]\nname = "one"\nvalue = 1\n'

BAD = {
    # what is wrong: (TOML, words that the message must contain)
    "not TOML": ("[[constant", ("bad.toml",)),
    "unknown table": ('[[constants]]\nname = "a"\n', ("bad.toml", "unknown table `constants`")),
    "single table": ('[constant]\nname = "a"\nvalue = 1\n', ("[[constant]]",)),
    "unknown key": (GOOD + "colour = 3\n", ("`one`", "unknown key `colour`")),
    "missing key": ('[[constant]]\nname = "a"\n', ("`a`", "missing key `value`")),
    "wrong type": ('[[constant]]\nname = "a"\nvalue = "1"\n', ("`value` must be an integer",)),
    "boolean is no integer": ('[[constant]]\nname = "a"\nvalue = true\n', ("`value` must be an integer",)),
    "negative constant": ('[[constant]]\nname = "a"\nvalue = -1\n', ("outside",)),
    "not snake_case": ('[[constant]]\nname = "One"\nvalue = 1\n', ("snake_case",)),
    "C++ keyword": ('[[constant]]\nname = "delete"\nvalue = 1\n', ("reserved word",)),
    "duplicate constant": (GOOD + GOOD, ("duplicate name `one`",)),
    "enum value too wide": ('[[enum]]\nname="E"\nwidth=8\nvalues=[{name="a",value=256}]\n', ("`E`", "`a`", "0..255")),
    "enum width": ('[[enum]]\nname="E"\nwidth=12\nvalues=[{name="a",value=1}]\n', ("8, 16 or 32",)),
    "enum duplicate value": ('[[enum]]\nname="E"\nwidth=8\nvalues=[{name="a",value=1},{name="b",value=1}]\n',
                             ("duplicate value `1`",)),
    "enum duplicate name": ('[[enum]]\nname="E"\nwidth=8\nvalues=[{name="a",value=1},{name="a",value=2}]\n',
                            ("duplicate value name `a`",)),
    "enum property": ('[[enum]]\nname="E"\nwidth=8\nproperties=["size"]\nvalues=[{name="a",value=1}]\n',
                      ("`a`", "missing key `size`")),
    "enum property name": ('[[enum]]\nname="E"\nwidth=8\nproperties=["Size"]\nvalues=[{name="a",value=1,Size=1}]\n',
                           ("property `Size`", "snake_case")),
    "empty enum": ('[[enum]]\nname="E"\nwidth=8\nvalues=[]\n', ("`values` is empty",)),
    "record size": ('[[record]]\nname="R"\nsize=8\nfields=[{name="a",type="u32"}]\n', ("`R`", "4 bytes", "is 8")),
    "record alignment": ('[[record]]\nname="R"\nsize=12\nfields=[{name="a",type="u32"},{name="b",type="u64"}]\n',
                         ("`b`", "offset 4", "alignment 8")),
    "record tail alignment": ('[[record]]\nname="R"\nsize=5\nfields=[{name="a",type="u32"},{name="b",type="u8"}]\n',
                              ("size 5", "alignment 4")),
    "record unknown type": ('[[record]]\nname="R"\nsize=4\nfields=[{name="a",type="u24"}]\n', ("unknown type `u24`",)),
    "record duplicate field": ('[[record]]\nname="R"\nsize=2\nfields=[{name="a",type="u8"},{name="a",type="u8"}]\n',
                               ("duplicate field `a`",)),
    "record contains itself": ('[[record]]\nname="R"\nsize=4\nfields=[{name="a",type="R"}]\n', ("contains itself",)),
    "header bits": ('[[header]]\nname="H"\nsize=2\nfields=[{name="a",bits=15}]\n', ("`H`", "15 bits", "16")),
    "header default": ('[[header]]\nname="H"\nsize=1\nfields=[{name="a",bits=8,value=256}]\n', ("`value` = 256",)),
    "header reserved default": ('[[header]]\nname="H"\nsize=1\nfields=[{name="reserved",bits=8,value=1}]\n', ("`value` = 1",)),
    "header wide field": ('[[header]]\nname="H"\nsize=10\nfields=[{name="a",bits=4},{name="b",bits=76}]\n', ("whole bytes",)),
    "duplicate type": ('[[header]]\nname="H"\nsize=1\nfields=[{name="a",bits=8}]\n[[enum]]\nname="H"\nwidth=8\n'
                       'values=[{name="a",value=1}]\n', ("duplicate type name `h`",)),
    "register overlap": ('[[register]]\nname="a"\noffset=0\naccess="rw"\ncount=4\n[[register]]\nname="b"\noffset=12\n'
                         'access="rw"\n', ("`a` and `b` overlap", "0xc")),
    "register alignment": ('[[register]]\nname="a"\noffset=2\naccess="rw"\n', ("multiples of 4",)),
    "register access": ('[[register]]\nname="a"\noffset=0\naccess="wr"\n', ("`access`", "ro, rw, wo, rw1c")),
    "register field overlap": ('[[register]]\nname="a"\noffset=0\naccess="rw"\nfields=[{name="x",lsb=0,bits=4},'
                               '{name="y",lsb=3,bits=1}]\n', ("`y`", "overlaps")),
    "register field too high": ('[[register]]\nname="a"\noffset=0\naccess="rw"\nfields=[{name="x",lsb=31,bits=2}]\n',
                                ("do not fit 32 bits",)),
}


def run(*arguments):
    return subprocess.run([sys.executable, GENERATOR, *map(str, arguments)], capture_output=True, text=True, check=False)


class GeneratorTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.output = self.folder / "out" / "regmap.hpp"

    def describe(self, text):
        (self.folder / "bad.toml").write_text(text, encoding="utf-8")
        return run("--description", self.folder, "--cpp", self.output)

    def test_each_mistake_is_refused_with_one_line(self):
        for what, (text, words) in BAD.items():
            with self.subTest(what):
                result = self.describe(text)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                for word in words:
                    self.assertIn(word, result.stderr)
                self.assertFalse(self.output.exists())

    def test_no_description(self):
        self.assertEqual(run("--description", self.folder / "absent", "--cpp", self.output).returncode, 2)

    def test_writes_only_on_change(self):
        self.assertEqual(self.describe(GOOD).returncode, 0)
        before = self.output.stat().st_mtime_ns
        self.assertEqual(self.describe(GOOD).returncode, 0)
        self.assertEqual(self.output.stat().st_mtime_ns, before)

    def test_check_writes_nothing_and_finds_a_stale_file(self):
        self.describe(GOOD)
        text = self.output.read_text(encoding="utf-8")
        self.assertEqual(run("--description", self.folder, "--cpp", self.output, "--check").returncode, 0)
        self.output.write_text(text + "\n", encoding="utf-8")
        result = run("--description", self.folder, "--cpp", self.output, "--check")
        self.assertEqual(result.returncode, 2)
        self.assertIn("stale", result.stderr)
        self.assertEqual(self.output.read_text(encoding="utf-8"), text + "\n")

    def test_version_follows_the_contract_and_not_its_prose(self):
        def version(text):
            self.assertEqual(self.describe(text).returncode, 0)
            return next(line for line in self.output.read_text(encoding="utf-8").splitlines() if "regmap_version =" in line)

        plain = version(GOOD)
        self.assertEqual(version(GOOD + 'doc = "prose"\n'), plain)
        self.assertNotEqual(version(GOOD.replace("value = 1", "value = 2")), plain)


if __name__ == "__main__":
    unittest.main()
