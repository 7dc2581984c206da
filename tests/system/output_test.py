"""What the program shows, and where."""

import pathlib
import re
import tempfile
import unittest

from program import OnTerminal, SCENARIOS, plait


class Output(unittest.TestCase):
    def test_list(self):
        result = plait("list")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        listed = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in result.stdout.splitlines())
        self.assertEqual(set(listed), {path.stem for path in SCENARIOS.glob("*.toml")})
        self.assertTrue(all(listed.values()))

    def test_check(self):
        for path in sorted(SCENARIOS.glob("*.toml")):
            for scenario in (path.stem, path):
                with self.subTest(scenario):
                    result = plait("check", scenario)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))
                    self.assertIn(path.stem, result.stdout)
                    self.assertRegex(result.stdout, r"about \d+\.\d+ GiB")
                    self.assertRegex(result.stdout, r"floor \d+\.\d+ us")

    def test_check_and_run_agree_on_the_floor(self):
        floor = re.search(r"dispatch: floor (\d+\.\d) us", plait("check", "ep8").stdout).group(1)
        self.assertRegex(plait("run", "ep8").stdout, rf"dispatch +\d+\.\d +{re.escape(floor)} ")

    def test_a_table_and_no_bar_where_output_is_piped(self):
        result = plait("run", "ep8")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for word in ("dispatch", "combine", "efficiency", "Every byte was checked and is right."):
            self.assertIn(word, result.stdout)
        self.assertNotIn("\r", result.stdout)
        self.assertNotIn("\x1b", result.stdout)

    def test_quiet(self):
        result = plait("run", "ep8", "--quiet")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        with OnTerminal("run", "ep8", "--quiet") as program:
            self.assertEqual(program.finish(), ("", b""))

    def test_a_bar_on_a_terminal(self):
        with OnTerminal("run", "ep8") as program:
            shown = b""
            while more := program.read():
                shown += more
            program.finish()
            self.assertEqual(program.process.returncode, 0)
        self.assertIn(b"ep8 [", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown[-80:])  # and it is gone at the end

    def test_an_old_report_is_replaced_and_a_refused_run_leaves_it(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "report.json"
            out.write_text("x" * 1_000_000)
            self.assertEqual(plait("run", "no-such", "--json", out).returncode, 2)
            self.assertEqual(out.stat().st_size, 1_000_000)
            self.assertEqual(plait("run", "ep8", "--quiet", "--json", out).returncode, 0)
            self.assertNotIn("xx", out.read_text())

    def test_help(self):
        for arguments in (("--help",), ("run", "--help")):
            result = plait(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("run", result.stdout)


if __name__ == "__main__":
    unittest.main()
