#pragma once
// The one source of memory in firmware: a block given at start-up, handed out and never taken back.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <type_traits>

namespace plait::firmware {

/// A bump allocator over storage that the caller owns and keeps alive. The storage's front is skipped up to a
/// multiple of `alignment_bytes`.
class Arena {
  public:
    static constexpr std::size_t alignment_bytes = 64;

    explicit Arena(std::span<std::byte> storage) {
        const std::size_t skip = (0 - reinterpret_cast<std::uintptr_t>(storage.data())) % alignment_bytes;
        storage_ = storage.subspan(skip < storage.size() ? skip : storage.size());
    }

    /// `count` value-initialised objects, which live as long as the storage. An empty span when they do not
    /// fit: nothing is taken then, but required() counts them.
    template <class T>
    std::span<T> make(std::size_t count) {
        static_assert(std::is_trivially_destructible_v<T>, "nobody will destroy it");
        static_assert(alignof(T) <= alignment_bytes);
        require(count, sizeof(T), alignof(T));
        const std::size_t begin = aligned(used_, alignof(T));
        if (begin > storage_.size() || count > (storage_.size() - begin) / sizeof(T) || count == 0) return {};
        used_ = begin + count * sizeof(T);
        T* first = nullptr;
        for (std::size_t i = 0; i < count; ++i) {
            T* object = ::new (static_cast<void*>(storage_.data() + begin + i * sizeof(T))) T();
            if (i == 0) first = object;
        }
        return {first, count};
    }

    /// Like make(), but the bytes are left as they are and untouched: for large tables of plain data whose
    /// entries are written before they are read.
    template <class T>
    std::span<T> reserve(std::size_t count) {
        static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
        require(count, sizeof(T), alignof(T));
        const std::size_t begin = aligned(used_, alignof(T));
        if (begin > storage_.size() || count > (storage_.size() - begin) / sizeof(T) || count == 0) return {};
        used_ = begin + count * sizeof(T);
        return {reinterpret_cast<T*>(storage_.data() + begin), count};
    }

    /// Bytes not handed out yet.
    [[nodiscard]] std::size_t remaining() const { return storage_.size() - used_; }

    /// Bytes that all the make() calls so far need, fitting or not, in storage aligned to `alignment_bytes`:
    /// a run over an empty arena measures. The largest std::size_t when it is more than that.
    [[nodiscard]] std::size_t required() const { return required_; }

    /// Everything asked for was given.
    [[nodiscard]] bool complete() const { return required_ == used_; }

  private:
    static constexpr std::size_t aligned(std::size_t offset, std::size_t alignment) {
        return (offset + alignment - 1) / alignment * alignment;
    }

    void require(std::size_t count, std::size_t size, std::size_t alignment) {
        constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
        if (count == 0) return;
        const std::size_t begin = required_ < most - alignment ? aligned(required_, alignment) : most;
        required_ = count > (most - begin) / size ? most : begin + count * size;
    }

    std::span<std::byte> storage_;
    std::size_t used_ = 0;
    std::size_t required_ = 0;
};

}  // namespace plait::firmware
