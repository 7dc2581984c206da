#pragma once
// The host's side of a device of the mesh: its memory and the least driver that does.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <plait/regmap.hpp>

#include "host_memory.hpp"
#include "mesh.hpp"

namespace plait::mesh_test {

class MeshDriver : public HostMemory {
  public:
    MeshDriver(Mesh& mesh, std::uint32_t number) : HostMemory(number), mesh_(mesh) {}
    virtual ~MeshDriver() = default;
    MeshDriver(const MeshDriver&) = delete;
    MeshDriver& operator=(const MeshDriver&) = delete;

    void open() {
        using namespace regmap;
        admin_ring_ = allocate(64 * sizeof(AdminRequest));
        admin_completions_ = allocate(64 * sizeof(Completion));
        write_register(reg::admin_queue_low_offset, static_cast<std::uint32_t>(admin_ring_));
        write_register(reg::admin_completion_low_offset, static_cast<std::uint32_t>(admin_completions_));
        write_register(reg::admin_log2_entries_offset, 6);
        write_register(reg::qp_time_limit_us_offset, mesh_.options().qp_time_limit_us);
        write_register(reg::control_offset, reg::control_enable_mask);
    }

    regmap::Completion admin(regmap::AdminRequest request) {
        request.command_id = admin_count_ + 1;
        store(admin_ring_ + admin_count_ % 64 * sizeof(request), request);
        const std::uint64_t answer = admin_completions_ + admin_count_ % 64 * sizeof(regmap::Completion);
        const std::uint8_t phase = admin_count_ / 64 % 2 == 0 ? 1 : 0;
        ++admin_count_;
        doorbell(0, admin_count_);
        const bool answered =
            mesh_.run_until([&] { return load<regmap::Completion>(answer).phase == phase; }, 10'000'000);
        EXPECT_TRUE(answered) << "no answer to command " << static_cast<int>(request.opcode);
        return load<regmap::Completion>(answer);
    }

    void post(const regmap::EpRequest& request) {
        store(request_ring_ + requests_ % ring_entries * sizeof(request), request);
        doorbell(collective_queue, ++requests_);
    }

    /// The next completion of the collective queue, if it is there.
    std::optional<regmap::Completion> poll() {
        const auto completion = load<regmap::Completion>(completion_ring_ + completions_ % ring_entries *
                                                                                sizeof(regmap::Completion));
        if (completion.phase != (completions_ / ring_entries % 2 == 0 ? 1 : 0)) return std::nullopt;
        doorbell(completion_queue, ++completions_);
        return completion;
    }

    void make_queues() {
        request_ring_ = allocate(ring_entries * sizeof(regmap::EpRequest));
        completion_ring_ = allocate(ring_entries * sizeof(regmap::Completion));
        regmap::AdminRequest request;
        request.opcode = regmap::AdminOpcode::create_queue;
        request.log2_entries = 5;
        request.object = completion_queue;
        request.kind = regmap::QueueKind::completion;
        request.address = completion_ring_;
        EXPECT_EQ(admin(request).status, regmap::Status::ok);
        request.object = collective_queue;
        request.kind = regmap::QueueKind::collective;
        request.address = request_ring_;
        request.completion_queue = completion_queue;
        EXPECT_EQ(admin(request).status, regmap::Status::ok);
    }

    /// A key for all memory there is and will be.
    std::uint32_t register_memory() {
        regmap::AdminRequest request;
        request.opcode = regmap::AdminOpcode::register_memory;
        request.address = base;
        request.length = 1ULL << 32;
        request.access = 1;
        return admin(request).object;
    }

    static constexpr std::uint32_t completion_queue = 1;
    static constexpr std::uint32_t collective_queue = 2;
    static constexpr std::uint32_t ring_entries = 32;

  protected:
    virtual void write_register(std::uint32_t offset, std::uint32_t value) = 0;

    Mesh& mesh_;

  private:
    void doorbell(std::uint32_t queue, std::uint32_t value) {
        write_register(regmap::reg::doorbell_offset + queue * regmap::reg::doorbell_stride, value & 0xffff);
    }

    std::uint64_t admin_ring_ = 0;
    std::uint64_t admin_completions_ = 0;
    std::uint32_t admin_count_ = 0;
    std::uint64_t request_ring_ = 0;
    std::uint64_t completion_ring_ = 0;
    std::uint32_t requests_ = 0;
    std::uint32_t completions_ = 0;
};

}  // namespace plait::mesh_test
