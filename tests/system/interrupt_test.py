import json
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from program import PLAIT


class Interrupt(unittest.TestCase):
    def test_ctrl_c_leaves_the_report_so_far(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "report.json"
            process = subprocess.Popen([PLAIT, "run", "ep64-full", "--json", str(out)], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            time.sleep(4)
            process.send_signal(signal.SIGINT)
            text, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130)
            self.assertIn("INCOMPLETE", text.upper())
            report = json.loads(out.read_text())
            self.assertFalse(report["complete"])
            self.assertTrue(report["interrupted"])


if __name__ == "__main__":
    unittest.main()
