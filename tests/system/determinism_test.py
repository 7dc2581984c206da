import unittest

from program import run

LOSSY_EP = """
[topology]
nodes = 2
gpus_per_node = 4
[scale_out]
loss = 0.02
duplication = 0.02
reordering = 0.02
reordering_delay_ns = 10000
[workload]
kind = "ep"
tokens = 128
hidden = 1024
experts = 64
"""


class Determinism(unittest.TestCase):
    def test_same_seed_same_bytes(self):
        for name in ("ep8", "ep16", "incast", "lossy", LOSSY_EP):
            with self.subTest(name):
                first, second = run(name)[2], run(name)[2]
                self.assertTrue(first)
                self.assertEqual(first, second)

    def test_another_seed_differs(self):
        for name in ("ep8", "permutation"):
            with self.subTest(name):
                one, other = run(name)[1], run(name, "--seed", "2")[1]
                self.assertEqual((one["seed"], other["seed"]), (1, 2))
                self.assertNotEqual([phase["time_us"] for phase in one["phases"]],
                                    [phase["time_us"] for phase in other["phases"]])

    def test_the_scenario_s_seed_and_the_option_are_the_same(self):
        self.assertEqual(run("seed = 7\n" + LOSSY_EP)[2], run(LOSSY_EP, "--seed", "7")[2])


if __name__ == "__main__":
    unittest.main()
