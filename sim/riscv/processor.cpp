#include <plait/sim/riscv/processor.hpp>

#include <unicorn/unicorn.h>

#include <fmt/format.h>

#include <plait/sim/models/page_memory.hpp>

namespace plait::sim {
namespace {

constexpr uint64_t register_pages = 0x10000;

// Unicorn translates what lies before a stop address anew at each start, until it runs out of room and jumps
// into what it threw away. Address 0 is none; a core that waits ends the run by itself.
constexpr uint64_t no_stop = 0;

const char* name_of(uc_mem_type access) {
    switch (access) {
        case UC_MEM_READ_UNMAPPED:
        case UC_MEM_READ_PROT: return "read";
        case UC_MEM_WRITE_UNMAPPED:
        case UC_MEM_WRITE_PROT: return "write";
        default: return "jump";
    }
}

bool is_in(std::span<const std::byte> memory, uint64_t address) {
    return address - reinterpret_cast<uint64_t>(memory.data()) < memory.size();
}

bool is_register(uint64_t address) { return address - register_base < register_pages; }

std::string exception_name(uint32_t cause) {
    constexpr uint32_t illegal_instruction = 2;
    constexpr uint32_t breakpoint = 3;
    if (cause == illegal_instruction) return "illegal instruction";
    if (cause == breakpoint) return "breakpoint";
    return fmt::format("exception {}", cause);
}

}  // namespace

// Everything that is Unicorn's.
struct Processor::Emulator {
    explicit Emulator(Processor& owner) : processor(owner) {
        if (uc_open(UC_ARCH_RISCV, UC_MODE_RISCV64, &engine) != UC_ERR_OK)
            throw ImageError("the instruction-set simulator cannot be started: out of memory?");
    }
    ~Emulator() { uc_close(engine); }
    Emulator(const Emulator&) = delete;
    Emulator& operator=(const Emulator&) = delete;

    void load(const FirmwareImage::Segment& segment) const {
        const uint32_t rights = segment.executable ? UC_PROT_READ | UC_PROT_EXEC : UC_PROT_READ;
        if (uc_mem_map(engine, segment.address, whole_pages(segment.bytes.size()), rights) != UC_ERR_OK ||
            uc_mem_write(engine, segment.address, segment.bytes.data(), segment.bytes.size()) != UC_ERR_OK)
            throw ImageError(fmt::format("{}: found a segment at {:#x} that overlaps others",
                                         processor.image_.file().string(), segment.address));
    }

    template <class Callback>
    void hook(int kinds, Callback* callback) {
        uc_hook handle = 0;
        uc_hook_add(engine, &handle, kinds, reinterpret_cast<void*>(callback), this, 1, 0);
    }

    static Emulator& of(void* user) { return *static_cast<Emulator*>(user); }

    static void on_block(uc_engine*, uint64_t address, uint32_t size, void* user) {
        of(user).processor.block(address, size);
    }
    static bool on_invalid(uc_engine*, uc_mem_type access, uint64_t address, int size, int64_t, void* user) {
        of(user).processor.fault_address_ = address;
        of(user).processor.why_ = fmt::format("{} of {} bytes at {:#x}", name_of(access), size, address);
        return false;
    }
    // Memory of all devices is there: only the one that runs may be written.
    static void on_store(uc_engine*, uc_mem_type, uint64_t address, int size, int64_t, void* user) {
        Processor& processor = of(user).processor;
        const FirmwareContext& context = *processor.context_;
        if (is_in(context.local, address) || is_in(context.engines, address) || is_register(address)) return;
        processor.fault_address_ = address;
        processor.stop(fmt::format("write of {} bytes at {:#x}, another device's memory", size, address));
    }
    static void on_exception(uc_engine*, uint32_t cause, void* user) {
        of(user).processor.stop(exception_name(cause));
    }
    static uint64_t on_read(uc_engine*, uint64_t offset, unsigned, void* user) {
        const FirmwareContext& context = *of(user).processor.context_;
        return context.registers->read_register_of_firmware(static_cast<uint32_t>(offset));
    }
    static void on_write(uc_engine*, uint64_t offset, unsigned, uint64_t value, void* user) {
        Processor& processor = of(user).processor;
        if (offset == regmap::reg::firmware_panic_offset) processor.stop("panic");
        else
            processor.context_->registers->write_register_of_firmware(static_cast<uint32_t>(offset),
                                                                      static_cast<uint32_t>(value));
    }

    uint64_t get(int which) const {
        uint64_t value = 0;
        uc_reg_read(engine, which, &value);
        return value;
    }
    void set(int which, uint64_t value) const { uc_reg_write(engine, which, &value); }

    Processor& processor;
    uc_engine* engine = nullptr;
};

Processor::Processor(FirmwareImage image, uint64_t limit, bool has_engines)
    : image_(std::move(image)),
      limit_(limit),
      instructions_before_(has_engines ? image_.firmware_instructions_before()
                                       : image_.instructions_before()),
      emulator_(std::make_unique<Emulator>(*this)) {
    for (const FirmwareImage::Segment& segment : image_.segments()) emulator_->load(segment);
    uc_mmio_map(emulator_->engine, register_base, register_pages, &Emulator::on_read, emulator_.get(),
                &Emulator::on_write, emulator_.get());
    emulator_->hook(UC_HOOK_BLOCK, &Emulator::on_block);
    emulator_->hook(UC_HOOK_MEM_INVALID, &Emulator::on_invalid);
    emulator_->hook(UC_HOOK_MEM_WRITE, &Emulator::on_store);
    emulator_->hook(UC_HOOK_INTR, &Emulator::on_exception);
}

Processor::~Processor() = default;

bool Processor::map(std::span<std::byte> memory) {
    return uc_mem_map_ptr(emulator_->engine, reinterpret_cast<uint64_t>(memory.data()), memory.size(),
                          UC_PROT_READ | UC_PROT_WRITE, memory.data()) == UC_ERR_OK;
}

void Processor::unmap(std::span<std::byte> memory) {
    uc_mem_unmap(emulator_->engine, reinterpret_cast<uint64_t>(memory.data()), memory.size());
}

void Processor::start(FirmwareContext& context) {
    if (fault_) return;
    emulator_->set(UC_RISCV_REG_A0, reinterpret_cast<uint64_t>(context.port));
    run(context, image_.entry());
    context.stack_pointer = emulator_->get(UC_RISCV_REG_SP);
}

void Processor::serve(const FirmwareContext& context) {
    if (fault_) return;
    emulator_->set(UC_RISCV_REG_S0, reinterpret_cast<uint64_t>(context.port));
    emulator_->set(UC_RISCV_REG_SP, context.stack_pointer);
    run(context, image_.wait() + wait_bytes);
}

void Processor::run(const FirmwareContext& context, uint64_t from) {
    context_ = &context;
    instructions_ = 0;
    seen_ = context.port->command_next;
    sends_seen_ = context.port->sends_begun;
    send_begun_ = 0;
    marks_.clear();
    next_mark_ = 0;
    const uc_err result = uc_emu_start(emulator_->engine, from, no_stop, 0, 0);
    total_instructions_ += instructions_;
    if (result != UC_ERR_OK && why_.empty()) why_ = uc_strerror(result);
    if (!why_.empty()) describe_fault(context);
}

void Processor::block(uint64_t address, uint32_t size) {
    if (const uint64_t next = context_->port->command_next; next != seen_) {
        seen_ = next;
        marks_.push_back({next, {instructions_, send_begun_}});
    }
    if (const uint32_t sends = context_->port->sends_begun; sends != sends_seen_) {
        sends_seen_ = sends;
        send_begun_ = instructions_;
    }
    block_ = address;
    // A block goes on behind the wait that ends the run; the next one begins there.
    if (const uint64_t to_wait = image_.wait() - address; to_wait < size)
        size = static_cast<uint32_t>(to_wait + wait_bytes);
    const std::span<const uint32_t> before = instructions_before_;
    const uint64_t first = (address - image_.code().address) / 2;
    const uint64_t count = first + size / 2 < before.size() ? before[first + size / 2] - before[first] : 0;
    instructions_ += count;
    if (profile_) profile_->block(address, size, count);
    if (instructions_ > limit_) stop(fmt::format("no end after {} instructions", instructions_));
}

Processor::Given Processor::given(uint64_t address) {
    if (next_mark_ == marks_.size()) return {instructions_, send_begun_};
    const Mark& mark = marks_[next_mark_];
    if (mark.command_next == address) ++next_mark_;
    return mark.given;
}

void Processor::stop(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    uc_emu_stop(emulator_->engine);
}

void Processor::fail(const FirmwareContext& context, std::string why) {
    stop(std::move(why));
    if (!fault_) describe_fault(context);
}

void Processor::describe_fault(const FirmwareContext& context) {
    const uint64_t stack = emulator_->get(UC_RISCV_REG_SP);
    const auto bottom = reinterpret_cast<uint64_t>(context.stack.data());
    const regmap::PanicRecord& panic = context.port->panic;
    uint64_t pc = emulator_->get(UC_RISCV_REG_PC);
    std::string what = "firmware fault: ";
    if (panic.reason != regmap::PanicReason::none) {
        pc = panic.pc;
        what +=
            fmt::format("panic: {}, cause {}, address {:#x}", name(panic.reason), panic.cause, panic.address);
    } else if (stack < bottom || fault_address_ - (bottom - stack_guard_bytes) < stack_guard_bytes) {
        what += fmt::format("stack overflow, {}", why_);
    } else {
        what += why_;
    }
    FirmwareFault fault;
    const std::string place =
        image_.function_at(pc) != nullptr ? image_.symbolise(pc) : "behind " + image_.symbolise(block_);
    fault.summary = fmt::format("{}: {}, pc {:#x} ({})", context.name, what, pc, place);
    fault.core_state = fmt::format(
        "ra {:#x} ({})\nsp {:#x}, {} bytes of stack in use\n", emulator_->get(UC_RISCV_REG_RA),
        image_.symbolise(emulator_->get(UC_RISCV_REG_RA)), stack, context.port->stack_end - stack);
    for (int i = 0; i < 32; ++i)
        fault.core_state +=
            fmt::format("x{:<2} {:016x}{}", i, emulator_->get(UC_RISCV_REG_X0 + i), i % 4 == 3 ? "\n" : "  ");
    fault_ = std::move(fault);
}

}  // namespace plait::sim
