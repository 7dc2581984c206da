#include <plait/sim/app/npy.hpp>

#include <random>

#include "app_test.hpp"

namespace plait::sim {
namespace {

using test::npy;
using test::raw;
using test::refusal;

std::span<const uint8_t> bytes_of(const std::string& text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

NpyArray<int32_t> integers(const std::string& file) { return parse_npy_integers(bytes_of(file), "a.npy"); }
NpyArray<float> floats(const std::string& file) { return parse_npy_floats(bytes_of(file), "a.npy"); }

TEST(Npy, ReadsEveryIntegerType) {
    const std::vector<int32_t> expected{0, 1, 2, 3, 100, 127};
    EXPECT_EQ(integers(npy("|u1", "2, 3", raw(std::vector<uint8_t>{0, 1, 2, 3, 100, 127}))).values, expected);
    EXPECT_EQ(integers(npy("<i2", "2, 3", raw(std::vector<int16_t>{0, 1, 2, 3, 100, 127}))).values, expected);
    EXPECT_EQ(integers(npy("<i4", "2, 3", raw(std::vector<int32_t>{0, 1, 2, 3, 100, 127}))).values, expected);
    EXPECT_EQ(integers(npy("<i8", "2, 3", raw(std::vector<int64_t>{0, 1, 2, 3, 100, 127}))).values, expected);
    EXPECT_EQ(integers(npy("<i2", "1, 2, 2", raw(std::vector<int16_t>{-1, 32767, -32768, 5}))).values,
              (std::vector<int32_t>{-1, 32767, -32768, 5}));
    EXPECT_EQ(integers(npy("|u1", "1, 1", "\xff")).values, (std::vector<int32_t>{255}));
}

TEST(Npy, ReadsShapes) {
    EXPECT_EQ(integers(npy("|u1", "1, 2, 3", "abcdef")).shape, (std::vector<uint64_t>{1, 2, 3}));
    EXPECT_EQ(integers(npy("|u1", "3, 2", "abcdef")).shape, (std::vector<uint64_t>{3, 2}));
    EXPECT_EQ(integers(npy("|u1", "3, 2,", "abcdef")).shape, (std::vector<uint64_t>{3, 2}));
}

TEST(Npy, ReadsHalvesByTheStandard) {
    // IEEE 754 binary16: 1, -2, 65504 (largest), 2^-14 (smallest normal), 2^-24 (smallest), 0.1 rounded.
    const auto array = floats(
        npy("<f2", "2, 3", raw(std::vector<uint16_t>{0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x2e66})));
    EXPECT_EQ(array.values,
              (std::vector<float>{1.0F, -2.0F, 65504.0F, 0x1p-14F, 0x1p-24F, 0.0999755859375F}));
    EXPECT_EQ(floats(npy("<f4", "1, 2", raw(std::vector<float>{0.1F, -3.5F}))).values,
              (std::vector<float>{0.1F, -3.5F}));
}

TEST(Npy, ReadsVersionTwo) {
    std::string file = npy("|u1", "1, 2", "ab");
    file[6] = 2;
    file.insert(10, 2, '\0');
    EXPECT_EQ(integers(file).values, (std::vector<int32_t>{'a', 'b'}));
}

TEST(Npy, RefusesWhatItDoesNotTake) {
    const auto refused = [](const std::string& file) { return refusal([&] { (void)integers(file); }); };
    EXPECT_EQ(refused(npy("<f4", "1, 2", raw(std::vector<float>{1, 2}))),
              "a.npy: found dtype \"<f4\", expected dtype u1, i2, i4 or i8, little-endian");
    EXPECT_EQ(refused(npy(">i2", "1, 1", "ab")),
              "a.npy: found dtype \">i2\", expected dtype u1, i2, i4 or i8, little-endian");
    EXPECT_EQ(refused(npy("|O", "1, 1", "ab")),
              "a.npy: found dtype \"|O\", expected dtype u1, i2, i4 or i8, little-endian");
    EXPECT_EQ(refused(npy("|u1", "2", "ab")), "a.npy: found shape [2], expected shape [R, T, K] or [T, K]");
    EXPECT_EQ(refused(npy("|u1", "", "a")), "a.npy: found shape [], expected shape [R, T, K] or [T, K]");
    EXPECT_EQ(refused(npy("|u1", "1, 1, 1, 1", "a")),
              "a.npy: found shape [1, 1, 1, 1], expected shape [R, T, K] or [T, K]");
    EXPECT_EQ(refused(npy("|u1", "0, 3", "")), "a.npy: found shape [0, 3], expected no dimension of 0");
    EXPECT_EQ(refused(npy("|u1", "2, 2", "abc")),
              "a.npy: found 3 bytes of data, expected 4 for shape [2, 2] of |u1");
    EXPECT_EQ(refused(npy("|u1", "2, 2", "abcde")),
              "a.npy: found 5 bytes of data, expected 4 for shape [2, 2] of |u1");
    EXPECT_EQ(refused(npy("|u1", "4294967296, 4294967296", "a")),
              "a.npy: found shape [4294967296, 4294967296], expected at most 2^32 elements");
    EXPECT_EQ(refused(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 1), }", "a")),
              "a.npy: found Fortran order, expected C order");
    EXPECT_EQ(refused(npy("{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (1, 1), }", "a")),
              "a.npy: found a structured dtype, expected numbers");
    EXPECT_EQ(refused(npy("{'descr': '|u1', 'fortran_order': False, }", "a")),
              "a.npy: found an incomplete header, expected descr, fortran_order and shape");
    EXPECT_EQ(refused(npy("{'descr': '|u1', 'descr': '|u1', }", "a")),
              "a.npy: found header key \"descr\", expected descr, fortran_order and shape, once each");
    EXPECT_EQ(refused(npy("<i8", "1, 1", raw(std::vector<int64_t>{1LL << 40}))),
              "a.npy: found 1099511627776 at element 0, expected an expert id");
    EXPECT_EQ(refused("PK\x03\x04"),
              "a.npy: found no .npy magic, expected an .npy file as numpy.save writes it");
    std::string version = npy("|u1", "1, 1", "a");
    version[6] = 9;
    EXPECT_EQ(refused(version), "a.npy: found .npy version 9.0, expected 1.0, 2.0 or 3.0");
    EXPECT_EQ(refusal([] { (void)floats(npy("<f2", "1, 1", raw(std::vector<uint16_t>{0x7c00}))); }),
              "a.npy: found inf at element 0, expected finite weights");
    EXPECT_EQ(refusal([] { (void)read_npy_integers("/no/such/file.npy"); }),
              "/no/such/file.npy: found no such file, expected an .npy file");
}

TEST(Npy, RefusesEveryTruncation) {
    const std::string file = npy("<i2", "2, 3", raw(std::vector<int16_t>{1, 2, 3, 4, 5, 6}));
    for (size_t length = 0; length < file.size(); ++length) {
        SCOPED_TRACE(length);
        EXPECT_FALSE(refusal([&] { (void)integers(file.substr(0, length)); }).empty());
    }
}

TEST(Npy, SurvivesDamage) {
    const uint64_t seed = test::seed_of_run();
    SCOPED_TRACE("PLAIT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::string good = npy("<i2", "2, 3", raw(std::vector<int16_t>{1, 2, 3, 4, 5, 6}));
    size_t refusals = 0;
    for (int round = 0; round < 20000; ++round) {
        std::string file = good;
        for (uint64_t damages = random() % 4 + 1; damages > 0; --damages) {
            const size_t at = random() % file.size();
            switch (random() % 3) {
                case 0: file[at] = static_cast<char>(random()); break;
                case 1: file.erase(at, random() % 8); break;
                default: file.insert(at, random() % 8, static_cast<char>(random())); break;
            }
            if (file.empty()) file.push_back('?');
        }
        try {
            const auto array = integers(file);
            uint64_t elements = 1;
            for (const uint64_t extent : array.shape) elements *= extent;
            ASSERT_EQ(array.values.size(), elements);
        } catch (const InputError& error) {
            ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos);
            ++refusals;
        }
    }
    EXPECT_GT(refusals, 1000U);
}

}  // namespace
}  // namespace plait::sim
