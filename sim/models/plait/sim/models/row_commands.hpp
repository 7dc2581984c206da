// Commands and answers of the engines that compute with rows, quantise and reduce, and the cycles that they
// take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

#include <plait/engines/quantise.hpp>
#include <plait/regmap.hpp>
#include <plait/sim/models/engine_commands.hpp>

namespace plait::sim {

inline void print_bytes(std::ostream& out, const char* name, std::span<const uint8_t> bytes) {
    out << ' ' << name << std::hex;
    for (const uint8_t byte : bytes) out << ' ' << int{byte};
    out << std::dec;
}

/// Codes and scales.
constexpr uint32_t row_bytes(regmap::RowFormat format, size_t elements) {
    return static_cast<uint32_t>(engines::code_bytes(format, elements) +
                                 engines::scale_bytes(format, elements));
}

/// A row of BF16 to be encoded.
struct QuantiseRow {
    regmap::RowFormat format = regmap::RowFormat::bf16;
    std::span<const uint16_t> elements{};

    friend std::ostream& operator<<(std::ostream& out, const QuantiseRow& row) {
        return out << "format " << static_cast<int>(row.format) << ", " << row.elements.size() << " elements";
    }
};

struct QuantiseAnswer {
    regmap::Status status = regmap::Status::ok;
    uint32_t non_finite = 0;
    std::vector<uint8_t> codes{};
    std::vector<uint8_t> scales{};

    bool operator==(const QuantiseAnswer&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const QuantiseAnswer& answer) {
        out << "status " << static_cast<int>(answer.status) << " non-finite " << answer.non_finite;
        print_bytes(out, "codes", answer.codes);
        print_bytes(out, "scales", answer.scales);
        return out;
    }
};

inline QuantiseAnswer answer_of(const QuantiseRow& row) {
    const size_t elements = row.elements.size();
    if (engines::code_bits(row.format) == 0) return {regmap::Status::invalid_parameter};
    if (elements == 0 || elements > regmap::max_hidden) return {regmap::Status::invalid_length};
    QuantiseAnswer answer;
    answer.codes.resize(engines::code_bytes(row.format, elements));
    answer.scales.resize(engines::scale_bytes(row.format, elements));
    answer.non_finite =
        engines::encode_row(row.format, row.elements, std::as_writable_bytes(std::span(answer.codes)),
                            std::as_writable_bytes(std::span(answer.scales)))
            .value();
    return answer;
}

struct ReduceCommand {
    regmap::ReduceOpcode opcode = regmap::ReduceOpcode::open;
    uint32_t sum = 0;
    uint32_t position = 0;  ///< open: how many rows
    regmap::RowFormat format = regmap::RowFormat::bf16;
    uint32_t length = 0;       ///< open: elements; add: bytes
    uint32_t value = 0;        ///< weigh: the factor's bits; add: the handle
    size_t after_results = 0;  ///< Among several commands: it is given when as many results are out.

    friend std::ostream& operator<<(std::ostream& out, const ReduceCommand& command) {
        return out << "opcode " << static_cast<int>(command.opcode) << " sum " << command.sum << " position "
                   << command.position << " format " << static_cast<int>(command.format) << " length "
                   << command.length << std::hex << " value " << command.value << std::dec;
    }
};

struct ReduceAnswer {
    regmap::Status status = regmap::Status::ok;
    std::vector<uint32_t> handles{};  ///< Of rows: those that waited when their sum was closed,
    std::vector<uint32_t> fetched{};  ///< and where a command had the block for itself, those it had added.

    bool operator==(const ReduceAnswer&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const ReduceAnswer& answer) {
        out << "status " << static_cast<int>(answer.status) << " handles";
        for (const uint32_t handle : answer.handles) out << ' ' << handle;
        out << " fetched";
        for (const uint32_t handle : answer.fetched) out << ' ' << handle;
        return out;
    }
};

struct ReduceResult {
    uint32_t sum = 0;
    uint32_t non_finite = 0;
    std::vector<uint8_t> codes{};
    std::vector<uint8_t> scales{};

    bool operator==(const ReduceResult&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const ReduceResult& result) {
        out << "sum " << result.sum << " non-finite " << result.non_finite;
        print_bytes(out, "codes", result.codes);
        print_bytes(out, "scales", result.scales);
        return out;
    }
};

/// What a reduce command took.
struct ReduceCycles {
    std::vector<uint32_t> rows{};  ///< Each that it had added.
    uint32_t result = 0;           ///< From the last one's last word to the last word of the result,
    uint32_t result_busy = 0;      ///< and from its first word on, in which no row is added.
};

// What the blocks take; tests/verilated holds these to them. A lane each for 32 elements that are encoded, of
// a row or of a sum; the first of a block of elements waits for the last.

/// Words of 64 bytes of a row, its scales and its codes, or of a result.
constexpr uint32_t row_cycles(regmap::RowFormat format, size_t elements, uint32_t word_bytes = 64) {
    const auto words = [&](size_t bytes) { return (bytes + word_bytes - 1) / word_bytes; };
    return static_cast<uint32_t>(words(engines::code_bytes(format, elements)) +
                                 words(engines::scale_bytes(format, elements)));
}

inline constexpr uint32_t encoded_elements = 32;  ///< A cycle.

constexpr uint32_t encode_cycles(size_t elements) {
    return static_cast<uint32_t>((elements + encoded_elements - 1) / encoded_elements);
}

/// Of the first block that leaves: until its last elements are there, and its scale.
constexpr uint32_t first_block_cycles(regmap::RowFormat format, size_t elements) {
    return encode_cycles(std::min<size_t>(elements, engines::quantise_block)) +
           (engines::block_scale_bytes(format) != 0 ? 1 : 0);
}

/// From the last elements of a row to the last word of its codes. Of BF16, so that FP32 is no case.
constexpr uint32_t quantise_latency_cycles(regmap::RowFormat format, size_t elements) {
    return 45 + first_block_cycles(format, elements);
}

/// From the last word of a sum's rows to the first word of its result.
constexpr uint32_t reduce_latency_cycles(regmap::RowFormat format, size_t elements) {
    return 79 + first_block_cycles(format, elements);
}

}  // namespace plait::sim
