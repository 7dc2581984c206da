#pragma once
// What a device offers to firmware. Commands are orders, not questions: they return at once, and what comes
// of them arrives as an event (Firmware::on_...). Implementations: sim/models (device model). No virtual
// calls: firmware is a template over its HAL, and each implementation is checked with static_assert(Hal<T>).

#include <concepts>
#include <cstdint>
#include <optional>
#include <plait/engines/spray.hpp>
#include <plait/firmware/commands.hpp>
#include <span>

namespace plait::hal {

using firmware::BufferId;

template <class H>
concept Hal = requires(H hal, const H constant, const firmware::Packet& packet,
                       const firmware::Payload& payload, firmware::Segment segment, firmware::TimerId timer,
                       firmware::FetchTag tag, const firmware::ScaleUpHeader& frame, BufferId buffer,
                       std::uint32_t number, std::uint64_t time_ns, std::uint8_t small,
                       const firmware::Reduction& reduction, std::span<const std::uint8_t> bytes,
                       std::span<const std::uint32_t> index, std::span<const float> weights,
                       regmap::DropReason reason) {
    // Time.
    { constant.now_ns() } -> std::same_as<std::uint64_t>;
    hal.set_timer(timer, time_ns);  // one shot, replaces what was set; -> on_timer
    hal.cancel_timer(timer);

    // Planes. A plane takes data packets while those it has not begun to send are less than
    // DeviceConfig::transmit_ahead_bytes, each with packet_overhead_bytes; on_transmit_credit(plane, payload
    // bytes) says that one starts onto the wire. Packets without a PSN do not count and go ahead of data.
    hal.begin_send();  // what comes now is work for the data packet that is sent next, if one is
    hal.send(packet, payload);
    // A packet to fill in and send, before any other command, where the device takes it from, so that nothing
    // need be copied. Its payload is empty, and no switch has touched it; else there may be anything in it.
    { hal.draft() } -> std::same_as<firmware::Draft&>;
    hal.send_draft();
    { constant.port_up(small) } -> std::same_as<bool>;

    // Host memory. place, write and interrupt share one channel and become visible in the order they were
    // given. Reads may overtake each other, but when a fetch is answered, payloads and rows that were asked
    // for before it have been read.
    hal.fetch(tag, segment);  // at most 4096 bytes -> on_fetched
    // Buffer from byte `number` on -> host memory; true: firmware's reference is given back with it.
    hal.place(buffer, number, segment, bool{});
    hal.write(time_ns /* device address */, bytes);  // small
    hal.interrupt(number);                           // bits of interrupt_status

    // Packet memory.
    hal.retain(buffer);
    hal.release(buffer);

    // Scale-up: frames to the devices of the node whose bit is set, this one included (looped back inside).
    // `index` holds one entry a target, in order of the bits, or is empty when the header's own index goes to
    // all. With `notify`, on_scale_up_sent(frame.tag) follows when the payload has been read and the last
    // copy has left.
    hal.scale_up(small, frame, index, payload, bool{} /* notify */);

    // Reduce engine: rows are decoded and added in FP32 in order of position, and the sum is encoded once
    // -> on_reduced(sum, result buffer). `sum` is a SumName. Contributions may come in any order; out-of-turn
    // ones wait. With no contributions at all the result is zeros. Frames of kind contribution go to the sum
    // and position of their tag without firmware; when no such sum is open they are dropped. One whose status
    // is not ok carries nothing: it is an event (on_scale_up), and firmware skips its position. Skipping a
    // position that came already, or of a sum that is over, changes nothing.
    hal.reduce_open(number, reduction);
    hal.reduce_weigh(number, weights);  // right after opening: one factor a position, in FP32; else all are 1
    hal.reduce_add(number, small /* position */, buffer);  // takes over firmware's reference
    hal.reduce_read(number, small, segment);  // a row of BF16 in host memory, whatever the sum's format
    hal.reduce_skip(number, small);           // this position will not come
    hal.reduce_close(number);                 // give up: what waits is released, no event follows

    // Counters of the encoders, max_handles a group: infinities and NaN in what was encoded, and in sums that
    // were rounded, since the counter was taken last. They stop at their largest value.
    { hal.take_non_finite(number) } -> std::same_as<std::uint32_t>;

    // Engines of a queue pair: receive window and spray selector. A HAL may have spray_port(number, selector)
    // besides: what it answers has the selector's functions, and firmware calls those.
    hal.window_open(number /* qpn */, number /* peer device */, number /* first psn */,
                    std::uint16_t{} /* packets */, std::uint16_t{} /* mtu */);
    hal.window_close(number);
    hal.window_refuse(
        number, number /* psn */);  // takes back the acceptance of the packet whose event is being handled
    { hal.window(number) } -> std::same_as<const engines::RxWindow&>;
    { hal.spray(number) } -> std::same_as<engines::SpraySelector&>;

    hal.count_drop(reason);
};

}  // namespace plait::hal
