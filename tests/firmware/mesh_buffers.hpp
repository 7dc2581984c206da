#pragma once
// Packet memory of the test HAL.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <plait/firmware/commands.hpp>
#include <vector>

namespace plait::mesh_test {

using firmware::BufferId;

/// Buffers with references.
class MeshBuffers {
  public:
    /// With one reference.
    BufferId make(const std::vector<std::uint8_t>& data) {
        buffers_[next_] = {data, 1};
        bytes_ += data.size();
        high_water_ = std::max(high_water_, bytes_);
        return next_++;
    }
    void retain(BufferId buffer) { ++buffers_.at(buffer).references; }
    void release(BufferId buffer) {
        const auto found = buffers_.find(buffer);
        ASSERT_NE(found, buffers_.end()) << "release of a buffer that is gone";
        if (--found->second.references != 0) return;
        bytes_ -= found->second.data.size();
        buffers_.erase(found);
    }
    [[nodiscard]] const std::vector<std::uint8_t>& data(BufferId buffer) const {
        return buffers_.at(buffer).data;
    }

    [[nodiscard]] std::size_t live() const { return buffers_.size(); }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t high_water() const { return high_water_; }

  private:
    struct Buffer {
        std::vector<std::uint8_t> data;
        std::uint32_t references = 0;
    };
    std::map<BufferId, Buffer> buffers_;
    BufferId next_ = 1;
    std::uint64_t bytes_ = 0;
    std::uint64_t high_water_ = 0;
};

}  // namespace plait::mesh_test
