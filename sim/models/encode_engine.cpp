#include <plait/sim/models/encode_engine.hpp>

#include <string>

#include <plait/engines/quantise.hpp>
#include <plait/sim/models/firmware_error.hpp>

namespace plait::sim {

NonFiniteCounters::Counter& NonFiniteCounters::at(uint32_t counter) {
    if (!has(counter)) {
        throw FirmwareError("counter " + std::to_string(counter) +
                            " of infinities and NaN, which there is not");
    }
    return counters_[counter];
}

uint32_t NonFiniteCounters::take(uint32_t counter) {
    Counter& taken = at(counter);
    while (PayloadBlock* const sum = taken.unmade.any()) {
        pool_.bytes({sum, 0, sum->length});
    }
    return std::exchange(taken.count, 0);
}

EncodeEngine::EncodeEngine(sc_core::sc_module_name module_name, EventQueue& queue, HostInterface& host,
                           const EngineParameters& parameters, NonFiniteCounters& counters,
                           EngineBlocks* blocks)
    : sc_module(module_name),
      queue_(queue),
      host_(host),
      counters_(counters),
      blocks_(blocks),
      clock_(parameters.clock_ghz, parameters.bytes_per_cycle),
      units_(parameters.encode_units) {}

uint64_t EncodeEngine::fill(PayloadBlock& block, firmware::Segment row, const firmware::RowEncoding& encoding,
                            uint64_t issued_ps) {
    constexpr uint32_t element_bytes = sizeof(uint16_t);
    const size_t elements = row.length / element_bytes;
    const size_t row_bytes =
        engines::code_bytes(encoding.format, elements) + engines::scale_bytes(encoding.format, elements);
    if (elements > elements_.size() || size_t{encoding.offset} + block.length > row_bytes) {
        throw FirmwareError(std::to_string(block.length) + " bytes from " + std::to_string(encoding.offset) +
                            " on of an encoded row of " + std::to_string(elements) + " elements");
    }
    const engines::ElementRange range =
        engines::elements_behind(encoding.format, elements, encoding.offset, block.length);
    const uint64_t address = row.address + range.first * element_bytes;
    const uint64_t length_bytes = (range.last - range.first) * element_bytes;
    BlockCycles cycles{quantise_latency_cycles(encoding.format, range.last - range.first),
                       static_cast<uint32_t>(clock_.time_ps(length_bytes) / clock_.cycle_ps())};
    if (block.bytes == nullptr) {
        host_.memory().touch_read(address, length_bytes);
    } else {
        const std::span<uint16_t> wanted = std::span(elements_).first(range.last - range.first);
        host_.memory().read(address, std::as_writable_bytes(wanted));
        const auto non_finite =
            engines::encode_bytes(encoding.format, elements, encoding.offset, wanted,
                                  std::as_writable_bytes(std::span(block.bytes, block.length)));
        counters_.add(encoding.counter, non_finite.value_or(0));
        const QuantiseRow taken{encoding.format, wanted};
        if (blocks_ != nullptr) cycles = blocks_->quantise(taken, answer_of(taken));
    }
    const uint64_t read_ps = host_.read(issued_ps, length_bytes);
    return units_.take(queue_.now_ps(), read_ps, cycles.interval * clock_.cycle_ps()).end_ps +
           cycles.latency * clock_.cycle_ps();
}

}  // namespace plait::sim
