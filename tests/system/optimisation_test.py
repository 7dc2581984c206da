"""The same report from code that the compiler has not optimised."""

import subprocess
import tempfile
import unittest

from program import SOURCE, run


class Optimisation(unittest.TestCase):
    def test_debug_build_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in (["cmake", "-G", "Ninja", "-S", str(SOURCE), "-B", folder, "-DCMAKE_BUILD_TYPE=Debug",
                             "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DBUILD_TESTING=OFF"],
                            ["cmake", "--build", folder, "--target", "plait"]):
                built = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual(built.returncode, 0, built.stdout[-2000:] + built.stderr[-2000:])
            slow = run("ep8", program=f"{folder}/bin/plait")[2]
            self.assertTrue(slow)
            self.assertEqual(slow, run("ep8")[2])


if __name__ == "__main__":
    unittest.main()
