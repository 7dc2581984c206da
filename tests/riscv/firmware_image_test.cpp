#include <plait/sim/riscv/firmware_image.hpp>

#include <elf.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include <plait/port/image.hpp>

namespace plait::sim {
namespace {

using Bytes = std::vector<char>;

std::filesystem::path image_file(const char* name) {
    return std::filesystem::path(PLAIT_IMAGES) / (std::string(name) + ".elf");
}

Bytes bytes_of(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

class Refused : public testing::Test {
  protected:
    Refused() : bytes_(bytes_of(image_file("riscv-Os"))) {}

    template <class T>
    T& at(size_t offset) {
        return *reinterpret_cast<T*>(bytes_.data() + offset);
    }
    Elf64_Phdr& code_segment() { return at<Elf64_Phdr>(at<Elf64_Ehdr>(0).e_phoff); }
    regmap::FirmwareImage& header() { return at<regmap::FirmwareImage>(code_segment().p_offset); }

    // What the refusal says of the image as it is now. Other tests of this program run beside.
    std::string refusal() {
        const auto file =
            std::filesystem::path(testing::TempDir()) / ("refused-" + std::to_string(getpid()) + ".elf");
        std::ofstream(file, std::ios::binary)
            .write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
        std::string said;
        try {
            FirmwareImage::load(file);
        } catch (const ImageError& error) {
            said = error.what();
            EXPECT_EQ(said.rfind(file.string() + ": ", 0), 0U) << said;
            EXPECT_EQ(said.find('\n'), std::string::npos) << said;
        }
        std::filesystem::remove(file);
        return said;
    }
    void expect_refusal(const char* words) {
        const std::string said = refusal();
        EXPECT_NE(said.find(words), std::string::npos) << said;
    }

    Bytes bytes_;
};

TEST_F(Refused, NothingWhenItIsGood) { EXPECT_EQ(refusal(), ""); }

TEST_F(Refused, NoElfFile) {
    bytes_.assign({'h', 'e', 'l', 'l', 'o'});
    expect_refusal("no RV64 ELF program");
}

TEST_F(Refused, AnotherMachine) {
    at<Elf64_Ehdr>(0).e_machine = EM_X86_64;
    expect_refusal("no RV64 ELF program");
}

TEST_F(Refused, ThirtyTwoBits) {
    at<Elf64_Ehdr>(0).e_ident[EI_CLASS] = ELFCLASS32;
    expect_refusal("no RV64 ELF program");
}

TEST_F(Refused, AnObjectFile) {
    at<Elf64_Ehdr>(0).e_type = ET_REL;
    expect_refusal("no RV64 ELF program");
}

TEST_F(Refused, AnotherRegisterMap) {
    header().regmap_version ^= 1;
    expect_refusal("register map");
}

TEST_F(Refused, AnotherLayout) {
    ++header().packet_bytes;
    expect_refusal("laid out in another way");
}

TEST_F(Refused, NoHeader) {
    header().magic = 0;
    expect_refusal("no firmware image");
}

TEST_F(Refused, TooLarge) {
    code_segment().p_memsz = regmap::max_firmware_bytes + 1;
    expect_refusal("expected at most so many");
}

TEST_F(Refused, ASegmentBehindTheEnd) {
    code_segment().p_offset = bytes_.size() / 4096 * 4096;
    expect_refusal("outside the file");
}

TEST_F(Refused, AnEntryOutsideTheCode) {
    at<Elf64_Ehdr>(0).e_entry = 0x1000;
    expect_refusal("no code at its entry");
}

TEST_F(Refused, CutAnywhere) {
    const Bytes whole = bytes_;
    for (size_t length = 0; length < whole.size(); length += 997) {
        bytes_.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_NE(refusal(), "") << length;
    }
}

// Bytes turned one way or the other: refused or not, nothing happens but that.
TEST_F(Refused, OrTakenWhateverItsHeadersSay) {
    const Bytes whole = bytes_;
    const size_t headers = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
    for (size_t i = 0; i < headers; ++i) {
        for (const char value : {char{0}, char{0x7f}, char{-1}}) {
            bytes_ = whole;
            bytes_[i] = value;
            (void)refusal();
        }
    }
}

TEST(FirmwareImage, NamesFunctions) {
    const FirmwareImage image = FirmwareImage::load(image_file("riscv-O2"));
    ASSERT_NE(image.function_at(image.entry()), nullptr);
    EXPECT_EQ(image.function_at(image.entry())->name, "_start");
    EXPECT_EQ(image.symbolise(image.entry() + 4), "_start+0x4");
    EXPECT_EQ(image.symbolise(0x10), "0x10");
    const auto& functions = image.functions();
    EXPECT_TRUE(std::any_of(functions.begin(), functions.end(), [](const FirmwareImage::Function& function) {
        return function.name == "firmware::Transport::pump";
    }));
}

// What grows the images must say so here and in docs/firmware.md.
TEST(FirmwareImage, KeepsItsBudget) {
    const auto size = [](const char* name) {
        const FirmwareImage image = FirmwareImage::load(image_file(name));
        size_t bytes = 0;
        for (const auto& segment : image.segments()) bytes += segment.bytes.size();
        return bytes;
    };
    EXPECT_LE(size("riscv-Os"), 72U << 10);
    EXPECT_LE(size("riscv-O2"), 112U << 10);
}

}  // namespace
}  // namespace plait::sim
