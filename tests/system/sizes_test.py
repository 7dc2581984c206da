"""Messages around the MTU and above 4 GiB, by every operation."""

import unittest

from program import run

FLOW = """
payload = "{payload}"
[topology]
nodes = 2
gpus_per_node = {gpus}
[scale_out]
leaf_down_ports = 4
mtu_bytes = {mtu}
[workload]
kind = "permutation"
bytes_per_flow = {size}
operation = "{operation}"
qps_per_flow = 1
message_bytes = {message}
"""


class Sizes(unittest.TestCase):
    def check(self, size, operation, payload="real", message=1 << 20, mtu=4096, gpus=2):
        result, report, _ = run(FLOW.format(size=size, operation=operation, payload=payload, message=message, mtu=mtu,
                                            gpus=gpus))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["complete"])
        self.assertEqual(report["verified"], payload == "real")
        one = report["runs"][0]
        self.assertEqual(one["errors"], [])
        self.assertEqual((one["flows"]["count"], one["flows"]["complete"]), (2 * gpus, 2 * gpus))
        phase = report["phases"][0]
        self.assertGreater(phase["time_us"], 0)
        self.assertGreaterEqual(phase["scale_out_bytes_per_gpu"], size)  # headers too
        return phase

    def test_around_the_mtu(self):
        for mtu in (256, 4096):
            for operation in ("write", "write_immediate", "send"):
                for size in (0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu):
                    with self.subTest(operation=operation, size=size, mtu=mtu):
                        phase = self.check(size, operation, mtu=mtu)
                        # An empty message is one packet without payload; four flows.
                        self.assertEqual(phase["packets"], 4 * max(1, -(-size // mtu)))

    def test_messages_around_the_mtu_follow_one_another(self):
        for operation in ("write", "write_immediate", "send"):
            for message, packets in ((1, 1), (4095, 1), (4096, 1), (4097, 2), (8192, 2)):
                with self.subTest(operation=operation, message=message):
                    phase = self.check(8 * message, operation, message=message)
                    self.assertEqual(phase["packets"], 4 * 8 * packets)

    def test_a_flow_longer_than_32_bits_count(self):
        size = (1 << 32) + 5
        phase = self.check(size, "write", payload="virtual", message=1 << 30)
        self.assertEqual(phase["packets"], 4 * -(-size // 4096))

    def test_a_flow_longer_than_32_bits_count_of_small_messages(self):
        size, message = (1 << 32) + 5, 1 << 20
        phase = self.check(size, "send", payload="virtual", message=message, gpus=1)
        self.assertEqual(phase["packets"], 2 * -(-size // 4096))

    def test_the_longest_messages(self):
        for message in ((1 << 31) - 1, (1 << 31) - 4097):
            with self.subTest(message):
                phase = self.check(message, "write", payload="virtual", message=message, gpus=1)
                self.assertEqual(phase["packets"], 2 * -(-message // 4096))


if __name__ == "__main__":
    unittest.main()
