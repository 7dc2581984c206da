"""ep8 with all blocks in every device of a node: the same results in the same time."""

import unittest

from program import run


class RtlWhole(unittest.TestCase):
    def test_ep8_takes_the_same_time(self):
        cpp, rtl = run("ep8")[1], run("ep8-rtl", timeout=1500)[1]
        for before, after in zip(cpp["phases"], rtl["phases"], strict=True):
            self.assertTrue(after["complete"] and after["verified"])
            self.assertAlmostEqual(after["time_us"] / before["time_us"], 1, delta=0.05)
        blocks = rtl["runs"][0]["blocks"]
        self.assertGreater(blocks["plait_reduce"]["commands"], 30000)


if __name__ == "__main__":
    unittest.main()
