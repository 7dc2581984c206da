"""The commands refuse options that they do not know, and change nothing then."""

import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Scripts(unittest.TestCase):
    def test_wrong_option(self):
        for options in (["--nonsense"], ["release"], ["--asan", "-x"], [""]):
            with self.subTest(options=options):
                done = subprocess.run([ROOT / "test.sh", *options], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stdout, "")
                self.assertRegex(done.stderr, r"\Atest\.sh: unknown option .*, expected --asan, --long, --synthesis, --lint or --all\n\Z")

    def test_syntax(self):
        for script in ("run.sh", "test.sh", ".ci/run", ".ci/setup.sh"):
            with self.subTest(script=script):
                done = subprocess.run(["bash", "-n", ROOT / script], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_packages(self):
        """Each line names its group; none is named twice."""
        seen = set()
        for line in (ROOT / ".ci" / "packages").read_text().splitlines():
            if line and not line.startswith("#"):
                group, *packages = line.split()
                self.assertIn(group, {"run", "test", "lint"})
                self.assertTrue(packages)
                self.assertFalse(seen & set(packages), line)
                seen |= set(packages)


if __name__ == "__main__":
    unittest.main()
