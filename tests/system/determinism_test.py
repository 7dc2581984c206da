import unittest

from program import run


class Determinism(unittest.TestCase):
    def test_same_seed_same_bytes(self):
        for name in ("ep8", "lossy"):
            with self.subTest(name):
                first, second = run(name)[2], run(name)[2]
                self.assertTrue(first)
                self.assertEqual(first, second)

    def test_another_seed_differs(self):
        self.assertNotEqual(run("ep8")[2], run("ep8", "--seed", "2")[2])


if __name__ == "__main__":
    unittest.main()
