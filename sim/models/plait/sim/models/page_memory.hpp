// Memory by pages.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <span>

namespace plait::sim {

inline constexpr size_t page_bytes = 4096;

/// So many bytes, up to a whole number of pages.
constexpr size_t whole_pages(size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

/// Zeroed pages; those that nobody touches cost nothing.
class PageMemory {
  public:
    /// Throws std::bad_alloc when the system has no address space left.
    explicit PageMemory(size_t length_bytes)
        : length_bytes_(length_bytes),
          bytes_(mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (bytes_ == MAP_FAILED) {
            throw std::bad_alloc();
        }
    }
    ~PageMemory() { munmap(bytes_, length_bytes_); }
    PageMemory(const PageMemory&) = delete;
    PageMemory& operator=(const PageMemory&) = delete;

    std::span<std::byte> span() { return {static_cast<std::byte*>(bytes_), length_bytes_}; }

  private:
    size_t length_bytes_;
    void* bytes_;
};

}  // namespace plait::sim
