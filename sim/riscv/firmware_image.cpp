#include <plait/sim/riscv/firmware_image.hpp>

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include <plait/port/image.hpp>

namespace plait::sim {
namespace {

// `plait::firmware::Transport<...>::on_ack`: what tells a reader which function it is.
std::string readable(const char* symbol) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
    if (status != 0) return symbol;
    constexpr std::string_view unnamed = "(anonymous namespace)::";
    std::string name;
    unsigned depth = 0;
    for (const char* at = text.get(); *at != '\0'; ++at) {
        if (std::string_view(at).starts_with(unnamed)) at += unnamed.size();
        if (*at == '<' && depth++ == 0) continue;
        if (*at == '>' && --depth == 0) continue;
        if (depth != 0) continue;
        if (*at == '(' || *at == '[') break;
        if (*at == ' ') name.clear();  // that was the type of its result
        else name += *at;
    }
    constexpr std::string_view space = "plait::";
    return name.starts_with(space) ? name.substr(space.size()) : name;
}

bool is_long(const std::vector<uint8_t>& code, size_t at) { return (code[at] & 3U) == 3; }

}  // namespace

FirmwareImage FirmwareImage::load(const std::filesystem::path& file) {
    FirmwareImage image;
    image.file_ = file;
    std::ifstream stream(file, std::ios::binary);
    if (!stream) image.refuse("cannot be read, expected a firmware image");
    constexpr uintmax_t most_bytes = 64 << 20;
    std::error_code error;
    if (const auto size = std::filesystem::file_size(file, error); error || size > most_bytes)
        image.refuse("no firmware image: no file, or one of more than 64 MiB");
    image.read({std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()});
    return image;
}

void FirmwareImage::refuse(const std::string& found_and_expected) const {
    throw ImageError(fmt::format("{}: {}", file_.string(), found_and_expected));
}

void FirmwareImage::read(const std::vector<uint8_t>& bytes) {
    Elf64_Ehdr header{};
    if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_RISCV || header.e_type != ET_EXEC)
        refuse("found no RV64 ELF program, expected a firmware image");
    entry_ = header.e_entry;
    read_segments(bytes);
    check_header();
    read_symbols(bytes);
    count_instructions();
}

void FirmwareImage::read_segments(const std::vector<uint8_t>& bytes) {
    Elf64_Ehdr header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    uint64_t total = 0;
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        const uint64_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
        if (header.e_phentsize != sizeof(Elf64_Phdr) || at > bytes.size() ||
            bytes.size() - at < sizeof(Elf64_Phdr))
            refuse("found program headers outside the file");
        Elf64_Phdr segment{};
        std::memcpy(&segment, bytes.data() + at, sizeof segment);
        if (segment.p_type != PT_LOAD || segment.p_memsz == 0) continue;
        if (segment.p_offset > bytes.size() || segment.p_filesz > bytes.size() - segment.p_offset ||
            segment.p_memsz < segment.p_filesz || segment.p_vaddr % 4096 != 0)
            refuse("found a segment outside the file or not at a page");
        total += std::min<uint64_t>(segment.p_memsz, 1ULL << 32);
        if (total > regmap::max_firmware_bytes)
            refuse(fmt::format("found more than {} bytes of code and constants, expected at most so many",
                               regmap::max_firmware_bytes));
        const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(segment.p_offset);
        Segment loaded{segment.p_vaddr,
                       {from, from + static_cast<std::ptrdiff_t>(segment.p_filesz)},
                       (segment.p_flags & PF_X) != 0};
        loaded.bytes.resize(segment.p_memsz);
        if (loaded.executable) code_ = segments_.size();
        segments_.push_back(std::move(loaded));
    }
    const bool has_entry = !segments_.empty() && code().executable && entry_ >= code().address &&
                           entry_ - code().address < code().bytes.size();
    if (!has_entry) refuse("found no code at its entry, expected a firmware image");
}

void FirmwareImage::check_header() const {
    regmap::FirmwareImage found;
    if (code().bytes.size() >= sizeof found) std::memcpy(&found, code().bytes.data(), sizeof found);
    if (found.magic != regmap::firmware_magic)
        refuse("found no firmware image at the start of its code, expected one");
    if (found.regmap_version != regmap::regmap_version)
        refuse(fmt::format("found an image of register map {:#010x}, expected {:#010x}: build it again",
                           found.regmap_version, regmap::regmap_version));
    if (found != port::image_header)
        refuse("found an image whose records are laid out in another way, expected one of these sources");
}

void FirmwareImage::count_instructions() {
    const auto& bytes = code().bytes;
    instructions_before_.assign(bytes.size() / 2 + 1, 0);
    firmware_before_ = instructions_before_;
    size_t at = sizeof(regmap::FirmwareImage);
    uint32_t all = 0;
    uint32_t of_firmware = 0;
    while (at + 2 <= bytes.size()) {
        const Function* const function = function_at(code().address + at);
        const size_t next = std::min(at + (is_long(bytes, at) ? 4 : 2), bytes.size());
        ++all;
        if (function == nullptr || !function->name.starts_with("engines::")) ++of_firmware;
        for (size_t half = at / 2 + 1; half <= next / 2; ++half) {
            instructions_before_[half] = all;
            firmware_before_[half] = of_firmware;
        }
        at = next;
    }
}

void FirmwareImage::read_symbols(const std::vector<uint8_t>& bytes) {
    Elf64_Ehdr header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.e_shoff > bytes.size() ||
        bytes.size() - header.e_shoff < uint64_t{header.e_shnum} * sizeof(Elf64_Shdr))
        refuse("found section headers outside the file");
    const auto section_at = [&](unsigned number) {
        Elf64_Shdr section{};
        if (number < header.e_shnum)
            std::memcpy(&section, bytes.data() + header.e_shoff + number * sizeof section, sizeof section);
        if (section.sh_offset > bytes.size() || section.sh_size > bytes.size() - section.sh_offset)
            section = {};
        return section;
    };
    for (unsigned number = 0; number < header.e_shnum; ++number) {
        const Elf64_Shdr table = section_at(number);
        if (table.sh_type != SHT_SYMTAB) continue;
        const Elf64_Shdr strings = section_at(table.sh_link);
        const std::string names(reinterpret_cast<const char*>(bytes.data()) + strings.sh_offset,
                                strings.sh_size);
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol{};
            std::memcpy(&symbol, bytes.data() + table.sh_offset + at, sizeof symbol);
            if (symbol.st_name >= names.size()) continue;
            const char* const name = names.c_str() + symbol.st_name;
            if (std::strcmp(name, "plait_wait") == 0) wait_ = symbol.st_value;
            if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
                functions_.push_back({symbol.st_value, symbol.st_size, readable(name)});
        }
    }
    if (wait_ < code().address || wait_ - code().address >= code().bytes.size())
        refuse("found no symbol plait_wait in its code, expected an image with symbols");
    std::sort(functions_.begin(), functions_.end(),
              [](const Function& a, const Function& b) { return a.address < b.address; });
}

const FirmwareImage::Function* FirmwareImage::function_at(uint64_t address) const {
    auto after = std::upper_bound(functions_.begin(), functions_.end(), address,
                                  [](uint64_t at, const Function& f) { return at < f.address; });
    if (after == functions_.begin()) return nullptr;
    const Function& function = *--after;
    return address - function.address < std::max<uint64_t>(function.size, 1) ? &function : nullptr;
}

std::string FirmwareImage::symbolise(uint64_t address) const {
    const Function* function = function_at(address);
    if (function == nullptr) return fmt::format("{:#x}", address);
    return fmt::format("{}+{:#x}", function->name, address - function->address);
}

}  // namespace plait::sim
