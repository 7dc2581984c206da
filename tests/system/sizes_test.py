"""Messages around the MTU and above 4 GiB, by every operation."""

import unittest

from program import run

FLOW = """
payload = "{payload}"
[topology]
nodes = 2
gpus_per_node = 2
[scale_out]
leaf_down_ports = 4
[workload]
kind = "permutation"
bytes_per_flow = {size}
operation = "{operation}"
qps_per_flow = 1
message_bytes = {message}
"""


class Sizes(unittest.TestCase):
    def check(self, size, operation, payload="real", message=1 << 20, timeout=300):
        result, report, _ = run(FLOW.format(size=size, operation=operation, payload=payload, message=message), timeout=timeout)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(report["complete"])
        self.assertEqual(report["verified"], payload == "real")
        one = report["runs"][0]
        self.assertEqual(one["errors"], [])
        self.assertEqual((one["flows"]["count"], one["flows"]["complete"]), (4, 4))
        return report["phases"][0]

    def test_around_the_mtu(self):
        mtu = 4096
        for operation in ("write", "write_immediate", "send"):
            for size in (0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu):
                with self.subTest(operation=operation, size=size):
                    phase = self.check(size, operation)
                    # An empty message is one packet without payload; four flows.
                    self.assertEqual(phase["packets"], 4 * max(1, -(-size // mtu)))

    def test_messages_around_the_mtu_follow_one_another(self):
        for message, packets in ((1, 1), (4095, 1), (4096, 1), (4097, 2), (8192, 2)):
            with self.subTest(message=message):
                self.assertEqual(self.check(8 * message, "write", message=message)["packets"], 4 * 8 * packets)

    def test_a_flow_longer_than_32_bits_count(self):
        size = (1 << 32) + 5
        phase = self.check(size, "write", payload="virtual", message=1 << 30)
        self.assertEqual(phase["packets"], 4 * -(-size // 4096))


if __name__ == "__main__":
    unittest.main()
