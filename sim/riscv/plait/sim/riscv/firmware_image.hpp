// A firmware image: a bare-metal RISC-V ELF file, its functions, and how many instructions a piece of it has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace plait::sim {

/// An image that cannot be run. what() is one line: file, what was found, what was expected.
class ImageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class FirmwareImage {
  public:
    struct Segment {
        uint64_t address = 0;
        std::vector<uint8_t> bytes;
        bool executable = false;
    };
    struct Function {
        uint64_t address = 0;
        uint64_t size = 0;
        std::string name;  ///< Demangled, without parameters and return type.
    };

    /// Throws ImageError: no RV64 ELF program, too large, or built from another register map.
    static FirmwareImage load(const std::filesystem::path& file);

    const std::filesystem::path& file() const { return file_; }
    uint64_t entry() const { return entry_; }
    /// Where a core without events sleeps: `plait_wait`.
    uint64_t wait() const { return wait_; }
    std::span<const Segment> segments() const { return segments_; }
    const Segment& code() const { return segments_[code_]; }

    /// In order of addresses.
    std::span<const Function> functions() const { return functions_; }
    /// Null where there is none.
    const Function* function_at(uint64_t address) const;
    /// `function+0x12`; the bare address where there is no function.
    std::string symbolise(uint64_t address) const;

    /// For each half word of the code, how many instructions begin before it; one entry more at the end.
    std::span<const uint32_t> instructions_before() const { return instructions_before_; }
    /// The same without the functions that stand for what engines do by themselves.
    std::span<const uint32_t> firmware_instructions_before() const { return firmware_before_; }

  private:
    void read(const std::vector<uint8_t>& bytes);
    void read_segments(const std::vector<uint8_t>& bytes);
    void read_symbols(const std::vector<uint8_t>& bytes);
    void check_header() const;
    void count_instructions();
    [[noreturn]] void refuse(const std::string& found_and_expected) const;

    std::filesystem::path file_;
    uint64_t entry_ = 0;
    uint64_t wait_ = 0;
    std::vector<Segment> segments_;
    size_t code_ = 0;
    std::vector<Function> functions_;
    std::vector<uint32_t> instructions_before_;
    std::vector<uint32_t> firmware_before_;
};

}  // namespace plait::sim
