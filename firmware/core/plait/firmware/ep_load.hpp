#pragma once
// Dispatch: the top-k lists of a call, from host memory into the tables.

#include <algorithm>
#include <cstring>
#include <plait/firmware/ep_route.hpp>
#include <plait/firmware/ep_state.hpp>

namespace plait::firmware {

/// `Core` is Ep<Context>.
template <class Core>
class EpLoad {
  public:
    explicit EpLoad(Core& core) : core_(core) {}

    /// Asks for the weights and, unless it is a combine's, the experts, in pieces: fetches_left says how
    /// many. Weights that are not given are 0 in normal mode, where nothing is done with them, and 1 in low
    /// latency.
    void begin(EpGroup& group, EpHandle& handle, bool with_experts) {
        handle.fetches_left = 0;
        handle.load_status = regmap::Status::ok;
        if (with_experts) {
            handle.pieces_in_order = 0;
            begin_routing(handle);
            fetch_all(group, handle, false, handle.request.topk_idx, sizeof(std::int64_t));
        }
        if (handle.request.topk_weights.key != 0) {
            fetch_all(group, handle, true, handle.request.topk_weights, sizeof(float));
        } else {
            const std::span<float> unused = handle.weights.first(choice_count(group, handle));
            std::fill(unused.begin(), unused.end(), group.is_low_latency() ? 1.0F : 0.0F);
        }
    }

    /// A piece has come. What is wrong with it is in load_status.
    void take(EpGroup& group, EpHandle& handle, bool weights, std::uint32_t piece, regmap::Status status,
              std::span<const std::uint8_t> bytes) {
        if (status != regmap::Status::ok) handle.load_status = status;
        else if (weights) take_weights(group, handle, piece, bytes);
        else take_experts(group, handle, piece, bytes);
    }

  private:
    /// Small enough that the tokens of a dispatch are routed in many events, on as many cores.
    static constexpr std::uint32_t fetch_bytes = 2048;

    [[nodiscard]] static std::size_t choice_count(const EpGroup& group, const EpHandle& handle) {
        return std::size_t{handle.token_count} * group.parameters.topk;
    }

    void fetch_all(EpGroup& group, EpHandle& handle, bool weights, const regmap::MemoryRange& range,
                   std::size_t element_bytes) {
        const std::uint64_t bytes = choice_count(group, handle) * element_bytes;
        const auto pieces = static_cast<std::uint32_t>((bytes + fetch_bytes - 1) / fetch_bytes);
        handle.fetches_left += pieces;
        for (std::uint32_t piece = 0; piece < pieces; ++piece) {
            const std::uint64_t offset = std::uint64_t{piece} * fetch_bytes;
            core_.hal().fetch(
                FetchTag{FetchOwner::ep, core_.fetch_label(group, handle, weights, piece)},
                Segment{range.address + offset,
                        static_cast<std::uint32_t>(std::min<std::uint64_t>(fetch_bytes, bytes - offset))});
        }
    }

    void take_experts(EpGroup& group, EpHandle& handle, std::uint32_t piece,
                      std::span<const std::uint8_t> bytes) {
        const std::size_t first = std::size_t{piece} * (fetch_bytes / sizeof(std::int64_t));
        const std::size_t count = bytes.size() / sizeof(std::int64_t);
        if (first + count > choice_count(group, handle)) {
            handle.load_status = regmap::Status::invalid_length;
            return;
        }
        for (std::size_t i = 0; i < count; ++i) {
            std::int64_t expert = 0;
            std::memcpy(&expert, bytes.data() + i * sizeof(expert), sizeof(expert));
            if (expert < -1 || expert >= static_cast<std::int64_t>(group.parameters.experts)) {
                handle.load_status = regmap::Status::invalid_expert;
                return;
            }
            handle.experts[first + i] = static_cast<std::int16_t>(expert);
        }
        if (piece != handle.pieces_in_order) return;  // the last event routes what is behind a gap
        ++handle.pieces_in_order;
        route_tokens(group, handle, static_cast<std::uint32_t>(first + count) / group.parameters.topk);
    }

    void take_weights(EpGroup& group, EpHandle& handle, std::uint32_t piece,
                      std::span<const std::uint8_t> bytes) {
        const std::size_t first = std::size_t{piece} * (fetch_bytes / sizeof(float));
        if (first + bytes.size() / sizeof(float) > choice_count(group, handle)) {
            handle.load_status = regmap::Status::invalid_length;
            return;
        }
        std::memcpy(handle.weights.data() + first, bytes.data(),
                    bytes.size() / sizeof(float) * sizeof(float));
    }

    Core& core_;
};

}  // namespace plait::firmware
