// What the compiler calls for copies and fills.
#include <array>
#include <cstddef>
#include <cstdint>

namespace {
// Every six bits of it in a row are different.
constexpr std::uint64_t de_bruijn = 0x03f7'9d71'b4cb'0a89;
}  // namespace

extern "C" {

void* memcpy(void* to, const void* from, std::size_t bytes) {
    auto* out = static_cast<std::uint8_t*>(to);
    const auto* in = static_cast<const std::uint8_t*>(from);
    if (((reinterpret_cast<std::uintptr_t>(out) | reinterpret_cast<std::uintptr_t>(in)) & 7U) == 0) {
        for (; bytes >= 32; bytes -= 32, out += 32, in += 32) {
            const auto* const words = reinterpret_cast<const std::uint64_t*>(in);
            const std::uint64_t a = words[0];
            const std::uint64_t b = words[1];
            const std::uint64_t c = words[2];
            const std::uint64_t d = words[3];
            auto* const to_words = reinterpret_cast<std::uint64_t*>(out);
            to_words[0] = a;
            to_words[1] = b;
            to_words[2] = c;
            to_words[3] = d;
        }
        for (; bytes >= 8; bytes -= 8, out += 8, in += 8)
            *reinterpret_cast<std::uint64_t*>(out) = *reinterpret_cast<const std::uint64_t*>(in);
    } else if (((reinterpret_cast<std::uintptr_t>(out) | reinterpret_cast<std::uintptr_t>(in)) & 3U) == 0) {
        for (; bytes >= 4; bytes -= 4, out += 4, in += 4)
            *reinterpret_cast<std::uint32_t*>(out) = *reinterpret_cast<const std::uint32_t*>(in);
    }
    for (; bytes != 0; --bytes) *out++ = *in++;
    return to;
}

void* memmove(void* to, const void* from, std::size_t bytes) {
    auto* out = static_cast<std::uint8_t*>(to);
    const auto* in = static_cast<const std::uint8_t*>(from);
    if (out <= in || out >= in + bytes) return memcpy(to, from, bytes);
    while (bytes-- != 0) out[bytes] = in[bytes];
    return to;
}

void* memset(void* to, int value, std::size_t bytes) {
    auto* out = static_cast<std::uint8_t*>(to);
    const auto byte = static_cast<std::uint8_t>(value);
    for (; bytes != 0 && (reinterpret_cast<std::uintptr_t>(out) & 7U) != 0; --bytes) *out++ = byte;
    const std::uint64_t eight = byte * 0x0101'0101'0101'0101U;
    for (; bytes >= 8; bytes -= 8, out += 8) *reinterpret_cast<std::uint64_t*>(out) = eight;
    for (; bytes != 0; --bytes) *out++ = byte;
    return to;
}

int memcmp(const void* left, const void* right, std::size_t bytes) {
    const auto* a = static_cast<const std::uint8_t*>(left);
    const auto* b = static_cast<const std::uint8_t*>(right);
    for (; bytes != 0; --bytes, ++a, ++b)
        if (*a != *b) return *a - *b;
    return 0;
}

// RV64GC counts no bits; libgcc's are several times as long.

int __ctzdi2(unsigned long value) {
    static constexpr std::array<std::uint8_t, 64> place = [] {
        std::array<std::uint8_t, 64> table{};
        for (std::uint8_t bit = 0; bit < 64; ++bit) table[(de_bruijn << bit) >> 58] = bit;
        return table;
    }();
    return place[((value & (0 - value)) * de_bruijn) >> 58];
}

int __popcountdi2(unsigned long value) {
    value -= value >> 1 & 0x5555'5555'5555'5555;
    value = (value & 0x3333'3333'3333'3333) + (value >> 2 & 0x3333'3333'3333'3333);
    value = (value + (value >> 4)) & 0x0f0f'0f0f'0f0f'0f0f;
    return static_cast<int>((value * 0x0101'0101'0101'0101) >> 56);
}
}
