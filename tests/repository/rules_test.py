"""Each rule finds its breach in a small tree made for it, and none in this one."""

import tempfile
import unittest
from pathlib import Path

import rules

ROOT = Path(__file__).resolve().parents[2]


def breaches(rule, tree):
    """What the rule says of a tree {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in tree.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return list(rule(Path(folder)))


class Rules(unittest.TestCase):
    def found(self, rule, good, bad, expected):
        """`bad` added to the tree `good` is found; `good` alone is not."""
        self.assertEqual(breaches(rule, good), [])
        found = breaches(rule, good | bad)
        self.assertEqual(len(found), 1, found)
        self.assertIn(expected, found[0])

    def test_readmes(self):
        self.found(rules.readmes, {"a/README.md": "", "a/x.cpp": "", "a/plait/a/x.hpp": "", "build-x/y.cpp": ""},
                   {"a/b/y.py": ""}, "a/b: has no README.md")

    def test_lengths(self):
        self.found(rules.lengths, {"x.cpp": "\n" * 400, "x.md": "\n" * 900}, {"y.hpp": "\n" * 401}, "y.hpp: 401 lines")

    def test_machine_paths(self):
        good = {"x.md": "see https://standards.example/home/page and ./tmp/x, $folder/tmp/y, work/main, /proc/self"}
        for text in ("in /wo" "rk/main", "`/t" "mp/x`", '"/ho' 'me/me"', "from deb.deb" "ian.org", "registry.npm" "js.org/x"):
            with self.subTest(text=text):
                self.found(rules.machines, good, {"y.cpp": f"// ok\n// {text}\n"}, "y.cpp:2: names a machine")

    def test_unfinished(self):
        self.found(rules.machines, {"x.cpp": "// TODOS"}, {"y.py": "# TO" "DO: mend\n"}, "y.py:1: is unfinished")

    def test_includes(self):
        good = {"firmware/core/x.hpp": "#include <plait/engines/a.hpp>\n#include <plait/firmware/a.hpp>\n#include <span>\n",
                "hostlib/driver/x.cpp": "#include <vector>\n#include <plait/driver.hpp>\n#include <plait/regmap.hpp>\n",
                "sim/bridge/x.cpp": "#include <plait/sim/models/device.hpp>\n"}
        for file, line in (("firmware/core/y.hpp", "#include <string>"), ("firmware/engines/y.hpp", "#include <plait/hal/hal.hpp>"),
                           ("firmware/core/y.hpp", "#include <plait/driver.hpp>"), ("sim/fabric/y.cpp", "#include <plait/regmap.hpp>"),
                           ("hostlib/driver/y.cpp", "#include <plait/firmware/ep.hpp>"),
                           ("sim/models/y.cpp", '#include "plait/sim/app/plan.hpp"')):
            with self.subTest(file=file, line=line):
                self.found(rules.includes, good, {file: line + "\n"}, file)

    def test_links(self):
        good = {"docs/a.md": "[b](b.md#part) [w](https://x.example/y) `docs/b.md` `a/b`", "docs/b.md": ""}
        self.found(rules.links, good, {"docs/c.md": "[d](d.md)"}, "link to d.md")
        self.found(rules.links, good, {"README.md": "`docs/d.md`"}, "names docs/d.md")
        self.found(rules.links, good | {"src/x.hpp": "", "README.md": "`x.hpp`"}, {"docs/c.md": "`y.hpp`"}, "names y.hpp")

    def test_figures(self):
        good = {"docs/performance.md": "# P\n## A\n5 ns:\n\n    plait run x\n## B\nnothing measured\n"}
        self.found(rules.figures, good, {"docs/performance.md": "# P\n## A\n5 ns\n"}, "section A")

    def test_this_tree(self):
        for rule in rules.RULES:
            with self.subTest(rule=rule.__name__):
                found = list(rule(ROOT))
                self.assertEqual(found, [], "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
