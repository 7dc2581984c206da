// Activations and expert outputs as they are sent: in any format, any part of a row, as fast as memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <plait/regmap.hpp>
#include <plait/sim/app/activations.hpp>

namespace plait::sim {

/// Each block of the pool is encoded once, by definition (row_reference.hpp), plain and with each heavy
/// channel in it: signs do not change a magnitude's code or a scale. Immutable. `activations` is borrowed.
class EncodedRows {
  public:
    EncodedRows(const Activations& activations, regmap::RowFormat format);

    /// Bytes [offset, offset + part.size()) of the codes of a row.
    void fill_codes(const RowName& name, std::span<std::byte> part, uint32_t offset) const;
    /// The same of its scales.
    void fill_scales(const RowName& name, std::span<std::byte> part, uint32_t offset) const;
    /// Elements [offset, offset + part.size()) as the receiver decodes them.
    void fill_values(const RowName& name, std::span<float> part, uint32_t offset) const;

    uint32_t code_bytes() const { return code_bytes_; }
    uint32_t scale_bytes() const { return scale_bytes_; }
    regmap::RowFormat format() const { return format_; }

  private:
    static constexpr uint32_t block = Activations::block;

    size_t block_of(const RowName& name, uint32_t block_of_row) const;
    void encode_pool();
    void encode_kind(uint32_t kind, uint32_t count, const uint32_t* heavy);

    const Activations& activations_;
    const regmap::RowFormat format_;
    const uint32_t code_bits_;
    const uint32_t code_bytes_;            // of a row
    const uint32_t scale_bytes_;           // of a row
    std::vector<uint32_t> kind_of_block_;  // of a row's block: 0 plain, else 1 + its heavy channel; the last
                                           // one is a kind of its own when it is short
    // [kinds][Activations::pool_blocks] blocks; none of BF16, which the activations are.
    std::vector<uint8_t> codes_;
    std::vector<uint8_t> scales_;
    std::vector<float> values_;
};

}  // namespace plait::sim
