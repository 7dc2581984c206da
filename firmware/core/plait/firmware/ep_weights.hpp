#pragma once
// Weights that come with a low-latency combine: they go ahead to the entry devices, in the credits that let
// their rows return. A row is the number of its choices (u32) and their weights (f32).

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <plait/firmware/ep_route.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// What one credit brings: the weights of so many rows, in so many words.
struct ToldWeights {
    std::uint32_t rows = 0;
    std::uint32_t words = 0;
};

/// Writes the weights of the rows by way of `entry` that follow those it has, up to row number `last`, as far
/// as they fit into `words`.
inline ToldWeights write_weights(const EpGroup& group, const EpHandle& handle, const Destination& entry,
                                 std::uint32_t last, std::span<std::uint32_t> words) {
    std::array<Choice, regmap::max_topk> choices;
    ToldWeights told;
    std::uint32_t number = entry.next_row;
    for (; entry.weights_told + told.rows < last; ++told.rows) {
        const RowInfo& row = handle.rows[number];
        const std::uint8_t count = choices_of(group, handle, row, choices);
        if (told.words + 1 + count > words.size()) break;
        words[told.words++] = count;
        for (const Choice& choice : std::span(choices).first(count))
            words[told.words++] = std::bit_cast<std::uint32_t>(choice.weight);
        number = row.next;
    }
    return told;
}

/// Puts the weights of the rows `first` .. `last` - 1 of a source in the place of those that came with the
/// dispatch; of rows that never came they are skipped. False: malformed.
inline bool take_weights(const EpGroup& group, const EpHandle& handle, const PeerState& source,
                         std::uint32_t first, std::uint32_t last, std::span<const std::uint8_t> bytes) {
    if (!group.is_low_latency() || last > group.parameters.max_tokens) return false;
    for (std::uint32_t row = first; row < last; ++row) {
        std::uint32_t count = 0;
        if (bytes.size() < sizeof(count)) return false;
        std::memcpy(&count, bytes.data(), sizeof(count));
        bytes = bytes.subspan(sizeof(count));
        if (count > group.row_choices || bytes.size() < count * sizeof(float)) return false;
        const EntryRow& entry = handle.entry_rows[source.entry_base + row];
        if (entry.dispatch == handle.dispatch_number) {
            if (entry.choice_count != count) return false;
            const std::span<Choice> choices = choices_at(group, handle, source.entry_base + row);
            for (std::uint32_t i = 0; i < count; ++i)
                std::memcpy(&choices[i].weight, bytes.data() + i * sizeof(float), sizeof(float));
        }
        bytes = bytes.subspan(count * sizeof(float));
    }
    return bytes.empty();
}

/// What credits say of weights, at the source.
class CreditWeights {
  public:
    /// Fixes how many of the credited rows the next credit brings the weights of. Answers its payload, bytes;
    /// 0 when credits carry none.
    std::uint32_t tell(const EpGroup& group, const EpHandle& handle, Destination& entry) {
        if (!handle.sends_weights) return 0;
        const std::size_t room = std::min(words_.size(), group.parameters.mtu_bytes / sizeof(std::uint32_t));
        const ToldWeights told =
            write_weights(group, handle, entry, entry.credited, std::span(words_).first(room));
        entry.weights_telling = entry.weights_told + told.rows;
        return told.words * static_cast<std::uint32_t>(sizeof(std::uint32_t));
    }

    /// The payload of the credit on its way, in memory that is read before the next one is made. Of a call
    /// that is over it means nothing.
    std::span<const std::uint8_t> payload(const EpGroup& group, const EpHandle& handle,
                                          const Destination& entry) {
        if (handle.state == HandleState::combining && handle.sends_weights)
            write_weights(group, handle, entry, entry.weights_telling, words_);
        return {reinterpret_cast<const std::uint8_t*>(words_.data()), sizeof(words_)};
    }

    /// The credit on its way has arrived. True: another one must follow, not all fitted.
    static bool arrived(const EpHandle& handle, Destination& entry) {
        if (!handle.sends_weights || handle.state != HandleState::combining) return false;
        for (; entry.weights_told < entry.weights_telling; ++entry.weights_told)
            entry.next_row = handle.rows[entry.next_row].next;
        return entry.weights_told < entry.announced;
    }

  private:
    std::array<std::uint32_t, regmap::max_control_bytes / sizeof(std::uint32_t)> words_{};
};

}  // namespace plait::firmware
