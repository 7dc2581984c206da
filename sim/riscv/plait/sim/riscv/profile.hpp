// Where the instructions of an image go: by event, and by the calls that led there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <plait/sim/riscv/firmware_image.hpp>

namespace plait::sim {

/// Fed with every block that is executed; finds calls and returns by what blocks end with. The image outlives
/// it.
class Profile {
  public:
    /// Instructions of one function, however it was called.
    struct Row {
        std::string name;
        uint64_t calls = 0;
        uint64_t self = 0;
        uint64_t total = 0;  ///< With what it called; recursion counts once.
    };

    explicit Profile(const FirmwareImage& image);

    /// An event of this kind begins.
    void begin(const std::string& event);
    /// A block of `bytes` at `address` is executed: so many instructions.
    void block(uint64_t address, uint32_t bytes, uint64_t instructions);

    /// A line each: `event;function;...;function instructions`, as flame-graph tools read it.
    std::string folded() const;
    /// In order of total instructions, each with how often it came.
    std::vector<Row> events() const;
    /// In order of self instructions.
    std::vector<Row> functions() const;

  private:
    enum class Jump : uint8_t { other, call, leave };
    struct Node {
        uint32_t function = 0;  // of roots: of events_
        uint32_t parent = 0;
        uint64_t calls = 0;
        uint64_t self = 0;
        std::map<uint32_t, uint32_t> children;  // by function
    };
    static constexpr uint32_t no_node = 0;

    uint32_t child(uint32_t parent, uint32_t function);
    uint32_t function_of(uint64_t address) const;
    Jump last_jump(uint64_t address, uint32_t bytes) const;
    void leave(uint32_t function);
    uint64_t add_totals(uint32_t node, std::vector<bool>& above, std::vector<Row>& rows) const;
    void fold(uint32_t node, const std::string& path, std::string& text) const;

    const FirmwareImage& image_;
    std::vector<uint32_t> function_at_;  // by half word: index of the function, and one for all else
    std::vector<Node> nodes_;            // the first one is above the events
    std::map<std::string, uint32_t> events_;
    uint32_t now_ = no_node;
    uint32_t root_ = no_node;
    Jump before_ = Jump::call;
};

}  // namespace plait::sim
