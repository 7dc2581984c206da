// Reads .npy files: arrays as numpy.save writes them (NumPy format versions 1.0, 2.0 and 3.0), from anywhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace plait::sim {

/// Up to three dimensions, C order. Which of the dtypes is accepted is the reader's choice.
template <class Value>
struct NpyArray {
    std::vector<uint64_t> shape;
    std::vector<Value> values;
};

/// Reads an array of u1, i2, i4 or i8 (little-endian, C order) of shape [R, T, K] or [T, K]. Values that do
/// not fit int32 are refused. Throws InputError with one line: file, what was found, what was expected.
NpyArray<int32_t> read_npy_integers(const std::filesystem::path& file);

/// Reads an array of f2 or f4, otherwise as above; only finite values.
NpyArray<float> read_npy_floats(const std::filesystem::path& file);

/// The same from bytes; `name` is for messages.
NpyArray<int32_t> parse_npy_integers(std::span<const uint8_t> bytes, const std::string& name);
NpyArray<float> parse_npy_floats(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace plait::sim
