#include <plait/driver.hpp>
#include <plait/registered_memory.hpp>
#include <string>
#include <utility>

namespace plait {

Result<RegisteredMemory> RegisteredMemory::allocate(Driver& driver, std::size_t length_bytes,
                                                    std::uint32_t access) {
    const auto memory = driver.link().allocate(length_bytes);
    if (!memory)
        return Error{Status::no_memory, "no shared memory of " + std::to_string(length_bytes) + " bytes"};
    auto key = driver.register_memory(memory->device_address, length_bytes, access);
    if (!key) {
        // The device was never told of it, or its answer is lost: then it may know the memory, but no key is
        // in use.
        driver.link().free(*memory);  // NOLINT(clang-analyzer-unix.Malloc): not the C library's
        return key.error();
    }
    return RegisteredMemory(driver, *memory, key.value());
}

RegisteredMemory::~RegisteredMemory() {
    if (driver_ == nullptr) return;
    const auto gone = driver_->deregister_memory(key_);
    if (gone || gone.status() == Status::device_removed) driver_->link().free(memory_);
}

RegisteredMemory::RegisteredMemory(RegisteredMemory&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)), memory_(other.memory_), key_(other.key_) {
    other.memory_ = {};
}

RegisteredMemory& RegisteredMemory::operator=(RegisteredMemory&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(memory_, other.memory_);
    std::swap(key_, other.key_);
    return *this;
}

}  // namespace plait
