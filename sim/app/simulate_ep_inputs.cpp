#include "ep_memory.hpp"

namespace plait::sim {

EpBatch::EpBatch(World& world, uint32_t n)
    : routing(micro_batch(*world.plan.routing, n, world.scenario.ep.micro_batches)),
      shape(shape_of(world.scenario)),
      expected(world.scenario.ep.mode == regmap::EpMode::normal
                   ? expected_receive(shape, routing)
                   : expected_by_expert(shape, routing, max_tokens_of(world.scenario))),
      activations(world.scenario.seed + n, world.scenario.ep.hidden),
      combine(shape, world.scenario.ep.mode, activations, routing),
      number(n) {}

uint64_t index_of(const ExpectedReceive& expected, uint64_t slot, const RankMask& absent) {
    if (!expected.rows_per_source_and_expert.empty()) return slot;  // every source has its own
    uint64_t index = slot;
    uint64_t begin = 0;
    for (uint32_t rank = 0; rank < expected.rows_per_source.size(); ++rank) {
        if (absent[rank] && begin <= index) index += expected.rows_per_source[rank];
        begin += expected.rows_per_source[rank];
    }
    return index;
}

EpInputs::EpInputs(const World& world, const EpBatch& batch, uint32_t rank)
    : batch_(batch),
      rank_(rank),
      data_bytes_(world.scenario.ep.hidden * (world.scenario.ep.dispatch_format == RowFormat::bf16 ? 2 : 1)),
      scale_bytes_(world.scenario.ep.dispatch_format == RowFormat::bf16
                       ? 0
                       : world.scenario.ep.hidden / Activations::block * 4),
      output_bytes_(world.scenario.ep.hidden * 2) {}

ReadHandler EpInputs::x() {
    return {[](void* object, uint64_t offset, std::span<std::byte> out) {
                static_cast<const EpInputs*>(object)->produce_x(offset, out);
            },
            this};
}

ReadHandler EpInputs::scales() {
    return {[](void* object, uint64_t offset, std::span<std::byte> out) {
                static_cast<const EpInputs*>(object)->produce_scales(offset, out);
            },
            this};
}

ReadHandler EpInputs::outputs() {
    return {[](void* object, uint64_t offset, std::span<std::byte> out) {
                static_cast<const EpInputs*>(object)->produce_outputs(offset, out);
            },
            this};
}

void EpInputs::produce_x(uint64_t offset, std::span<std::byte> out) const {
    const auto token = static_cast<uint32_t>(offset / data_bytes_);
    const auto at = static_cast<uint32_t>(offset % data_bytes_);
    if (scale_bytes_ != 0) batch_.activations.fill_codes(rank_, token, elements<uint8_t>(out), at);
    else batch_.activations.fill_activation_row(rank_, token, elements<uint16_t>(out), at / 2);
}

void EpInputs::produce_scales(uint64_t offset, std::span<std::byte> out) const {
    batch_.activations.fill_scales(rank_, static_cast<uint32_t>(offset / scale_bytes_), elements<float>(out),
                                   static_cast<uint32_t>(offset % scale_bytes_ / sizeof(float)));
}

void EpInputs::produce_outputs(uint64_t offset, std::span<std::byte> out) const {
    const uint64_t slot = offset / output_bytes_;
    const RowSource row = row_at(slot);
    batch_.activations.fill_expert_output(row.rank, row.token, serving(slot), elements<uint16_t>(out),
                                          static_cast<uint32_t>(offset % output_bytes_ / 2));
}

RowSource EpInputs::row_at(uint64_t slot) const {
    const ExpectedReceive& expected = batch_.expected[rank_];
    const uint64_t index = absent_.none() ? slot : index_of(expected, slot, absent_);
    return index < expected.rows.size() ? expected.rows[index] : RowSource{};
}

// Low latency: the expert that has the slot.
uint32_t EpInputs::serving(uint64_t slot) const {
    const ExpectedReceive& expected = batch_.expected[rank_];
    if (expected.rows_per_source_and_expert.empty()) return rank_;
    const uint32_t experts = batch_.shape.experts_per_rank();
    return rank_ * experts + static_cast<uint32_t>(slot * experts / expected.rows.size());
}

}  // namespace plait::sim
