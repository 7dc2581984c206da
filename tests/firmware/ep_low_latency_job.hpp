#pragma once
// Low-latency dispatch and combine over a Mesh, against a slow and obvious reference.

#include "ep_job.hpp"

namespace plait::mesh_test {

class LowLatencyJob : public Job {
  public:
    LowLatencyJob(const MeshOptions& mesh_options, JobOptions options,
                  regmap::EpMode mode = regmap::EpMode::low_latency)
        : Job(mesh_options, with_mode(options, mode)) {}

    [[nodiscard]] std::uint32_t slots() const { return experts() * options_.max_tokens; }

    /// Tokens of `source` that choose `expert`, each once, in order: the row of the i-th lies in slot i.
    [[nodiscard]] std::vector<std::uint32_t> tokens_for(const Routing& routing, std::uint32_t source,
                                                        std::int64_t expert) const {
        std::vector<std::uint32_t> tokens;
        for (std::uint32_t token = 0; token < routing[source].experts.size(); ++token) {
            const auto& chosen = routing[source].experts[token];
            if (std::find(chosen.begin(), chosen.end(), expert) != chosen.end()) tokens.push_back(token);
        }
        return tokens;
    }

    [[nodiscard]] std::size_t slot_of(std::uint32_t local_expert, std::uint32_t source,
                                      std::size_t number) const {
        return (std::size_t{local_expert} * ranks() + source) * options_.max_tokens + number;
    }

    Call expert_dispatch(std::uint32_t rank, const Routing& routing, bool with_weights) {
        Call call = dispatch_call(rank, routing, 0, slots());
        call.request.recv_topk_idx = call.request.recv_topk_weights = {};
        if (!with_weights) call.request.topk_weights = {};
        call.request.result =
            range(rank, sizeof(regmap::EpResult) + (options_.experts_per_rank + ranks() + experts()) * 4);
        return call;
    }
    std::vector<Call> expert_dispatches(const Routing& routing, bool with_weights = true) {
        std::vector<Call> calls;
        for (std::uint32_t rank = 0; rank < ranks(); ++rank)
            calls.push_back(expert_dispatch(rank, routing, with_weights));
        return calls;
    }

    /// Outputs for every slot: those of no row must not be looked at.
    Call expert_combine(std::uint32_t rank, const Routing& routing, bool with_weights) {
        Call call = combine_call(rank, routing, 0, slots());
        if (!with_weights) return call;
        std::vector<std::uint8_t> weights(routing[rank].experts.size() * options_.topk * sizeof(float));
        for (std::size_t t = 0; t < routing[rank].experts.size(); ++t)
            std::memcpy(weights.data() + t * options_.topk * 4, routing[rank].weights[t].data(),
                        options_.topk * 4);
        call.request.topk_weights = filled(rank, weights);
        return call;
    }
    std::vector<Call> expert_combines(const Routing& routing, bool with_weights = false) {
        std::vector<Call> calls;
        for (std::uint32_t rank = 0; rank < ranks(); ++rank)
            calls.push_back(expert_combine(rank, routing, with_weights));
        return calls;
    }

    /// Every byte of every slot: rows where they belong, and nothing anywhere else.
    void check_slots(std::uint32_t rank, const Routing& routing, const std::vector<Call>& calls) {
        SCOPED_TRACE("rank " + std::to_string(rank));
        MeshDevice& device = mesh.device(rank);
        const regmap::EpRequest& request = calls[rank].request;
        const std::uint64_t counts = request.result.address + sizeof(regmap::EpResult);
        const std::uint64_t matrix = counts + (options_.experts_per_rank + ranks()) * 4;
        std::uint32_t rows = 0;
        for (std::uint32_t local = 0; local < options_.experts_per_rank; ++local) {
            std::uint32_t of_expert = 0;
            for (std::uint32_t source = 0; source < ranks(); ++source) {
                const auto tokens = tokens_for(routing, source, rank * options_.experts_per_rank + local);
                for (std::uint32_t i = 0; i < options_.max_tokens; ++i)
                    check_slot(device, request, slot_of(local, source, i), calls[source], source,
                               i < tokens.size() ? std::optional(tokens[i]) : std::nullopt);
                EXPECT_EQ(
                    device.load<std::uint32_t>(matrix + (source * options_.experts_per_rank + local) * 4),
                    tokens.size());
                of_expert += static_cast<std::uint32_t>(tokens.size());
            }
            EXPECT_EQ(device.load<std::uint32_t>(counts + local * 4), of_expert);
            rows += of_expert;
        }
        EXPECT_EQ(result(rank, calls[rank]).received_rows, rows);
    }

    /// Of each node in order: the FP32 sum over the token's distinct experts there, in order of its top-k
    /// list, of weight times output, encoded as a partial row; then the FP32 sum over nodes, rounded.
    /// `weighted`: the weights of the routing, those of an expert named twice added; else each is 1 for every
    /// mention.
    [[nodiscard]] std::vector<std::uint16_t> weighted_sum(const Routing& routing,
                                                          const std::vector<Call>& calls,
                                                          std::uint32_t source, std::uint32_t token,
                                                          bool weighted) const {
        const auto& chosen = routing[source].experts[token];
        std::uint32_t spoilt = 0;
        Sum total = bias_of(calls[source], token);
        for (std::uint32_t node = 0; node < mesh.options().nodes; ++node) {
            Sum sum;
            for (std::size_t k = 0; k < chosen.size(); ++k) {
                const bool again = std::find(chosen.begin(), chosen.begin() + static_cast<long>(k),
                                             chosen[k]) != chosen.begin() + static_cast<long>(k);
                if (chosen[k] < 0 || again || node_of(rank_of(chosen[k])) != node) continue;
                float weight = 0;
                for (std::size_t j = k; j < chosen.size(); ++j)
                    if (chosen[j] == chosen[k]) weight += weighted ? routing[source].weights[token][j] : 1.0F;
                add(sum, options_.combine_format, output_of(calls, routing, source, token, chosen[k]),
                    weight);
            }
            if (!sum.empty())
                add(total, options_.partial_format, encode(options_.partial_format, sum, spoilt));
        }
        std::vector<std::uint16_t> row(options_.hidden);
        for (std::size_t e = 0; e < total.size(); ++e) row[e] = to_bf16(total[e]);
        return row;
    }

    void check_sums(std::uint32_t rank, const Routing& routing, const std::vector<Call>& calls,
                    bool weighted) {
        SCOPED_TRACE("rank " + std::to_string(rank));
        for (std::uint32_t token = 0; token < routing[rank].experts.size(); ++token) {
            const auto expected = weighted_sum(routing, calls, rank, token, weighted);
            std::vector<std::uint16_t> actual(options_.hidden);
            const std::size_t length = expected.size() * 2;
            std::memcpy(actual.data(),
                        mesh.device(rank).bytes(calls[rank].request.recv_x.address + token * length, length),
                        length);
            ASSERT_EQ(actual, expected) << "token " << token;
        }
    }

    void run_expert_dispatch(const Routing& routing, bool with_weights = true) {
        const std::vector<Call> calls = expert_dispatches(routing, with_weights);
        post_all(calls);
        expect_all(calls, Status::ok);
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) check_slots(rank, routing, calls);
    }
    /// `with_weights`: brings those of `routing` along. `weighted`: they count, from wherever they came.
    void run_expert_combine(const Routing& routing, bool with_weights, bool weighted) {
        const std::vector<Call> calls = expert_combines(routing, with_weights);
        post_all(calls);
        expect_all(calls, Status::ok);
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) check_sums(rank, routing, calls, weighted);
    }

  private:
    static JobOptions with_mode(JobOptions options, regmap::EpMode mode) {
        options.mode = mode;
        return options;
    }

    void check_slot(MeshDevice& device, const regmap::EpRequest& request, std::size_t slot, const Call& sent,
                    std::uint32_t source, std::optional<std::uint32_t> token) {
        if (token) return check_row(device, request, slot, sent, source, *token);
        ASSERT_EQ(device.load<std::uint64_t>(request.recv_source.address + slot * 8), 0U) << "slot " << slot;
        const std::uint8_t* data = device.bytes(request.recv_x.address + slot * data_bytes(), data_bytes());
        ASSERT_TRUE(std::all_of(data, data + data_bytes(), [](std::uint8_t byte) { return byte == 0; }))
            << "slot " << slot << " should be empty";
    }

    /// What `expert` has for a token, as it travels.
    [[nodiscard]] std::vector<std::uint8_t> output_of(const std::vector<Call>& calls, const Routing& routing,
                                                      std::uint32_t source, std::uint32_t token,
                                                      std::int64_t expert) const {
        const auto tokens = tokens_for(routing, source, expert);
        const auto number = std::find(tokens.begin(), tokens.end(), token) - tokens.begin();
        const std::size_t slot = slot_of(static_cast<std::uint32_t>(expert) % options_.experts_per_rank,
                                         source, static_cast<std::size_t>(number));
        std::uint32_t spoilt = 0;
        return sent_row(calls[rank_of(expert)], outputs_format(), options_.combine_format, slot, spoilt);
    }
};

}  // namespace plait::mesh_test
