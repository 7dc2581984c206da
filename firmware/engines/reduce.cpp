#include <plait/engines/reduce.hpp>
#include <plait/engines/row_loops.hpp>

namespace plait::engines {

PLAIT_ROW_LOOP void start_bf16(std::span<float> acc, const uint16_t* row) {
    row_loops::start(acc.data(), row, acc.size());
}

PLAIT_ROW_LOOP void accumulate_bf16(std::span<float> acc, const uint16_t* row) {
    row_loops::accumulate(acc.data(), row, acc.size());
}

PLAIT_ROW_LOOP void start_bf16_weighted(std::span<float> acc, const uint16_t* row, float weight) {
    row_loops::start_weighted(acc.data(), row, weight, acc.size());
}

PLAIT_ROW_LOOP void accumulate_bf16_weighted(std::span<float> acc, const uint16_t* row, float weight) {
    row_loops::accumulate_weighted(acc.data(), row, weight, acc.size());
}

PLAIT_ROW_LOOP void round_bf16(std::span<const float> acc, uint16_t* out) {
    row_loops::round(out, acc.data(), acc.size());
}

}  // namespace plait::engines
