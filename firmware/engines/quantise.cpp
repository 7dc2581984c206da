#include <algorithm>
#include <plait/engines/quantise.hpp>
#include <plait/engines/row_loops.hpp>

namespace plait::engines {

namespace {

constexpr size_t block_length(size_t elements, size_t first) {
    return std::min(quantise_block, elements - first);
}

PLAIT_ROW_LOOP uint32_t quantise_row(const uint16_t* row, size_t elements, uint8_t* codes, float* scales) {
    uint32_t non_finite = 0;
    size_t first = 0;
    for (; elements - first >= quantise_block; first += quantise_block)
        non_finite += row_loops::quantise(codes + first, scales++, row + first, quantise_block);
    if (first < elements)
        non_finite += row_loops::quantise(codes + first, scales, row + first, elements - first);
    return non_finite;
}

PLAIT_ROW_LOOP void dequantise_row(const uint8_t* codes, const float* scales, float* out, size_t elements) {
    for (size_t first = 0; first < elements; first += quantise_block)
        row_loops::dequantise(out + first, codes + first, *scales++, block_length(elements, first));
}

PLAIT_ROW_LOOP void dequantise_row_to_bf16(const uint8_t* codes, const float* scales, uint16_t* out,
                                           size_t elements) {
    for (size_t first = 0; first < elements; first += quantise_block)
        row_loops::dequantise_to_bf16(out + first, codes + first, *scales++, block_length(elements, first));
}

}  // namespace

std::optional<uint32_t> quantise_e4m3(std::span<const uint16_t> row, std::span<uint8_t> codes,
                                      std::span<float> scales) {
    if (codes.size() != row.size() || scales.size() != quantise_scales(row.size())) return std::nullopt;
    return quantise_row(row.data(), row.size(), codes.data(), scales.data());
}

bool dequantise_e4m3(std::span<const uint8_t> codes, std::span<const float> scales, std::span<float> out) {
    if (codes.size() != out.size() || scales.size() != quantise_scales(codes.size())) return false;
    dequantise_row(codes.data(), scales.data(), out.data(), out.size());
    return true;
}

bool dequantise_e4m3_to_bf16(std::span<const uint8_t> codes, std::span<const float> scales,
                             std::span<uint16_t> out) {
    if (codes.size() != out.size() || scales.size() != quantise_scales(codes.size())) return false;
    dequantise_row_to_bf16(codes.data(), scales.data(), out.data(), out.size());
    return true;
}

}  // namespace plait::engines
