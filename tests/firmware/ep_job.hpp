#pragma once
// An EP group over a Mesh and its buffers; checks against the reference.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "device_mesh.hpp"
#include "ep_reference.hpp"

namespace plait::mesh_test {

class Job : public EpReference {
  public:
    Job(const MeshOptions& mesh_options, const JobOptions& options)
        : EpReference(mesh_options, options), mesh(mesh_options), random_(mesh_options.seed * 7 + 1) {
        const std::uint32_t ranks = mesh_options.ranks();
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            MeshDevice& device = mesh.device(rank);
            device.open();
            device.make_queues();
            keys_.push_back(device.register_memory());
        }
        qps_.assign(ranks, std::vector<Qp>(ranks));
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            for (std::uint32_t peer = 0; peer < ranks; ++peer) {
                if (node_of(peer) != node_of(rank)) create_qp(rank, peer);
            }
        }
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            for (std::uint32_t peer = 0; peer < ranks; ++peer) {
                if (node_of(peer) != node_of(rank)) connect_qp(rank, peer);
            }
        }
    }

    [[nodiscard]] regmap::GroupParameters parameters(std::uint32_t rank) const {
        regmap::GroupParameters p;
        p.rank = rank;
        p.ranks = ranks();
        p.ranks_per_node = mesh.options().ranks_per_node;
        p.experts = experts();
        p.topk = options_.topk;
        p.hidden = options_.hidden;
        p.max_tokens = options_.max_tokens;
        p.dispatch_format = options_.format;
        p.combine_format = options_.combine_format;
        p.partial_format = options_.partial_format;
        p.flags = options_.flags;
        p.entry_policy = options_.policy;
        p.mode = options_.mode;
        p.handles = options_.handles;
        p.mtu_bytes = mesh.options().mtu_bytes;
        return p;
    }

    /// The completion of create_group.
    regmap::Completion create_group(std::uint32_t rank, const regmap::GroupParameters& parameters) {
        MeshDevice& device = mesh.device(rank);
        const std::size_t length = sizeof(parameters) + ranks() * 4;
        const std::uint64_t address = device.allocate(length);
        device.store(address, parameters);
        for (std::uint32_t peer = 0; peer < ranks(); ++peer) {
            device.store(address + sizeof(parameters) + peer * 4, qps_[rank][peer].qpn);
        }
        regmap::AdminRequest request;
        request.opcode = regmap::AdminOpcode::create_group;
        request.address = address;
        request.length = length;
        request.send_queue = MeshDevice::collective_queue;
        return device.admin(request);
    }

    void create_groups() {
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
            const regmap::Completion completion = create_group(rank, parameters(rank));
            ASSERT_EQ(completion.status, Status::ok);
            ASSERT_EQ(completion.object, 0U);
        }
    }

    [[nodiscard]] std::uint32_t qpn(std::uint32_t rank, std::uint32_t peer) const {
        return qps_[rank][peer].qpn;
    }

    /// Uniform; now and then no expert, or one twice.
    Routing random_routing(std::uint32_t max_tokens) {
        Routing routing(ranks());
        for (RankTokens& rank : routing) {
            const std::uint64_t tokens = random_() % (max_tokens + 1);
            for (std::uint64_t t = 0; t < tokens; ++t)
                add_token(rank, [&](std::uint32_t) { return random_expert(); });
        }
        return routing;
    }
    template <class Choose>
    void add_token(RankTokens& rank, Choose&& choose) {
        std::vector<std::int64_t> chosen;
        std::vector<float> weights;
        for (std::uint32_t k = 0; k < options_.topk; ++k) {
            chosen.push_back(choose(k));
            weights.push_back(static_cast<float>(random_() % 1000) / 7.0F);
        }
        rank.experts.push_back(chosen);
        rank.weights.push_back(weights);
    }
    std::int64_t random_expert() {
        return random_() % 8 == 0 ? -1 : static_cast<std::int64_t>(random_() % experts());
    }

    // Calls.

    regmap::MemoryRange range(std::uint32_t rank, std::size_t bytes) {
        return {.address = mesh.device(rank).allocate(bytes), .key = keys_[rank]};
    }
    regmap::MemoryRange filled(std::uint32_t rank, const std::vector<std::uint8_t>& bytes) {
        const regmap::MemoryRange made = range(rank, bytes.size());
        if (!bytes.empty())
            std::memcpy(mesh.device(rank).bytes(made.address, bytes.size()), bytes.data(), bytes.size());
        return made;
    }
    std::vector<std::uint8_t> random_bytes(std::size_t count) {
        std::vector<std::uint8_t> bytes(count);
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random_());
        return bytes;
    }

    /// BF16 of any size and sign.
    std::vector<std::uint16_t> random_values(std::size_t count) {
        std::vector<std::uint16_t> values(count);
        for (std::uint16_t& value : values) {
            const float magnitude =
                std::ldexp(static_cast<float>(random_() % 255 + 1), static_cast<int>(random_() % 12) - 6);
            value = to_bf16(random_() % 2 == 0 ? magnitude : -magnitude);
        }
        return values;
    }

    Call dispatch_call(std::uint32_t rank, const Routing& routing, std::uint32_t handle,
                       std::uint32_t capacity) {
        const RankTokens& tokens = routing[rank];
        const auto count = static_cast<std::uint32_t>(tokens.experts.size());
        Call call;
        call.capacity = capacity;
        if (x_format() == options_.format) call.x = random_bytes(count * data_bytes());
        else call.x = as_bytes(random_values(count * std::size_t{options_.hidden}));
        call.scales = random_bytes(count * scale_bytes(x_format()));
        std::vector<std::uint8_t> indices(count * options_.topk * sizeof(std::int64_t));
        std::vector<std::uint8_t> weights(count * options_.topk * sizeof(float));
        for (std::uint32_t t = 0; t < count; ++t) {
            std::memcpy(indices.data() + t * options_.topk * 8, tokens.experts[t].data(), options_.topk * 8);
            std::memcpy(weights.data() + t * options_.topk * 4, tokens.weights[t].data(), options_.topk * 4);
        }
        regmap::EpRequest& request = call.request;
        request.opcode = regmap::EpOpcode::dispatch;
        request.handle = handle;
        request.user_data = ++calls_;
        request.tokens = count;
        request.timeout_us = options_.timeout_us;
        request.receive_capacity = capacity;
        request.x = filled(rank, call.x);
        request.x_scales = filled(rank, call.scales);
        request.topk_idx = filled(rank, indices);
        request.topk_weights = filled(rank, weights);
        request.recv_x = range(rank, capacity * data_bytes());
        request.recv_x_scales = range(rank, capacity * scale_bytes());
        request.recv_topk_idx = range(rank, capacity * options_.topk * 8);
        request.recv_topk_weights = range(rank, capacity * options_.topk * 4);
        request.recv_source = range(rank, capacity * 8);
        request.result = range(rank, sizeof(regmap::EpResult) + (options_.experts_per_rank + ranks()) * 4);
        mesh.device(rank).allow_place(request.recv_x.address, capacity * data_bytes());
        mesh.device(rank).allow_place(request.recv_x_scales.address, capacity * scale_bytes());
        return call;
    }

    /// Expert outputs for a rank's received rows, or for `rows`: values of any size and sign, so that the
    /// order of additions shows.
    Call combine_call(std::uint32_t rank, const Routing& routing, std::uint32_t handle,
                      std::optional<std::size_t> rows = {}) {
        Call call;
        const std::size_t count = rows.value_or(expected_rows(routing, rank).size());
        const std::vector<std::uint16_t> values = random_values(count * options_.hidden);
        if (outputs_format() == RowFormat::bf16) call.x = as_bytes(values);
        else encode_rows(call, values);
        regmap::EpRequest& request = call.request;
        request.opcode = regmap::EpOpcode::combine;
        request.handle = handle;
        request.user_data = ++calls_;
        request.timeout_us = options_.timeout_us;
        request.x = filled(rank, call.x);
        request.x_scales = filled(rank, call.scales);
        const std::size_t elements = routing[rank].experts.size() * options_.hidden;
        for (std::uint32_t i = 0; i < options_.biases; ++i) {
            call.bias[i] = random_values(elements);
            request.bias[i] = filled(rank, as_bytes(call.bias[i]));
        }
        request.recv_x = range(rank, elements * 2);
        request.result = range(rank, sizeof(regmap::EpResult));
        mesh.device(rank).allow_place(request.recv_x.address, elements * 2);
        return call;
    }

    void post(std::uint32_t rank, const Call& call) { mesh.device(rank).post(call.request); }

    /// Waits for the completion of `call`; others that come meanwhile are kept.
    std::optional<regmap::Completion> wait(std::uint32_t rank, const Call& call,
                                           std::uint64_t limit_ns = 5'000'000'000) {
        auto& seen = completions_[rank];
        const std::uint64_t user_data = call.request.user_data;
        mesh.run_until(
            [&] {
                while (auto completion = mesh.device(rank).poll()) seen[completion->user_data] = *completion;
                return seen.contains(user_data);
            },
            limit_ns);
        if (!seen.contains(user_data)) return std::nullopt;
        mesh.device(rank).forbid(call.request.x.address, call.x.size());
        for (const regmap::MemoryRange& bias : call.request.bias)
            mesh.device(rank).forbid(bias.address, call.bias[0].size() * 2);
        return seen[user_data];
    }

    Status status_of(std::uint32_t rank, const Call& call, std::uint64_t limit_ns = 5'000'000'000) {
        const auto completion = wait(rank, call, limit_ns);
        EXPECT_TRUE(completion) << "rank " << rank << " hangs";
        return completion ? completion->status : Status::device_fatal;
    }

    regmap::EpResult result(std::uint32_t rank, const Call& call) {
        return mesh.device(rank).load<regmap::EpResult>(call.request.result.address);
    }

    std::vector<Call> dispatch_calls(const Routing& routing, std::uint32_t handle) {
        std::vector<Call> calls;
        for (std::uint32_t rank = 0; rank < ranks(); ++rank)
            calls.push_back(dispatch_call(rank, routing, handle, capacity_for(routing, rank)));
        return calls;
    }
    /// The same routing again, out of the handle: other rows, no top-k lists.
    std::vector<Call> cached_calls(const Routing& routing, std::uint32_t handle) {
        std::vector<Call> calls = dispatch_calls(routing, handle);
        for (Call& call : calls) {
            call.request.flags = 1;
            call.request.topk_idx = call.request.topk_weights = {};
        }
        return calls;
    }
    std::vector<Call> combine_calls(const Routing& routing, std::uint32_t handle) {
        std::vector<Call> calls;
        for (std::uint32_t rank = 0; rank < ranks(); ++rank)
            calls.push_back(combine_call(rank, routing, handle));
        return calls;
    }
    void post_all(const std::vector<Call>& calls) {
        for (std::uint32_t rank = 0; rank < calls.size(); ++rank) post(rank, calls[rank]);
    }
    void expect_all(const std::vector<Call>& calls, Status status) {
        for (std::uint32_t rank = 0; rank < calls.size(); ++rank)
            EXPECT_EQ(status_of(rank, calls[rank]), status) << "rank " << rank;
    }

    // Checks.

    /// Every byte that the dispatch must have written at `rank`.
    void check_dispatch(std::uint32_t rank, const Routing& routing, const std::vector<Call>& calls,
                        Status status = Status::ok) {
        SCOPED_TRACE("rank " + std::to_string(rank));
        MeshDevice& device = mesh.device(rank);
        const regmap::EpRequest& request = calls[rank].request;
        const std::vector<SourceToken> rows = expected_rows(routing, rank);
        const regmap::EpResult answer = result(rank, calls[rank]);
        EXPECT_EQ(answer.status, static_cast<std::uint32_t>(status));
        ASSERT_EQ(answer.received_rows, rows.size());
        EXPECT_EQ(answer.missing_rows, 0U);
        std::vector<std::uint32_t> by_source(ranks());
        for (std::size_t slot = 0; slot < rows.size(); ++slot) {
            const auto [source, token] = rows[slot];
            ++by_source[source];
            check_row(device, request, slot, calls[source], source, token);
            const auto& experts = routing[source].experts[token];
            for (std::uint32_t k = 0; k < options_.topk; ++k) {
                const bool here = experts[k] >= 0 && rank_of(experts[k]) == rank;
                const std::int64_t local = here ? experts[k] % options_.experts_per_rank : -1;
                const std::uint64_t place = slot * options_.topk + k;
                ASSERT_EQ(device.load<std::int64_t>(request.recv_topk_idx.address + place * 8), local);
                ASSERT_EQ(device.load<float>(request.recv_topk_weights.address + place * 4),
                          here ? routing[source].weights[token][k] : 0.0F);
            }
        }
        const std::uint64_t counts = request.result.address + sizeof(regmap::EpResult);
        for (std::uint32_t expert = 0; expert < options_.experts_per_rank; ++expert) {
            EXPECT_EQ(device.load<std::uint32_t>(counts + expert * 4),
                      choices_of(routing, rank * options_.experts_per_rank + expert));
        }
        for (std::uint32_t source = 0; source < ranks(); ++source) {
            EXPECT_EQ(device.load<std::uint32_t>(counts + (options_.experts_per_rank + source) * 4),
                      by_source[source]);
        }
    }

    void check_combine(std::uint32_t rank, const Routing& routing, const std::vector<Call>& calls) {
        SCOPED_TRACE("rank " + std::to_string(rank));
        MeshDevice& device = mesh.device(rank);
        EXPECT_EQ(result(rank, calls[rank]).received_rows, routing[rank].experts.size());
        std::vector<std::vector<SourceToken>> rows;
        for (std::uint32_t r = 0; r < ranks(); ++r) rows.push_back(expected_rows(routing, r));
        for (std::uint32_t token = 0; token < routing[rank].experts.size(); ++token) {
            const std::vector<std::uint16_t> expected = combined(routing, rows, calls, rank, token);
            std::vector<std::uint16_t> actual(options_.hidden);
            const std::size_t length = expected.size() * 2;
            std::memcpy(actual.data(),
                        device.bytes(calls[rank].request.recv_x.address + token * length, length), length);
            ASSERT_EQ(actual, expected) << "token " << token;
        }
    }

    void expect_nothing_left() {
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) mesh.device(rank).allow_all();
        mesh.run_for(30'000'000);
        for (std::uint32_t rank = 0; rank < ranks(); ++rank)
            if (!mesh.device(rank).is_dead()) mesh.device(rank).expect_nothing_left();
    }

    /// Dispatch and combine of all ranks, every byte checked.
    void round(const Routing& routing, std::uint32_t handle = 0) {
        run_dispatch(routing, dispatch_calls(routing, handle));
        run_combine(routing, handle);
    }

    /// Calls of all ranks succeed with the right rows.
    void run_dispatch(const Routing& routing, const std::vector<Call>& dispatch) {
        post_all(dispatch);
        expect_all(dispatch, Status::ok);
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) check_dispatch(rank, routing, dispatch);
    }
    void run_combine(const Routing& routing, std::uint32_t handle) {
        const std::vector<Call> combine = combine_calls(routing, handle);
        post_all(combine);
        expect_all(combine, Status::ok);
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) check_combine(rank, routing, combine);
    }

    Mesh mesh;

  protected:
    void check_row(MeshDevice& device, const regmap::EpRequest& request, std::size_t slot, const Call& sent,
                   std::uint32_t source, std::uint32_t token) {
        const std::uint64_t name = std::uint64_t{source} << 32 | token;
        ASSERT_EQ(device.load<std::uint64_t>(request.recv_source.address + slot * 8), name)
            << "slot " << slot;
        std::uint32_t spoilt = 0;
        const std::vector<std::uint8_t> row = sent_row(sent, x_format(), options_.format, token, spoilt);
        const std::uint8_t* data = device.bytes(request.recv_x.address + slot * data_bytes(), data_bytes());
        ASSERT_EQ(std::memcmp(data, row.data(), data_bytes()), 0) << "slot " << slot;
        if (scale_bytes() == 0) return;
        const std::uint8_t* scales =
            device.bytes(request.recv_x_scales.address + slot * scale_bytes(), scale_bytes());
        ASSERT_EQ(std::memcmp(scales, row.data() + data_bytes(), scale_bytes()), 0) << "slot " << slot;
    }

  private:
    struct Qp {
        std::uint32_t qpn = 0;
        std::uint32_t psn = 0;
    };

    void create_qp(std::uint32_t rank, std::uint32_t peer) {
        regmap::AdminRequest request;
        request.opcode = regmap::AdminOpcode::create_qp;
        request.mtu_bytes = static_cast<std::uint16_t>(mesh.options().mtu_bytes);
        request.window_packets = 128;
        request.entropy_values = 16;
        const regmap::Completion completion = mesh.device(rank).admin(request);
        ASSERT_EQ(completion.status, Status::ok);
        qps_[rank][peer] = {completion.object, completion.immediate};
    }

    void connect_qp(std::uint32_t rank, std::uint32_t peer) {
        regmap::AdminRequest request;
        request.opcode = regmap::AdminOpcode::connect_qp;
        request.object = qps_[rank][peer].qpn;
        request.peer_device = peer;
        request.peer_qpn = qps_[peer][rank].qpn;
        request.peer_psn = qps_[peer][rank].psn;
        ASSERT_EQ(mesh.device(rank).admin(request).status, Status::ok);
    }

    std::mt19937_64 random_;
    std::vector<std::uint32_t> keys_;
    std::vector<std::vector<Qp>> qps_;
    std::map<std::uint32_t, std::map<std::uint64_t, regmap::Completion>> completions_;
    std::uint64_t calls_ = 0;
};

}  // namespace plait::mesh_test
