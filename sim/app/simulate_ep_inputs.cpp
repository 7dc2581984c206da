#include "ep_memory.hpp"

namespace plait::sim {

EpBatch::EpBatch(World& world, uint32_t n)
    : routing(micro_batch(*world.plan.routing, n, world.scenario.ep.micro_batches)),
      shape(shape_of(world.scenario)),
      expected(world.scenario.ep.mode == regmap::EpMode::normal
                   ? expected_receive(shape, routing)
                   : expected_by_expert(shape, routing, max_tokens_of(world.scenario))),
      activations(world.scenario.seed + n, world.scenario.ep.hidden),
      bf16(activations, RowFormat::bf16),
      dispatched(activations, world.scenario.ep.dispatch_format),
      contributions(activations, world.scenario.ep.combine_format),
      x(world.scenario.ep.encode_dispatch ? bf16 : dispatched),
      outputs(world.scenario.ep.encode_combine ? bf16 : contributions),
      combine(shape, world.scenario.ep.mode, activations, contributions, world.scenario.ep.partial_format,
              routing, world.scenario.ep.biases),
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

template <EpInputs::Rows which, EpInputs::Part part>
ReadHandler EpInputs::reader() {
    return {[](void* object, uint64_t offset, std::span<std::byte> out) {
                const auto& self = *static_cast<const EpInputs*>(object);
                const EncodedRows& rows = which == Rows::x ? self.batch_.x : self.batch_.outputs;
                const uint32_t row_bytes = part == Part::codes ? rows.code_bytes() : rows.scale_bytes();
                const uint64_t number = offset / row_bytes;
                const auto from = static_cast<uint32_t>(offset % row_bytes);
                const RowName name = which == Rows::x ? self.x_name(number) : self.output_name(number);
                part == Part::codes ? rows.fill_codes(name, out, from) : rows.fill_scales(name, out, from);
            },
            this,
            [](void* object, uint64_t offset) {
                const auto& self = *static_cast<const EpInputs*>(object);
                if (which == Rows::outputs && part == Part::codes)
                    self.expect_row(offset / self.batch_.outputs.code_bytes());
            }};
}

ReadHandler EpInputs::x() { return reader<Rows::x, Part::codes>(); }
ReadHandler EpInputs::x_scales() { return reader<Rows::x, Part::scales>(); }
ReadHandler EpInputs::outputs() { return reader<Rows::outputs, Part::codes>(); }
ReadHandler EpInputs::output_scales() { return reader<Rows::outputs, Part::scales>(); }

template <uint32_t number>
ReadHandler EpInputs::bias_rows() {
    return {[](void* object, uint64_t offset, std::span<std::byte> out) {
                const auto& self = *static_cast<const EpInputs*>(object);
                const EncodedRows& rows = self.batch_.bf16;
                const auto token = static_cast<uint32_t>(offset / rows.code_bytes());
                rows.fill_codes(self.batch_.activations.bias(self.rank_, token, number), out,
                                static_cast<uint32_t>(offset % rows.code_bytes()));
            },
            this};
}

ReadHandler EpInputs::bias(uint32_t number) { return number == 0 ? bias_rows<0>() : bias_rows<1>(); }

RowName EpInputs::x_name(uint64_t token) const {
    return batch_.activations.activation(rank_, static_cast<uint32_t>(token));
}

RowName EpInputs::output_name(uint64_t slot) const {
    const RowSource row = row_at(slot);
    return batch_.activations.expert_output(row.rank, row.token, serving(slot));
}

RowSource EpInputs::row_at(uint64_t slot) const {
    const ExpectedReceive& expected = batch_.expected[rank_];
    const uint64_t index = absent_.none() ? slot : index_of(expected, slot, absent_);
    return index < expected.rows.size() ? expected.rows[index] : RowSource{};
}

void EpInputs::expect_row(uint64_t slot) const {
    __builtin_prefetch(batch_.expected[rank_].rows.data() + slot);
}

// Low latency: the expert that has the slot.
uint32_t EpInputs::serving(uint64_t slot) const {
    const ExpectedReceive& expected = batch_.expected[rank_];
    if (expected.rows_per_source_and_expert.empty()) return rank_;
    const uint32_t experts = batch_.shape.experts_per_rank();
    return rank_ * experts + static_cast<uint32_t>(slot * experts / expected.rows.size());
}

}  // namespace plait::sim
