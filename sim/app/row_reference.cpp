#include <plait/sim/app/row_reference.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <plait/engines/instruction_sets.hpp>

namespace plait::sim {
namespace {

using regmap::RowFormat;

// FP8: so many bits of fraction, exponents from `lowest` on, `largest` the largest value. Codes of the
// smallest exponent have no hidden one.
struct Fp8 {
    int fraction_bits;
    int lowest;
    float largest;
};
constexpr Fp8 e4m3{3, -6, 448.0F};
constexpr Fp8 e5m2{2, -14, 57344.0F};

constexpr Fp8 fp8_of(RowFormat format) {
    return format == RowFormat::e4m3_f32 || format == RowFormat::e4m3_ue8m0 ? e4m3 : e5m2;
}

struct Fp8Scale {
    float factor;  // of an element before it is rounded,
    float scale;   // and of what it was rounded to
};

Fp8Scale fp8_scale(RowFormat format, std::span<const float> block) {
    const float largest = fp8_of(format).largest;
    int32_t largest_bits = std::bit_cast<int32_t>(1e-4F);  // magnitudes have the order of their bits
    for (const float value : block)
        largest_bits = std::max(largest_bits, std::bit_cast<int32_t>(value) & 0x7fff'ffff);
    const auto amax = std::bit_cast<float>(largest_bits);
    if (format == RowFormat::e4m3_f32 || format == RowFormat::e5m2_f32)
        return {largest / amax, amax * (1.0F / largest)};
    int exponent = -127;
    while (std::ldexp(largest, exponent) < amax) ++exponent;
    return {std::ldexp(1.0F, -exponent), std::ldexp(1.0F, exponent)};
}

// The nearest value, ties to even: at the unit of its exponent, which a large enough number has for its last
// bit.
PLAIT_ALWAYS_INLINE float round_to_fp8(float value, const Fp8& fp8) {
    const float magnitude = std::min(std::fabs(value), fp8.largest);
    const uint32_t exponent_bits = std::bit_cast<uint32_t>(magnitude) & 0x7f80'0000U;
    const uint32_t lowest_bits = static_cast<uint32_t>(127 + fp8.lowest) << 23;
    const float power = std::bit_cast<float>(std::max(exponent_bits, lowest_bits));
    const float large =
        power * std::bit_cast<float>(static_cast<uint32_t>(127 + 23 - fp8.fraction_bits) << 23);
    return std::copysign((magnitude + large) - large, value);
}

uint32_t fp8_code(float rounded, const Fp8& fp8) {
    int exponent = 0;
    const float magnitude = std::fabs(rounded);
    (void)std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [1/2, 1)
    exponent = std::max(exponent - 1, fp8.lowest);
    const auto steps = static_cast<uint32_t>(std::ldexp(magnitude, fp8.fraction_bits - exponent));
    const uint32_t hidden = 1U << fp8.fraction_bits;
    const auto biased = static_cast<uint32_t>(exponent - fp8.lowest);
    return (std::signbit(rounded) ? 0x80U : 0U) |
           (steps < hidden ? steps : (biased << fp8.fraction_bits) + steps);
}

PLAIT_ROW_LOOP void send_fp8(float* block, size_t count, const Fp8 fp8, const Fp8Scale scale) {
    for (size_t i = 0; i < count; ++i) block[i] = round_to_fp8(block[i] * scale.factor, fp8) * scale.scale;
}

// LogFMT: the magnitudes that a tile's codes stand for (docs/decisions/0008-logfmt.md).
class LogFmtTile {
  public:
    LogFmtTile(RowFormat format, std::span<const float> block)
        : largest_code_(format == RowFormat::logfmt8 ? 127 : 511) {
        uint16_t smallest = 0x7f80;
        for (const float value : block) {
            const auto magnitude = static_cast<uint16_t>(round_to_bf16(value) & 0x7fff);
            if (magnitude != 0) smallest = std::min(smallest, magnitude);
            max_ = std::max(max_, magnitude);
        }
        if (max_ == 0) return;
        uint16_t lowest = round_to_bf16(bf16_to_float(max_) * 0x1p-32F);
        if (bf16_to_float(lowest) < bf16_to_float(max_) * 0x1p-32F) ++lowest;  // rounded up
        min_ = std::max(smallest, lowest);
        log_min_ = log2(min_);
        const int64_t range = log2(max_) - log_min_;
        step_ = static_cast<float>(range) * 0x1p-25F / static_cast<float>(largest_code_ - 1);
        codes_per_log_ = range == 0 ? 0 : static_cast<float>(largest_code_ - 1) / static_cast<float>(range);
    }

    float magnitude(uint32_t code) const {
        if (code == 0) return 0;
        if (code == largest_code_) return bf16_to_float(max_);
        const float octaves = static_cast<float>(code - 1) * step_;
        const float whole = std::floor(octaves);
        float power = 0x1.eca6fp-10F;  // 2^f, f in [0, 1)
        for (const float coefficient : {0x1.269dfp-7F, 0x1.c9444p-5F, 0x1.ebd8ap-3F, 0x1.62e4c8p-1F, 1.0F})
            power = power * (octaves - whole) + coefficient;
        return bf16_to_float(min_) * std::ldexp(1.0F, static_cast<int>(whole)) * power;
    }

    /// The nearest code, of two equally near ones the smaller: from where the logarithm says, step by step.
    uint32_t nearest(uint16_t bf16) const {
        const auto bits = static_cast<uint16_t>(bf16 & 0x7fff);
        if (bits == 0 || max_ == 0) return 0;
        const float value = bf16_to_float(bits);
        const float above_min = static_cast<float>(log2(bits) - log_min_) * codes_per_log_;
        uint32_t code = above_min <= 0 ? 1 : std::min(largest_code_, 1 + static_cast<uint32_t>(above_min));
        while (code < largest_code_ && distance(code + 1, value) < distance(code, value)) ++code;
        while (code > 0 && distance(code - 1, value) <= distance(code, value)) --code;
        return code;
    }

    std::array<uint8_t, 4> header() const {
        return {static_cast<uint8_t>(min_), static_cast<uint8_t>(min_ >> 8), static_cast<uint8_t>(max_),
                static_cast<uint8_t>(max_ >> 8)};
    }
    uint32_t sign() const { return largest_code_ + 1; }

  private:
    // In units of 2^-25, rounded down; of BF16 that is not zero.
    static int64_t log2(uint16_t bits) {
        static const std::array<int64_t, 128> table = [] {
            std::array<int64_t, 128> logs{};
            for (int i = 0; i < 128; ++i)
                logs[static_cast<size_t>(i)] = static_cast<int64_t>(std::log2(1 + i / 128.0L) * 0x1p25L);
            return logs;
        }();
        int exponent = 0;
        const float fraction = std::frexp(bf16_to_float(bits), &exponent);  // in [1/2, 1)
        return (int64_t{exponent} << 25) + table[static_cast<size_t>(fraction * 256) - 128];
    }

    double distance(uint32_t code, float value) const {
        return std::fabs(static_cast<double>(magnitude(code)) - static_cast<double>(value));
    }

    uint32_t largest_code_;
    uint16_t min_ = 0;
    uint16_t max_ = 0;
    int64_t log_min_ = 0;
    float step_ = 0;
    float codes_per_log_ = 0;
};

bool is_logfmt(RowFormat format) { return format == RowFormat::logfmt8 || format == RowFormat::logfmt10; }

}  // namespace

EncodedBlock encode_block(RowFormat format, std::span<const float> block) {
    EncodedBlock result;
    if (format == RowFormat::bf16 || format == RowFormat::f32) {
        for (size_t i = 0; i < block.size(); ++i)
            result.codes[i] =
                format == RowFormat::bf16 ? round_to_bf16(block[i]) : std::bit_cast<uint32_t>(block[i]);
    } else if (is_logfmt(format)) {
        const LogFmtTile tile(format, block);
        for (size_t i = 0; i < block.size(); ++i) {
            const uint32_t code = tile.nearest(round_to_bf16(block[i]));
            result.codes[i] = code != 0 && std::signbit(block[i]) ? code | tile.sign() : code;
        }
        result.scale = tile.header();
    } else {
        const Fp8 fp8 = fp8_of(format);
        const Fp8Scale scale = fp8_scale(format, block);
        for (size_t i = 0; i < block.size(); ++i)
            result.codes[i] = fp8_code(round_to_fp8(block[i] * scale.factor, fp8), fp8);
        const auto bits = std::bit_cast<uint32_t>(scale.scale);
        if (regmap::block_scale_bytes(format) == 1) result.scale[0] = static_cast<uint8_t>(bits >> 23);
        else std::memcpy(result.scale.data(), &bits, sizeof bits);
    }
    return result;
}

void send_block(RowFormat format, std::span<float> block) {
    if (format == RowFormat::f32) return;
    if (format == RowFormat::bf16) {
        for (float& value : block) value = bf16_to_float(round_to_bf16(value));
    } else if (is_logfmt(format)) {
        const LogFmtTile tile(format, block);
        for (float& value : block) {
            const uint32_t code = tile.nearest(round_to_bf16(value));
            value = code == 0 ? 0.0F : std::copysign(tile.magnitude(code), value);
        }
    } else {
        send_fp8(block.data(), block.size(), fp8_of(format), fp8_scale(format, block));
    }
}

}  // namespace plait::sim
