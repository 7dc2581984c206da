"""Ctrl-C."""

import json
import os
import pathlib
import signal
import tempfile
import unittest

from program import OnTerminal

INTERRUPTED = 130


class Interrupt(unittest.TestCase):
    def start(self, folder):
        """ep64-full, which takes a minute, once its simulation is under way."""
        program = OnTerminal("run", "ep64-full", "--json", pathlib.Path(folder) / "report.json")
        shown = b""
        while b"us simulated" not in shown:
            more = program.read()
            self.assertTrue(more, shown)
            shown += more
        return program

    def test_the_report_so_far_is_written(self):
        with tempfile.TemporaryDirectory() as folder, self.start(folder) as program:
            program.process.send_signal(signal.SIGINT)
            text, _ = program.finish()
            self.assertEqual(program.process.returncode, INTERRUPTED)
            self.assertIn("INCOMPLETE", text.upper())
            report = json.loads((pathlib.Path(folder) / "report.json").read_text())
            self.assertEqual((report["complete"], report["verified"], report["interrupted"]), (False, False, True))
            self.assertFalse(report["runs"][0]["complete"])
            for phase in report["phases"]:
                if not phase["complete"]:
                    self.assertEqual((phase["efficiency"], phase["goodput_gbytes_per_s"]), (0, 0))

    def test_one_before_the_simulation(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "report.json"
            os.mkfifo(out)
            with OnTerminal("run", "ep64", "--json", out) as program:
                reader = os.open(out, os.O_RDONLY)  # waits until the program tries whether it may write
                program.process.send_signal(signal.SIGINT)
                text, _ = program.finish()
                report = json.loads(os.read(reader, 65536))
                os.close(reader)
            self.assertEqual(program.process.returncode, INTERRUPTED)
            self.assertIn("INCOMPLETE", text)
            self.assertEqual((report["complete"], report["verified"], report["interrupted"]), (False, False, True))

    def test_the_second_one_ends_it_at_once(self):
        with tempfile.TemporaryDirectory() as folder, self.start(folder) as program:
            program.process.send_signal(signal.SIGSTOP)  # both arrive before it can end by itself
            program.process.send_signal(signal.SIGINT)
            program.process.send_signal(signal.SIGCONT)
            program.process.send_signal(signal.SIGINT)
            program.finish(timeout=30)
            # By the signal, or by itself where it was quicker: a shell shows both as 130.
            self.assertIn(program.process.returncode, (-signal.SIGINT, INTERRUPTED))


if __name__ == "__main__":
    unittest.main()
