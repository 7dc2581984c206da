#include <plait/sim/app/npy.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include <plait/sim/app/scenario.hpp>

namespace plait::sim {
namespace {

constexpr uint64_t most_file_bytes = 4ULL << 30;
constexpr std::string_view integer_dtypes = "dtype u1, i2, i4 or i8, little-endian";
constexpr std::string_view float_dtypes = "dtype f2 or f4, little-endian";

struct Header {
    std::string dtype;
    std::vector<uint64_t> shape;
    size_t data_offset = 0;
    uint64_t elements = 1;
};

[[noreturn]] void refuse(const std::string& file, const std::string& found, std::string_view expected) {
    throw InputError(fmt::format("{}: found {}, expected {}", file, found, expected));
}

std::string printable(std::string_view text) {
    std::string shown;
    for (const char letter : text.substr(0, 60)) shown += letter >= ' ' && letter <= '~' ? letter : '?';
    return '"' + shown + '"';
}

// The header is a Python dictionary literal; of Python only what numpy writes is understood.
class DictionaryParser {
  public:
    DictionaryParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

    Header parse() {
        Header header;
        bool seen_dtype = false, seen_order = false, seen_shape = false;
        need('{');
        while (!accept('}')) {
            const std::string key = quoted();
            need(':');
            if (key == "descr" && !seen_dtype) {
                header.dtype = dtype();
                seen_dtype = true;
            } else if (key == "fortran_order" && !seen_order) {
                c_order();
                seen_order = true;
            } else if (key == "shape" && !seen_shape) {
                header.shape = shape();
                seen_shape = true;
            } else {
                refuse(file_, "header key " + printable(key), "descr, fortran_order and shape, once each");
            }
            if (!accept(',')) {
                need('}');
                break;
            }
        }
        skip_spaces();
        if (at_ != text_.size()) refuse(file_, "more after the header's dictionary", "spaces and a newline");
        if (!seen_dtype || !seen_order || !seen_shape)
            refuse(file_, "an incomplete header", "descr, fortran_order and shape");
        return header;
    }

  private:
    void skip_spaces() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    }
    bool accept(char letter) {
        skip_spaces();
        if (at_ >= text_.size() || text_[at_] != letter) return false;
        ++at_;
        return true;
    }
    void need(char letter) {
        if (!accept(letter)) {
            refuse(file_, "header " + printable(text_.substr(std::min(at_, text_.size()))),
                   fmt::format("'{}' there", letter));
        }
    }
    std::string quoted() {
        skip_spaces();
        if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) need('\'');
        const char quote = text_[at_++];
        const size_t end = text_.find(quote, at_);
        if (end == std::string_view::npos)
            refuse(file_, "an unfinished text in the header", "its closing quote");
        std::string result(text_.substr(at_, end - at_));
        at_ = end + 1;
        return result;
    }
    std::string dtype() {
        skip_spaces();
        if (at_ < text_.size() && text_[at_] == '[') refuse(file_, "a structured dtype", "numbers");
        return quoted();
    }
    void c_order() {
        skip_spaces();
        for (const std::string_view word : {"False", "True"}) {
            if (text_.substr(at_).starts_with(word)) {
                if (word == "True") refuse(file_, "Fortran order", "C order");
                at_ += word.size();
                return;
            }
        }
        refuse(file_, "fortran_order " + printable(text_.substr(at_)), "False");
    }
    std::vector<uint64_t> shape() {
        std::vector<uint64_t> result;
        need('(');
        while (!accept(')')) {
            result.push_back(number());
            if (result.size() > 32) refuse(file_, "more than 32 dimensions", "shape [R, T, K] or [T, K]");
            if (!accept(',')) {
                need(')');
                break;
            }
        }
        return result;
    }
    uint64_t number() {
        skip_spaces();
        uint64_t value = 0;
        const size_t first = at_;
        for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
            if (at_ - first >= 18)
                refuse(file_, "a dimension of more than 18 digits", "one that fits the file");
            value = value * 10 + static_cast<uint64_t>(text_[at_] - '0');
        }
        if (at_ == first) refuse(file_, "shape " + printable(text_.substr(at_)), "a number there");
        return value;
    }

    std::string_view text_;
    const std::string& file_;
    size_t at_ = 0;
};

std::string show(const std::vector<uint64_t>& shape) {
    std::string shown = "[";
    for (size_t i = 0; i < shape.size(); ++i) shown += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    return shown + "]";
}

Header parse_header(std::span<const uint8_t> bytes, const std::string& file) {
    constexpr std::string_view magic("\x93NUMPY", 6);
    const auto too_short = [&] {
        refuse(file, fmt::format("{} bytes, cut off in the header", bytes.size()), "an .npy file");
    };
    if (bytes.size() < magic.size() || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0) {
        refuse(file, "no .npy magic", "an .npy file as numpy.save writes it");
    }
    if (bytes.size() < 8) too_short();
    const uint8_t major = bytes[6];
    if (major < 1 || major > 3 || bytes[7] != 0) {
        refuse(file, fmt::format(".npy version {}.{}", major, bytes[7]), "1.0, 2.0 or 3.0");
    }
    const size_t length_bytes = major == 1 ? 2 : 4;
    if (bytes.size() < 8 + length_bytes) too_short();
    size_t length = 0;
    for (size_t i = 0; i < length_bytes; ++i) length |= static_cast<size_t>(bytes[8 + i]) << (8 * i);
    constexpr size_t longest = 65536;
    if (length > longest)
        refuse(file, fmt::format("a header of {} bytes", length), fmt::format("at most {}", longest));
    if (bytes.size() < 8 + length_bytes + length) too_short();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8 + length_bytes, length);
    Header header = DictionaryParser(text, file).parse();
    header.data_offset = 8 + length_bytes + length;
    return header;
}

// Checks the shape and that the data are there, exactly.
void check_data(Header& header, size_t element_bytes, size_t file_bytes, const std::string& file) {
    if (header.shape.size() != 2 && header.shape.size() != 3) {
        refuse(file, "shape " + show(header.shape), "shape [R, T, K] or [T, K]");
    }
    for (const uint64_t extent : header.shape) {
        if (extent == 0) refuse(file, "shape " + show(header.shape), "no dimension of 0");
        if (header.elements > most_file_bytes / extent)
            refuse(file, "shape " + show(header.shape), "at most 2^32 elements");
        header.elements *= extent;
    }
    const uint64_t data_bytes = file_bytes - header.data_offset;
    if (data_bytes != header.elements * element_bytes) {
        refuse(file, fmt::format("{} bytes of data", data_bytes),
               fmt::format("{} for shape {} of {}", header.elements * element_bytes, show(header.shape),
                           header.dtype));
    }
}

template <class Raw>
Raw load(const uint8_t* bytes) {
    std::make_unsigned_t<Raw> value = 0;
    for (size_t i = 0; i < sizeof(Raw); ++i) {
        value = static_cast<std::make_unsigned_t<Raw>>(
            value | static_cast<std::make_unsigned_t<Raw>>(bytes[i]) << (8 * i));
    }
    return static_cast<Raw>(value);
}

// IEEE 754 binary16.
float half_to_float(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 0x3ff;
    float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                    : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    if (exponent == 31)
        magnitude =
            fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <class Value, class Convert>
NpyArray<Value> convert(Header header, size_t element_bytes, std::span<const uint8_t> bytes,
                        const std::string& file, Convert convert_one) {
    check_data(header, element_bytes, bytes.size(), file);
    NpyArray<Value> array{std::move(header.shape), std::vector<Value>(header.elements)};
    const uint8_t* data = bytes.data() + header.data_offset;
    for (uint64_t i = 0; i < header.elements; ++i) array.values[i] = convert_one(data + i * element_bytes, i);
    return array;
}

std::vector<uint8_t> read_file(const std::filesystem::path& path) {
    const std::string file = path.string();
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) refuse(file, "no such file", "an .npy file");
    const auto size = std::filesystem::file_size(path, error);
    if (error || size > most_file_bytes)
        refuse(file, fmt::format("{} bytes", size), fmt::format("at most {}", most_file_bytes));
    std::vector<uint8_t> bytes(size);
    std::ifstream stream(path, std::ios::binary);
    stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (!stream) throw InputError(fmt::format("{}: cannot be read", file));
    return bytes;
}

}  // namespace

NpyArray<int32_t> parse_npy_integers(std::span<const uint8_t> bytes, const std::string& name) {
    Header header = parse_header(bytes, name);
    const std::string dtype = header.dtype;
    if (dtype == "|u1" || dtype == "<u1") {
        return convert<int32_t>(std::move(header), 1, bytes, name,
                                [](const uint8_t* at, uint64_t) { return int32_t{*at}; });
    }
    if (dtype == "<i2") {
        return convert<int32_t>(std::move(header), 2, bytes, name,
                                [](const uint8_t* at, uint64_t) { return int32_t{load<int16_t>(at)}; });
    }
    if (dtype == "<i4") {
        return convert<int32_t>(std::move(header), 4, bytes, name,
                                [](const uint8_t* at, uint64_t) { return load<int32_t>(at); });
    }
    if (dtype == "<i8") {
        return convert<int32_t>(std::move(header), 8, bytes, name, [&](const uint8_t* at, uint64_t i) {
            const auto value = load<int64_t>(at);
            if (value != static_cast<int32_t>(value))
                refuse(name, fmt::format("{} at element {}", value, i), "an expert id");
            return static_cast<int32_t>(value);
        });
    }
    refuse(name, "dtype " + printable(dtype), integer_dtypes);
}

NpyArray<float> parse_npy_floats(std::span<const uint8_t> bytes, const std::string& name) {
    Header header = parse_header(bytes, name);
    const std::string dtype = header.dtype;
    const auto finite = [&](float value, uint64_t i) {
        if (!std::isfinite(value)) refuse(name, fmt::format("{} at element {}", value, i), "finite weights");
        return value;
    };
    if (dtype == "<f2") {
        return convert<float>(std::move(header), 2, bytes, name, [&](const uint8_t* at, uint64_t i) {
            return finite(half_to_float(static_cast<uint16_t>(load<int16_t>(at))), i);
        });
    }
    if (dtype == "<f4") {
        return convert<float>(std::move(header), 4, bytes, name, [&](const uint8_t* at, uint64_t i) {
            return finite(std::bit_cast<float>(load<int32_t>(at)), i);
        });
    }
    refuse(name, "dtype " + printable(dtype), float_dtypes);
}

NpyArray<int32_t> read_npy_integers(const std::filesystem::path& file) {
    return parse_npy_integers(read_file(file), file.string());
}

NpyArray<float> read_npy_floats(const std::filesystem::path& file) {
    return parse_npy_floats(read_file(file), file.string());
}

}  // namespace plait::sim
