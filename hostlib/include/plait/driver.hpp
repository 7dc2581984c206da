#pragma once
// The driver: brings a device up over its DeviceLink, makes its objects, posts requests and collects
// completions.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <plait/device_link.hpp>
#include <plait/requests.hpp>
#include <plait/result.hpp>
#include <span>

namespace plait {

struct DriverOptions {
    std::uint64_t timeout_ns = 1'000'000'000;  ///< Time limit of each command, of bringing up and of closing.
    std::uint64_t removal_check_ns =
        10'000'000;                        ///< How often a wait looks whether the device is still there.
    std::uint32_t admin_log2_entries = 6;  ///< Commands in doubt at once: 2 .. 10.
};

/// What the device said of itself when it was opened.
struct DeviceInfo {
    std::uint32_t device_number = 0;  ///< In the fabric.
    std::uint32_t planes = 0;
    std::uint32_t firmware_version = 0;  ///< Bits 23..16 major, 15..8 minor, 7..0 patch.
    std::uint32_t max_qps = 0;
    std::uint32_t max_memory_regions = 0;
    std::uint32_t max_groups = 0;
};

struct QpOptions {
    std::uint16_t mtu_bytes = 4096;      ///< Path MTU: 256 .. 4096, a power of two.
    std::uint16_t window_packets = 512;  ///< 64, 128, 256 or 512.
    std::uint16_t entropy_values = 128;  ///< Paths to spray over: a multiple of the planes, up to 256.
    regmap::SprayPolicy spray_policy = regmap::SprayPolicy::spray;
    std::uint32_t send_queue = 0;     ///< 0: none; a group's queue pair needs none.
    std::uint32_t receive_queue = 0;  ///< 0: none.
    regmap::Transport transport = regmap::Transport::mp;
};

/// A queue pair that was made.
struct Qp {
    std::uint32_t qpn = 0;
    std::uint32_t first_psn = 0;  ///< The peer gives it to connect_qp.
};

/// The other end of a queue pair.
struct PeerAddress {
    std::uint32_t device = 0;  ///< Its number in the fabric.
    std::uint32_t qpn = 0;
    std::uint32_t first_psn = 0;  ///< Of what it sends.
};

/// What this driver has done since it was opened.
struct DriverStatistics {
    std::uint64_t commands = 0;
    std::uint64_t posted = 0;  ///< Requests.
    std::uint64_t doorbells = 0;
    std::uint64_t completions = 0;
    std::uint64_t interrupts = 0;        ///< Waits that an interrupt ended.
    std::uint64_t idle_interrupts = 0;   ///< Of these: nothing was there for the one who waited.
    std::uint64_t late_completions = 0;  ///< Of commands that had been given up.
};

/// A device, brought up. Objects are named by number (queue, QPN, key, group) and live until they are
/// destroyed or the driver ends; memory of the rings is the driver's. One thread at a time; nothing waits for
/// ever, nothing throws.
///
/// Errors that every call may give besides its own: device_removed (registers read all ones; from then on
/// every call gives it), device_fatal (the device stopped itself; likewise), and for calls that make or
/// destroy something timeout (no answer within DriverOptions::timeout_ns: it may or may not have happened),
/// queue_full (too many commands in doubt) and no_memory. What the device refuses comes with the device's
/// status; nothing was done then.
class Driver {
  public:
    /// Checks magic and register map, resets the device and enables it. `link` must outlive the driver.
    /// version_mismatch: no Plait device, or one built from another register map (the message names both
    /// versions); timeout: not ready in time; invalid_parameter: options. The device is left reset or
    /// untouched then.
    static Result<std::unique_ptr<Driver>> open(DeviceLink& link, const DriverOptions& options = {});

    /// Resets the device, so that it uses no memory any more, and gives the rings back. Rings stay allocated
    /// when a device that is there does not confirm.
    ~Driver();
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

    [[nodiscard]] DeviceLink& link();
    [[nodiscard]] std::uint64_t now_ns() const;  ///< The link's clock.
    [[nodiscard]] const DeviceInfo& info() const;
    [[nodiscard]] const DriverStatistics& statistics() const;

    /// Fails only when the device is known to be gone or stopped.
    [[nodiscard]] Result<std::uint32_t> device_number() const;
    /// Bit p: plane p's link is up. Reads a register.
    Result<std::uint32_t> port_state();
    /// Received packets that were dropped for this reason. Reads a register.
    Result<std::uint32_t> drop_count(regmap::DropReason reason);
    /// Time after which a queue pair fails whose oldest packet stays unacknowledged; not 0. Holds for the
    /// device.
    Result<void> set_qp_time_limit_us(std::uint32_t time_limit_us);

    /// A ring of 2^log2_entries completions, 4 .. 15. It cannot overflow when it has as many entries as the
    /// queues that complete to it together. The number returned is never 0.
    Result<std::uint32_t> create_completion_queue(std::uint32_t log2_entries = 8);
    Result<std::uint32_t> create_send_queue(std::uint32_t completion_queue, std::uint32_t log2_entries = 8);
    Result<std::uint32_t> create_receive_queue(std::uint32_t completion_queue,
                                               std::uint32_t log2_entries = 8);
    Result<std::uint32_t> create_collective_queue(std::uint32_t completion_queue,
                                                  std::uint32_t log2_entries = 6);
    /// invalid_state while a queue pair, a group or (for a completion queue) another queue uses it.
    Result<void> destroy_queue(std::uint32_t queue);

    /// The queues must belong to no other queue pair. invalid_parameter, invalid_queue, invalid_state,
    /// limit_exceeded.
    Result<Qp> create_qp(const QpOptions& options);
    Result<void> connect_qp(std::uint32_t qpn, const PeerAddress& peer);
    /// Outstanding requests complete as flushed before this returns; requests the device had not fetched yet
    /// get no completion.
    Result<void> destroy_qp(std::uint32_t qpn);

    /// Registers `length_bytes` (not 0) of memory that the device reaches, for `access` (access_... bits);
    /// the key.
    Result<std::uint32_t> register_memory(std::uint64_t device_address, std::uint64_t length_bytes,
                                          std::uint32_t access);
    Result<void> deregister_memory(std::uint32_t key);

    /// `qpns`: one a rank, 0 for those of the own node. The group's number. The device checks the parameters
    /// (invalid_parameter, limit_exceeded, invalid_qp).
    Result<std::uint32_t> create_group(const regmap::GroupParameters& parameters,
                                       std::span<const std::uint32_t> qpns, std::uint32_t collective_queue);
    /// Outstanding calls complete as aborted.
    Result<void> destroy_group(std::uint32_t group);

    /// Copies the requests into the ring, all or none, and rings the doorbell once. invalid_queue: not a
    /// queue of this kind; queue_full: fewer free entries. An entry is free again when poll() or wait() has
    /// given out a completion of its request or of a later one: at least one request a ring must be
    /// signalled. What is wrong with a request itself comes as its completion.
    Result<void> post_send(std::uint32_t queue, std::span<const regmap::WorkRequest> requests);
    Result<void> post_receive(std::uint32_t queue, std::span<const regmap::ReceiveRequest> requests);
    Result<void> post_collective(std::uint32_t queue, std::span<const regmap::EpRequest> requests);
    Result<void> post_send(std::uint32_t queue, const regmap::WorkRequest& request);
    Result<void> post_receive(std::uint32_t queue, const regmap::ReceiveRequest& request);
    Result<void> post_collective(std::uint32_t queue, const regmap::EpRequest& request);
    /// Requests that can be posted now.
    Result<std::uint32_t> free_entries(std::uint32_t queue) const;

    /// Takes what completions there are, at most completions.size(), and says how many. Never waits.
    Result<std::size_t> poll(std::uint32_t completion_queue, std::span<regmap::Completion> completions);
    /// The same, but waits for at least one. timeout: there was none within `timeout_ns`. invalid_parameter:
    /// no room.
    Result<std::size_t> wait(std::uint32_t completion_queue, std::span<regmap::Completion> completions,
                             std::uint64_t timeout_ns);

  private:
    class Implementation;
    explicit Driver(std::unique_ptr<Implementation> implementation);
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace plait
