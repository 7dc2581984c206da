#include <plait/sim/models/scale_up_port.hpp>

#include <algorithm>
#include <bit>
#include <utility>

#include <plait/sim/models/firmware_error.hpp>

namespace plait::sim {

namespace {
uint64_t argument_of(ScaleUpFrame* frame) { return reinterpret_cast<uint64_t>(frame); }
ScaleUpFrame* frame_of(uint64_t argument) { return reinterpret_cast<ScaleUpFrame*>(argument); }

bool is_data(const firmware::ScaleUpHeader& header) {
    return header.kind == regmap::ScaleUpKind::row || header.kind == regmap::ScaleUpKind::contribution;
}
}  // namespace

ScaleUpPort::ScaleUpPort(sc_core::sc_module_name module_name, EventQueue& queue, ScaleUpSwitch& network,
                         PacketPools& pools, PacketMemory& memory, uint8_t local,
                         const EngineParameters& parameters, EngineEvents& events, EngineBlocks* blocks)
    : sc_module(module_name),
      queue_(queue),
      network_(network),
      pools_(pools),
      memory_(memory),
      events_(events),
      blocks_(blocks),
      local_(local),
      clock_(parameters.clock_ghz, parameters.bytes_per_cycle),
      transmit_latency_ps_(beside_engines_ps(parameters.transmit_latency_ns * 1000,
                                             forward_cycles.latency * clock_.cycle_ps())),
      receive_latency_ps_(parameters.receive_latency_ns * 1000),
      forward_(clock_.cycle_ps()),
      receive_pipes_(parameters.scale_up_pipes) {
    network.attach(local, {&ScaleUpPort::deliver, &ScaleUpPort::port_change, this, &ScaleUpPort::expect});
}

ScaleUpPort::~ScaleUpPort() { cut(); }

uint32_t ScaleUpPort::frame_bytes(const firmware::ScaleUpHeader& header, uint32_t payload_bytes) {
    const size_t control = header.kind == regmap::ScaleUpKind::control ? regmap::MpEpControl::size_bytes : 0;
    return static_cast<uint32_t>(regmap::ScaleUp::size_bytes + control +
                                 header.choice_count * regmap::MpEpChoice::size_bytes + payload_bytes);
}

void ScaleUpPort::send(uint8_t targets, const firmware::ScaleUpHeader& header,
                       std::span<const uint32_t> index, const PayloadSlice& payload, firmware::BufferId held,
                       uint64_t ready_ps, bool notify) {
    ForwardRow row{
        .targets = targets,
        .node_size = static_cast<uint8_t>(network_.config().ports),
        .own_rank = local_,
        .index_count = static_cast<uint8_t>(index.empty() ? std::popcount(targets) : index.size())};
    row.indices.fill(header.index);
    std::copy_n(index.begin(), std::min(index.size(), row.indices.size()), row.indices.begin());
    const auto set = engines::ForwardSet::make(
        targets, row.node_size, local_,
        std::span<const uint32_t>(row.indices).first(std::min<size_t>(row.index_count, forward_ranks)));
    if (!set) throw FirmwareError("scale-up to devices that do not exist, or with another number of indices");
    LeavingCopies* leaving = nullptr;
    if (notify) {
        leaving = leaving_.take();
        *leaving = {static_cast<uint32_t>(std::popcount(targets)), header.tag};
    }
    const uint64_t forwarded_ps =
        forward_.answered_ps(queue_.now_ps(), ready_ps,
                             blocks_ != nullptr ? blocks_->forward(row, answer_of(row)) : forward_cycles);
    set->for_each([&](uint32_t rank, uint32_t own_index) {
        ScaleUpFrame* const frame = pools_.frames.take();
        static_cast<ScaleUpPacket&>(*frame) = ScaleUpPacket{};
        frame->drop = &ScaleUpPort::drop;
        frame->sent = &ScaleUpPort::sent;
        frame->size_bytes = frame_bytes(header, payload.length);
        frame->source = local_;
        frame->destination = static_cast<uint16_t>(rank);
        frame->header = header;
        frame->header.source_local = local_;
        frame->header.index = own_index;
        frame->payload = payload;
        if (payload.block != nullptr) {
            pools_.payload.retain(payload.block);
        }
        frame->held = held;
        if (held != 0) {
            memory_.retain(held);
        }
        frame->leaving = leaving;
        frame->owner = this;
        count_sent(*frame);
        // It enters the switch's server when it is ready, not before: the server is a FIFO, and the frames
        // behind one that waits for its payload would wait too.
        queue_.schedule(forwarded_ps + clock_.time_ps(frame->size_bytes) + transmit_latency_ps_, 0,
                        &ScaleUpPort::enter, this, argument_of(frame));
    });
}

void ScaleUpPort::enter(void* object, uint64_t argument) {
    auto& self = *static_cast<ScaleUpPort*>(object);
    ScaleUpFrame* const frame = frame_of(argument);
    if (self.cut_) {
        drop(frame, sim::DropReason::link_down);
    } else if (frame->destination == self.local_) {
        const Slot slot = self.loopback_.take(self.queue_.now_ps(), self.queue_.now_ps(),
                                              self.clock_.time_ps(frame->size_bytes));
        self.queue_.schedule(slot.end_ps, 0, {&ScaleUpPort::arrive_back, &ScaleUpPort::expect_back}, object,
                             argument);
    } else {
        self.network_.send(frame, self.queue_.now_ps());
    }
}

void ScaleUpPort::arrive_back(void* object, uint64_t argument) {
    ScaleUpFrame* const frame = frame_of(argument);
    sent(frame);
    static_cast<ScaleUpPort*>(object)->arrived(frame);
}

void ScaleUpPort::sent(ScaleUpPacket* packet) {
    auto* const frame = static_cast<ScaleUpFrame*>(packet);
    ScaleUpPort& self = *static_cast<ScaleUpPort*>(frame->owner);
    self.memory_.release(frame->held, self.queue_.now_ps());
    frame->held = 0;
    LeavingCopies* const leaving = std::exchange(frame->leaving, nullptr);
    if (leaving != nullptr &&
        --leaving->remaining == 0) {  // an event of its own: a lost frame is found inside another one
        self.queue_.schedule(self.queue_.now_ps(), 0, &ScaleUpPort::all_sent, &self,
                             reinterpret_cast<uint64_t>(leaving));
    }
}

void ScaleUpPort::all_sent(void* object, uint64_t argument) {
    auto& self = *static_cast<ScaleUpPort*>(object);
    auto* const leaving = reinterpret_cast<LeavingCopies*>(argument);
    const uint32_t tag = leaving->tag;
    self.leaving_.give_back(leaving);
    self.events_.frames_sent(tag);
}

void ScaleUpPort::drop(ScaleUpPacket* packet, sim::DropReason) {
    auto* const frame = static_cast<ScaleUpFrame*>(packet);
    sent(frame);
    ScaleUpPort& sender = *static_cast<ScaleUpPort*>(frame->owner);
    ++sender.lost_;
    sender.free(frame);
}

void ScaleUpPort::deliver(void* object, ScaleUpPacket* packet) {
    static_cast<ScaleUpPort*>(object)->arrived(static_cast<ScaleUpFrame*>(packet));
}

void ScaleUpPort::expect(void* object, const ScaleUpPacket* packet) {
    const auto& self = *static_cast<const ScaleUpPort*>(object);
    const auto* const frame = static_cast<const ScaleUpFrame*>(packet);
    if (frame->destination == self.local_) {
        self.events_.frame_expected(*frame);
    } else {
        self.memory_.expect(frame->held);
    }
}

void ScaleUpPort::expect_back(void* object, uint64_t argument) { expect(object, frame_of(argument)); }

void ScaleUpPort::arrived(ScaleUpFrame* frame) {
    if (cut_) {
        free(frame);
    } else if (!waiting_.empty() || !take(frame)) {
        ++waited_;
        waiting_.push(frame);
        if (waiting_.size() == 1) {
            memory_.wait_for_room(&ScaleUpPort::room, this);
        }
    }
}

// False when there is no packet memory for the frame.
bool ScaleUpPort::take(ScaleUpFrame* frame) {
    firmware::BufferId buffer = 0;
    if (is_data(frame->header) && frame->payload.length != 0) {
        buffer = memory_.allocate(frame->payload, PacketMemory::Use::lossless);
        if (buffer == 0) {
            return false;
        }
    }
    events_.frame_arrived(*frame, buffer);
    free(frame);
    return true;
}

void ScaleUpPort::room(void* object, uint64_t) {
    auto& self = *static_cast<ScaleUpPort*>(object);
    while (!self.waiting_.empty()) {
        if (!self.take(self.waiting_.front())) {
            self.memory_.wait_for_room(&ScaleUpPort::room, object);
            return;
        }
        self.waiting_.pop();
    }
}

void ScaleUpPort::port_change(void* object, uint16_t port, bool up) {
    static_cast<ScaleUpPort*>(object)->events_.scale_up_changed(static_cast<uint8_t>(port), up);
}

uint64_t ScaleUpPort::received_ps(const ScaleUpFrame& frame) {
    return receive_pipes_.take(queue_.now_ps(), queue_.now_ps(), clock_.time_ps(frame.size_bytes)).end_ps +
           receive_latency_ps_;
}

void ScaleUpPort::count_sent(const ScaleUpFrame& frame) {
    (is_data(frame.header) ? data_sent_ : control_sent_).add(frame.size_bytes);
    if (frame.destination == local_ && is_data(frame.header)) {
        loopback_sent_.add(frame.size_bytes);
    }
}

void ScaleUpPort::free(ScaleUpFrame* frame) {
    if (frame->payload.block != nullptr) {
        pools_.payload.release(frame->payload.block);
    }
    frame->payload = {};
    pools_.frames.give_back(frame);
}

void ScaleUpPort::cut() {
    cut_ = true;
    while (!waiting_.empty()) {
        free(waiting_.front());
        waiting_.pop();
    }
}

void ScaleUpPort::report(DeviceStatistics& statistics) const {
    statistics.scale_up_data_sent = data_sent_;
    statistics.scale_up_control_sent = control_sent_;
    statistics.loopback = loopback_sent_;
    statistics.lost_in_scale_up = lost_;
    statistics.scale_up_waited = waited_;
}

}  // namespace plait::sim
