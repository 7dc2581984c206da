#pragma once
// Rank 0 of a group of two, one rank a node, and arguments that fit it.

#include "job.hpp"

namespace plait::testing {

class EpFixture : public ::testing::Test {
  protected:
    static constexpr std::uint64_t wait_ns = 1'000'000;

    EpFixture() : job(2) {
        groups = job.create([](std::uint32_t) {
            EpConfig config = small_config();
            config.ranks_per_node = 1;
            return config;
        });
        for (auto& group : groups)
            if (!group.ok()) throw std::runtime_error(group.error().message);
    }

    EpGroup& group() { return *groups[0].value(); }
    ScriptedDevice& device() { return job.device(0); }

    /// 3 tokens, room for 10 rows, every buffer given and just long enough.
    static DispatchArguments dispatch_arguments() {
        return {.tokens = 3,
                .receive_capacity = 10,
                .timeout_us = 500,
                .x = {0x1000, 3 * 128, 11},
                .x_scales = {0x2000, 3 * 4, 12},
                .topk_idx = {0x3000, 3 * 16, 13},
                .topk_weights = {0x4000, 3 * 8, 14},
                .recv_x = {0x5000, 10 * 128, 15},
                .recv_x_scales = {0x6000, 10 * 4, 16},
                .recv_topk_idx = {0x7000, 10 * 16, 17},
                .recv_topk_weights = {0x8000, 10 * 8, 18},
                .recv_source = {0x9000, 10 * 8, 19},
                .cached = std::nullopt,
                .expert_alignment = 1,
                .mark_empty_rows = false};
    }

    static CombineArguments combine_arguments(EpHandle handle) {
        return {.handle = handle,
                .timeout_us = 700,
                .x = {0xa000, 4 * 256, 21},
                .combined_x = {0xb000, 3 * 256, 22}};
    }

    static regmap::EpResult result(Status status, std::uint32_t rows) {
        regmap::EpResult result;
        result.status = static_cast<std::uint32_t>(status);
        result.received_rows = rows;
        return result;
    }

    /// Answers the oldest request the way a device does that went through with it.
    void answer(Status status, std::uint32_t rows, ScriptedDevice& on) {
        const regmap::EpResult written = result(status, rows);
        on.answer(status, &written);
    }
    void answer(Status status, std::uint32_t rows) { answer(status, rows, device()); }

    /// A dispatch that ended well with 4 rows.
    EpHandle dispatched() {
        auto call = group().dispatch(dispatch_arguments());
        if (!call) throw std::runtime_error(call.error().message);
        answer(Status::ok, 4);
        auto completion = call.value().wait(wait_ns);
        if (!completion) throw std::runtime_error(completion.error().message);
        return completion.value().handle;
    }

    Job job;
    Job::Groups groups;
};

}  // namespace plait::testing
