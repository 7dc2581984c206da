#include <plait/sim/models/reduce_engine.hpp>

#include <algorithm>
#include <array>
#include <string>

#include <plait/engines/quantise.hpp>
#include <plait/sim/models/firmware_error.hpp>
#include <plait/sim/models/host_memory.hpp>

namespace plait::sim {

namespace {

engines::EncodedRow encoded_row(regmap::RowFormat format, std::span<const uint8_t> row, size_t elements) {
    const std::span bytes = std::as_bytes(row);
    const size_t codes = engines::code_bytes(format, elements);
    return {format, bytes.first(codes), bytes.subspan(codes)};
}

void add_row(regmap::RowFormat format, std::span<const uint8_t> row, std::span<float> sum, bool is_first) {
    if (format == regmap::RowFormat::bf16) {  // twice as fast as by way of FP32
        // Payload starts on 4-byte boundaries: the slices that firmware makes are whole packets.
        const auto* const values = reinterpret_cast<const uint16_t*>(row.data());
        is_first ? engines::start_bf16(sum, values) : engines::accumulate_bf16(sum, values);
        return;
    }
    const engines::EncodedRow encoded = encoded_row(format, row, sum.size());
    is_first ? engines::decode_row(encoded, sum) : engines::accumulate_row(encoded, sum);
}

void add_row_weighted(regmap::RowFormat format, std::span<const uint8_t> row, float weight,
                      std::span<float> sum, bool is_first) {
    const engines::EncodedRow encoded = encoded_row(format, row, sum.size());
    is_first ? engines::decode_row_weighted(encoded, weight, sum)
             : engines::accumulate_row_weighted(encoded, weight, sum);
}

// What a row is made from that is itself a sum.
void prefetch_addends(const PayloadBlock& block) {
    if (block.addends != nullptr) prefetch(block.addends, 2 * sizeof(PayloadBlock));
}

// What the row is made from, which its block names.
void prefetch_rows(const PayloadBlock& block) {
    if (block.memory != nullptr) block.memory->expect(block.addresses[0]);
    if (block.addends == nullptr) return;
    for (const PayloadSlice& slice : std::span(block.addends->rows).first(block.addends->row_count)) {
        prefetch(slice.block, sizeof(PayloadBlock));
    }
}

}  // namespace

ReduceEngine::ReduceEngine(sc_core::sc_module_name module_name, EventQueue& queue, PayloadPool& pool,
                           PacketMemory& memory, const EngineParameters& parameters,
                           const firmware::DeviceConfig& config, NonFiniteCounters& counters,
                           EngineEvents& events, EngineBlocks* blocks)
    : sc_module(module_name),
      queue_(queue),
      pool_(pool),
      memory_(memory),
      counters_(counters),
      events_(events),
      port_(blocks),
      cycle_ps_(CycleClock(parameters.clock_ghz, parameters.bytes_per_cycle).cycle_ps()),
      bytes_per_cycle_(parameters.bytes_per_cycle),
      quarter_elements_(config.quarter_elements()),
      max_elements_(config.sum_elements()),
      units_(parameters.reduce_units),
      accumulators_(config.accumulators),
      free_quarters_(4 * config.accumulators) {}

// Null: no such sum is being made. It may be over.
ReduceEngine::Accumulator* ReduceEngine::open_sum(uint32_t sum) {
    const uint32_t number = firmware::SumName::accumulator(sum);
    if (number >= accumulators_.size()) return nullptr;
    Accumulator& accumulator = accumulators_[number];
    return accumulator.open && accumulator.sum == sum ? &accumulator : nullptr;
}

void ReduceEngine::open(uint32_t sum, const firmware::Reduction& reduction, uint64_t time_ps) {
    const uint32_t number = firmware::SumName::accumulator(sum);
    const uint32_t elements = reduction.elements;
    const uint32_t quarters = (elements + quarter_elements_ - 1) / quarter_elements_;
    if (number >= accumulators_.size() || accumulators_[number].open || elements > max_elements_ ||
        row_bytes(reduction.from, elements) == 0 || row_bytes(reduction.to, elements) == 0 ||
        row_bytes(reduction.to, elements) > PayloadBlock::sum_capacity || quarters > free_quarters_ ||
        !counters_.has(reduction.counter) ||
        !accumulators_[number].slot.reset(std::max<uint32_t>(reduction.contributions, 1))) {
        throw FirmwareError("accumulator " + std::to_string(number) + " cannot take " +
                            std::to_string(reduction.contributions) + " contributions of " +
                            std::to_string(elements) + " elements");
    }
    Accumulator& accumulator = accumulators_[number];
    accumulator.reduction = reduction;
    accumulator.is_weighted = false;
    accumulator.row_count = 0;
    accumulator.bf16_positions = accumulator.bf16_rows = 0;
    accumulator.quarters = quarters;
    accumulator.sent_ps = 0;
    accumulator.open = true;
    accumulator.is_virtual = false;
    accumulator.result = 0;
    accumulator.sum = sum;
    ++accumulator.generation;
    accumulator.free_ps = time_ps;
    free_quarters_ -= quarters;
    high_water_ = std::max(high_water_, ++in_use_);
    port_.open(number, reduction);
    if (reduction.contributions == 0) {
        finish(accumulator, time_ps);
    }
}

void ReduceEngine::weigh(uint32_t sum, std::span<const float> weights) {
    Accumulator* const accumulator = open_sum(sum);
    if (accumulator == nullptr || accumulator->slot.turn() != 0 ||
        weights.size() != accumulator->slot.contributions()) {
        throw FirmwareError("sum " + std::to_string(sum) + " cannot take " + std::to_string(weights.size()) +
                            " weights");
    }
    accumulator->is_weighted = true;
    std::ranges::copy(weights, accumulator->weights.begin());
    port_.weigh(firmware::SumName::accumulator(sum), weights);
}

void ReduceEngine::add(uint32_t sum, uint32_t position, BufferId buffer, uint64_t time_ps) {
    Accumulator* const accumulator = open_sum(sum);
    add_in(accumulator == nullptr ? regmap::RowFormat::bf16 : accumulator->reduction.from, accumulator,
           position, buffer, time_ps);
}

void ReduceEngine::add_bf16(uint32_t sum, uint32_t position, BufferId buffer, uint64_t time_ps) {
    add_in(regmap::RowFormat::bf16, open_sum(sum), position, buffer, time_ps);
}

void ReduceEngine::add_in(regmap::RowFormat format, Accumulator* accumulator, uint32_t position,
                          BufferId buffer, uint64_t time_ps) {
    const bool fits = accumulator != nullptr && buffer != 0 &&
                      memory_.slice(buffer).length == row_bytes(format, accumulator->reduction.elements);
    if (fits) {
        offer(*accumulator, position, buffer, format, time_ps);
    } else {
        refuse(buffer, time_ps);
    }
}

void ReduceEngine::skip(uint32_t sum, uint32_t position, uint64_t time_ps) {
    if (Accumulator* const accumulator = open_sum(sum)) {
        offer(*accumulator, position, skipped, accumulator->reduction.from, time_ps);
    } else {
        ++refused_;
    }
}

void ReduceEngine::offer(Accumulator& accumulator, uint32_t position, BufferId handle,
                         regmap::RowFormat format, uint64_t time_ps) {
    const engines::Offer answer = accumulator.slot.offer(position, handle);
    const bool is_taken = answer.status == engines::OfferStatus::taken;
    const bool complete = is_taken && accumulator.slot.complete();
    if (is_taken && format == regmap::RowFormat::bf16) accumulator.bf16_positions |= 1U << position;
    if (port_.has_block()) tell(accumulator, position, handle, format, answer, complete);
    if (!is_taken) {
        refuse(handle, time_ps);
        return;
    }
    size_t added = 0;
    for (size_t i = 0; i < answer.ready.size(); ++i) {
        if (answer.ready[i] == skipped) continue;
        const uint32_t at = answer.first_position + static_cast<uint32_t>(i);
        const uint32_t cycles =
            port_.has_block()
                ? port_.cycles().rows[added++]
                : row_cycles(accumulator.format_of(at), accumulator.reduction.elements, bytes_per_cycle_);
        add_now(accumulator, at, answer.ready[i], complete && i + 1 == answer.ready.size(), cycles, time_ps);
    }
    if (complete) {
        finish(accumulator, time_ps);
    }
}

void ReduceEngine::tell(const Accumulator& accumulator, uint32_t position, BufferId handle,
                        regmap::RowFormat format, const engines::Offer& offer, bool completes) {
    const uint32_t elements = accumulator.reduction.elements;
    std::vector<ReducePort::Row> ready;
    for (size_t i = 0; i < offer.ready.size(); ++i) {
        const uint32_t at = offer.first_position + static_cast<uint32_t>(i);
        if (offer.ready[i] != skipped)
            ready.push_back(row_of(offer.ready[i], accumulator.format_of(at), elements));
    }
    const ReducePort::Row row = handle != skipped ? row_of(handle, format, elements) : ReducePort::Row{};
    port_.offer(firmware::SumName::accumulator(accumulator.sum), position, handle != skipped ? &row : nullptr,
                offer.status, ready, completes);
}

ReducePort::Row ReduceEngine::row_of(BufferId handle, regmap::RowFormat format, uint32_t elements) {
    const PayloadSlice& slice = memory_.slice(handle);
    return {handle, encoded_row(format, {pool_.bytes(slice), slice.length}, elements)};
}

void ReduceEngine::add_now(Accumulator& accumulator, uint32_t position, BufferId buffer, bool is_last,
                           uint32_t cycles, uint64_t time_ps) {
    const PayloadSlice& slice = memory_.slice(buffer);
    accumulator.free_ps =
        units_.take(queue_.now_ps(), std::max(time_ps, accumulator.free_ps), cycles * cycle_ps_).end_ps;
    accumulator.is_virtual |= slice.is_virtual();
    accumulator.sent_ps = std::max(accumulator.sent_ps, slice.block->sent_ps);
    pool_.retain(slice.block);
    accumulator.bf16_rows |= (accumulator.bf16_positions >> position & 1) << accumulator.row_count;
    if (accumulator.is_weighted)
        accumulator.row_weights[accumulator.row_count] = accumulator.weights[position];
    accumulator.rows[accumulator.row_count++] = slice;
    if (is_last) {
        accumulator.result = buffer;  // its room becomes the result's
    } else {
        memory_.release(buffer, accumulator.free_ps);
    }
}

// Makes a sum when somebody looks at it. Each row is given back at once, so that its bytes lend their place
// in the cache to the next one's.
void ReduceEngine::make_sum(PayloadPool& pool, PayloadBlock& block) {
    Addends& addends = *block.addends;
    const firmware::Reduction& reduction = addends.reduction;
    const std::span rows = std::span(addends.rows).first(std::exchange(addends.row_count, 0));
    std::array<float, PayloadBlock::capacity> elements;
    const std::span<float> sum = std::span(elements).first(reduction.elements);
    if (rows.empty()) {
        std::ranges::fill(sum, 0.0F);
    }
    for (const PayloadSlice& slice : rows) {
        prefetch(slice.block, sizeof(PayloadBlock));  // not looked at since the row was sent
    }
    for (const PayloadSlice& slice : rows.first(std::min<size_t>(rows.size(), 2))) {
        prefetch_addends(*slice.block);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
        if (i + 2 < rows.size()) prefetch_addends(*rows[i + 2].block);
        if (i + 1 < rows.size()) prefetch_rows(*rows[i + 1].block);
        const std::span row(pool.bytes(rows[i]), rows[i].length);
        const regmap::RowFormat format =
            (addends.bf16_rows >> i & 1) != 0 ? regmap::RowFormat::bf16 : reduction.from;
        if (addends.is_weighted) {
            add_row_weighted(format, row, addends.weights[i], sum, i == 0);
        } else {
            add_row(format, row, sum, i == 0);
        }
        pool.release(rows[i].block);
    }
    const std::span bytes = std::as_writable_bytes(std::span(block.bytes, block.length));
    const size_t codes = engines::code_bytes(reduction.to, reduction.elements);
    const auto non_finite = engines::encode_row(reduction.to, std::span<const float>(sum), bytes.first(codes),
                                                bytes.subspan(codes));
    addends.counters->add(reduction.counter, non_finite.value_or(0));
    pool.forget_addends(block);
}

PayloadBlock* ReduceEngine::take_result(Accumulator& accumulator) {
    const firmware::Reduction& reduction = accumulator.reduction;
    const uint32_t length = row_bytes(reduction.to, reduction.elements);
    const uint32_t rows = std::exchange(accumulator.row_count, 0);
    PayloadBlock* const block =
        accumulator.is_virtual ? pool_.take_virtual(length) : pool_.take_unmade(length, &make_sum);
    block->sent_ps = accumulator.sent_ps;
    block->addends = pool_.take_addends();
    block->addends->reduction = reduction;
    block->addends->row_count = rows;
    block->addends->bf16_rows = accumulator.bf16_rows;
    std::copy_n(accumulator.rows.begin(), rows, block->addends->rows.begin());
    if (accumulator.is_weighted) {
        block->addends->is_weighted = true;
        std::copy_n(accumulator.row_weights.begin(), rows, block->addends->weights.begin());
    }
    if (!accumulator.is_virtual) {
        counters_.expect(*block);
    }
    return block;
}

void ReduceEngine::finish(Accumulator& accumulator, uint64_t time_ps) {
    ++reductions_;
    const firmware::Reduction& reduction = accumulator.reduction;
    PayloadBlock* const block = take_result(accumulator);
    const PayloadSlice slice{block, 0, block->length};
    if (accumulator.result != 0) {
        memory_.replace(accumulator.result, slice);
    } else {
        accumulator.result = memory_.allocate(slice, PacketMemory::Use::forced);
    }
    if (port_.has_block()) {
        const uint32_t before = counters_.count(reduction.counter);
        const std::span bytes(pool_.bytes(slice), slice.length);
        port_.gave(firmware::SumName::accumulator(accumulator.sum), reduction, bytes,
                   counters_.count(reduction.counter) - before);
    }
    pool_.release(block);
    const uint32_t busy_cycles = port_.has_block()
                                     ? port_.cycles().result_busy
                                     : row_cycles(reduction.to, reduction.elements, bytes_per_cycle_);
    const uint32_t cycles = port_.has_block()
                                ? port_.cycles().result
                                : busy_cycles + reduce_latency_cycles(reduction.to, reduction.elements);
    const Slot slot =
        units_.take(queue_.now_ps(), std::max(time_ps, accumulator.free_ps), busy_cycles * cycle_ps_);
    const uint64_t at_ps = std::max({time_ps, slot.start_ps + cycles * cycle_ps_, queue_.now_ps()});
    queue_.schedule(at_ps, 0, {&ReduceEngine::finished, &ReduceEngine::expect_finished}, this,
                    uint64_t{accumulator.generation} << 32 | accumulator.sum);
}

void ReduceEngine::finished(void* object, uint64_t argument) {
    auto& self = *static_cast<ReduceEngine*>(object);
    const auto sum = static_cast<uint32_t>(argument);
    Accumulator& accumulator = self.accumulators_[firmware::SumName::accumulator(sum)];
    if (!accumulator.open || accumulator.generation != argument >> 32) {
        return;  // closed meanwhile
    }
    self.leave(accumulator);
    const BufferId result = accumulator.result;
    accumulator.result = 0;
    self.events_.reduced(sum, result);
}

void ReduceEngine::expect_finished(void* object, uint64_t argument) {
    const auto& self = *static_cast<const ReduceEngine*>(object);
    const auto sum = static_cast<uint32_t>(argument);
    self.memory_.expect(self.accumulators_[firmware::SumName::accumulator(sum)].result);
    self.events_.reduction_expected(sum);
}

void ReduceEngine::leave(Accumulator& accumulator) {
    accumulator.open = false;
    free_quarters_ += accumulator.quarters;
    --in_use_;
}

void ReduceEngine::close(uint32_t sum, uint64_t time_ps) {
    if (Accumulator* const accumulator = open_sum(sum)) give_up(*accumulator, time_ps);
}

void ReduceEngine::give_up(Accumulator& accumulator, uint64_t time_ps) {
    leave(accumulator);
    if (port_.has_block() && accumulator.result == 0) {
        std::vector<uint32_t> waiting;
        accumulator.slot.for_each_waiting([&](uint32_t buffer) {
            if (buffer != skipped) waiting.push_back(buffer);
        });
        port_.close(firmware::SumName::accumulator(accumulator.sum), waiting);
    }
    for (const PayloadSlice& slice : std::span(accumulator.rows).first(accumulator.row_count)) {
        pool_.release(slice.block);
    }
    accumulator.row_count = 0;
    accumulator.slot.for_each_waiting([&](uint32_t buffer) { memory_.release(buffer, time_ps); });
    memory_.release(accumulator.result, time_ps);
    accumulator.result = 0;
}

void ReduceEngine::close_all(uint64_t time_ps) {
    for (Accumulator& accumulator : accumulators_) {
        if (accumulator.open) give_up(accumulator, time_ps);
    }
}

void ReduceEngine::refuse(BufferId buffer, uint64_t time_ps) {
    ++refused_;
    memory_.release(buffer, time_ps);
}

void ReduceEngine::report(DeviceStatistics& statistics) const {
    statistics.accumulator_high_water = high_water_;
    statistics.reductions = reductions_;
    statistics.reduce_busy_ps = units_.busy_ps();
    statistics.reduce_refused = refused_;
}

}  // namespace plait::sim
