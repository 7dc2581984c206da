// Writes a capture of frames of every kind, and on standard output the fields that a dissector must find in
// each.
//   write_capture FILE.pcap

#include <cstdio>
#include <fstream>

#include "samples.hpp"

namespace {
using namespace plait::firmware;
using namespace plait::firmware::wire_test;

/// A capture file in the classic format, microseconds, link type Ethernet (1); readers go by the magic's byte
/// order.
class Capture {
  public:
    explicit Capture(const char* path) : file_(path, std::ios::binary) {
        put32(0xa1b2c3d4);
        put32(2 | 4U << 16);  // version 2.4
        put32(0);
        put32(0);
        put32(65535);
        put32(1);
    }
    void add(const Bytes& frame) {
        put32(0);
        put32(count_++);
        put32(static_cast<std::uint32_t>(frame.size()));
        put32(static_cast<std::uint32_t>(frame.size()));
        file_.write(reinterpret_cast<const char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
    }
    bool good() { return file_.flush().good(); }

  private:
    void put32(std::uint32_t value) { file_.write(reinterpret_cast<const char*>(&value), 4); }
    std::ofstream file_;
    std::uint32_t count_ = 0;
};

Envelope envelope_of(bool is_ipv6) {
    Envelope envelope;
    envelope.addresses = sample_addresses(is_ipv6);
    envelope.source_port = 0xc123;
    return envelope;
}

/// Prints one line of `name=value` pairs; a field that is not named must be absent.
void expect(const Bth& bth, std::size_t payload_bytes, bool is_ipv6, const std::string& more) {
    std::printf(
        "infiniband.bth.opcode=%u infiniband.bth.destqp=0x%06x infiniband.bth.psn=%u infiniband.bth.a=%d ",
        unsigned{bth.opcode}, bth.destination_qp, bth.psn, bth.ack_request ? 1 : 0);
    std::printf(
        "infiniband.bth.padcnt=%u infiniband.bth.m=1 infiniband.bth.p_key=65535 udp.srcport=49443 "
        "udp.dstport=4791 ",
        static_cast<unsigned>((4 - payload_bytes % 4) % 4));
    std::printf("eth.src=02:03:00:00:01:02 eth.dst=02:03:00:00:03:04 ");
    std::printf(is_ipv6 ? "ipv6.src=fd70:6c61:6974:3::102 ipv6.dst=fd70:6c61:6974:3::304"
                        : "ip.src=10.3.1.2 ip.dst=10.3.3.4 ip.checksum.status=1");
    std::printf("%s\n", more.c_str());
}

std::string hex(std::span<const std::uint8_t> bytes) {
    std::string text;
    for (const std::uint8_t byte : bytes) {
        for (const int shift : {4, 0}) text += "0123456789abcdef"[(byte >> shift) & 15];
    }
    return text;
}

void add_rc(Capture& capture, Opcode opcode, const Bytes& extensions, std::size_t payload_bytes,
            const std::string& more) {
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(opcode);
    bth.destination_qp = 0x00012a;
    bth.psn = 0x800000U + static_cast<std::uint32_t>(opcode);
    bth.ack_request = static_cast<unsigned>(opcode) % 2 != 0;
    for (const bool is_ipv6 : {false, true}) {
        const Bytes frame = roce_frame(envelope_of(is_ipv6), bth, extensions, counting(payload_bytes));
        capture.add(frame);
        expect(bth, payload_bytes, is_ipv6,
               more + " infiniband.invariant.crc=0x" + hex(std::span(frame).last(4)));
    }
}

void add_rc_and_ud(Capture& capture) {
    const Bytes reth =
        encoded(Reth{.address = 0x1122334455667788, .remote_key = 0x99aabbcc, .length = 0x00010203});
    const char* reth_fields =
        " infiniband.reth.va=0x1122334455667788 infiniband.reth.r_key=0x99aabbcc "
        "infiniband.reth.dmalen=66051";
    const Bytes immediate = encoded(ImmDt{.immediate = 0x0badcafe});
    const char* immediate_fields = " infiniband.immdt=0badcafe";
    const Bytes aeth = encoded(Aeth{.syndrome = 0x1f, .message_sequence = 0x030201});
    const char* aeth_fields = " infiniband.aeth.syndrome=31 infiniband.aeth.msn=197121";
    const Bytes atomic =
        encoded(AtomicEth{.address = 0x10, .remote_key = 0x20, .swap_or_add = 0x30, .compare = 0x40});
    const char* atomic_fields =
        " infiniband.reth.va=0x0000000000000010 infiniband.reth.r_key=0x00000020 "
        "infiniband.atomiceth.swapdt=48 infiniband.atomiceth.cmpdt=64";
    const Bytes deth = encoded(Deth{.queue_key = 0x11223344, .source_qp = 0x556677});
    const char* deth_fields = " infiniband.deth.q_key=0x0000000011223344 infiniband.deth.srcqp=0x00556677";
    const auto joined = [](Bytes first, const Bytes& second) {
        first.insert(first.end(), second.begin(), second.end());
        return first;
    };
    const auto both = [](const char* first, const char* second) { return std::string(first) + second; };

    for (const Opcode opcode :
         {Opcode::rc_send_first, Opcode::rc_send_middle, Opcode::rc_send_last, Opcode::rc_send_only,
          Opcode::rc_write_middle, Opcode::rc_write_last, Opcode::rc_read_response_middle}) {
        add_rc(capture, opcode, {}, 13, "");
    }
    for (const Opcode opcode :
         {Opcode::rc_send_last_immediate, Opcode::rc_send_only_immediate, Opcode::rc_write_last_immediate}) {
        add_rc(capture, opcode, immediate, 2, immediate_fields);
    }
    for (const Opcode opcode : {Opcode::rc_write_first, Opcode::rc_write_only})
        add_rc(capture, opcode, reth, 7, reth_fields);
    add_rc(capture, Opcode::rc_read_request, reth, 0, reth_fields);
    add_rc(capture, Opcode::rc_write_only_immediate, joined(reth, immediate), 4,
           both(reth_fields, immediate_fields));
    for (const Opcode opcode :
         {Opcode::rc_read_response_first, Opcode::rc_read_response_last, Opcode::rc_read_response_only}) {
        add_rc(capture, opcode, aeth, 8, aeth_fields);
    }
    add_rc(capture, Opcode::rc_acknowledge, aeth, 0, aeth_fields);
    add_rc(capture, Opcode::rc_atomic_acknowledge, joined(aeth, encoded(AtomicAckEth{.original = 0x50})), 0,
           both(aeth_fields, " infiniband.atomicacketh.origremdt=80"));
    for (const Opcode opcode : {Opcode::rc_compare_swap, Opcode::rc_fetch_add})
        add_rc(capture, opcode, atomic, 0, atomic_fields);
    add_rc(capture, Opcode::ud_send_only, deth, 3, deth_fields);
    add_rc(capture, Opcode::ud_send_only_immediate, joined(deth, immediate), 1,
           both(deth_fields, immediate_fields));
}

void add_mp(Capture& capture) {
    for (const Sample& sample : mp_samples()) {
        Bth bth;
        bth.opcode = static_cast<std::uint8_t>(sample.packet.opcode);
        bth.destination_qp = sample.packet.qpn;
        bth.psn = sample.packet.psn;
        bth.ack_request = sample.packet.ack_request;
        for (const bool is_ipv6 : {false, true}) {
            const Bytes frame = frame_of(sample, is_ipv6);
            capture.add(frame);
            // The dissector knows our opcodes as a manufacturer's and shows what follows the BTH as it is,
            // ICRC included.
            const std::size_t bth_end = is_ipv6 ? 14 + 40 + 8 + 12 : 14 + 20 + 8 + 12;
            expect(bth, sample.payload.size(), is_ipv6,
                   " infiniband.vendor=" + hex(std::span(frame).subspan(bth_end)));
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    Capture capture(argv[1]);
    add_rc_and_ud(capture);
    add_mp(capture);
    return capture.good() ? 0 : 1;
}
