/* Plait for C programs: a device over a link, registered memory, and expert-parallel calls (docs/ep.md).
 *
 * Status. Every function that can fail returns a plait_status; when it is not PLAIT_STATUS_OK nothing was
 * done, unless its text says otherwise, and what its out parameters point to is untouched.
 * plait_last_error() has a line about the last failure. Nothing throws, nothing waits for ever.
 *
 * Structs begin with their size and version, set by their ..._INIT. A shorter one, from an older header, is
 * completed with the values of ..._INIT; a longer one, from a newer header, is taken when all that this
 * library does not know is zero, else refused (PLAIT_STATUS_INVALID_PARAMETER). So is a null pointer where
 * none is allowed; another version gives PLAIT_STATUS_VERSION_MISMATCH, a size below that of its head or
 * above PLAIT_MAX_STRUCT_BYTES PLAIT_STATUS_INVALID_LENGTH. Out structs are treated alike; the library writes
 * what fits.
 *
 * Threads. One at a time for a device and everything made from it. Functions of the caller (plait_link,
 * plait_bootstrap) are called from within the caller's own calls only; they must not throw.
 */
#ifndef PLAIT_PLAIT_H
#define PLAIT_PLAIT_H

#include <plait/regmap.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Of every struct's `version`. */
#define PLAIT_VERSION 1u

/** No struct is longer: what claims to be was not initialised. */
#define PLAIT_MAX_STRUCT_BYTES 4096u

#define PLAIT_HEAD_INIT(type) sizeof(type), PLAIT_VERSION

/** The status as it is called in docs/registers.md, such as "rank_failed"; "unknown" for other numbers. Never
 * null; static. */
const char* plait_status_string(plait_status status);

/** What failed last in this thread: what, where and what was expected. Never null; empty when nothing failed
 * yet. Valid until the next call of this thread. */
const char* plait_last_error(void);

/* ---- Device ---- */

/** Memory that host and device both reach. */
typedef struct plait_shared_memory {
    void* host;              /**< Where the host reads and writes it. */
    uint64_t device_address; /**< What the device calls its first byte. */
    uint64_t length_bytes;
} plait_shared_memory;

/** How a device is reached. All functions are needed; `context` is passed to them. It is copied by
 * plait_device_open(); what `context` points to outlives the device. <plait/c_link.hpp> makes one of a C++
 * DeviceLink. */
typedef struct plait_link {
    uint32_t struct_size;
    uint32_t version;
    void* context;
    /** Reads a 32-bit register. A device that is gone reads as all ones. */
    uint32_t (*read_register)(void* context, uint32_t offset);
    /** Writes a 32-bit register. Memory written before it is visible to the device by then. */
    void (*write_register)(void* context, uint32_t offset, uint32_t value);
    /** Zeroed shared memory, aligned to 4096 bytes; the link owns it until it is given back. 0: none left. */
    int (*allocate)(void* context, uint64_t length_bytes, plait_shared_memory* memory);
    /** Gives memory back. The device does not use it any more. */
    void (*release)(void* context, const plait_shared_memory* memory);
    /** Waits until the device raises an interrupt not yet consumed, at most `timeout_ns`. 0: the time ran out
     * or the device was removed. Memory that the device wrote before the interrupt is visible then. */
    int (*wait_interrupt)(void* context, uint64_t timeout_ns);
    /** The clock by which all time limits of the host are kept. */
    uint64_t (*now_ns)(void* context);
} plait_link;
#define PLAIT_LINK_INIT \
    { PLAIT_HEAD_INIT(plait_link), NULL, NULL, NULL, NULL, NULL, NULL, NULL }

typedef struct plait_device_options {
    uint32_t struct_size;
    uint32_t version;
    uint64_t timeout_ns; /**< Time limit of each command, of bringing up and of closing. */
} plait_device_options;
#define PLAIT_DEVICE_OPTIONS_INIT \
    { PLAIT_HEAD_INIT(plait_device_options), 1000000000u }

/** What the device said of itself when it was opened. */
typedef struct plait_device_info {
    uint32_t struct_size;
    uint32_t version;
    uint32_t device_number; /**< In the fabric. */
    uint32_t planes;
    uint32_t firmware_version; /**< Bits 23..16 major, 15..8 minor, 7..0 patch. */
    uint32_t max_groups;
} plait_device_info;
#define PLAIT_DEVICE_INFO_INIT \
    { PLAIT_HEAD_INIT(plait_device_info), 0, 0, 0, 0 }

typedef struct plait_device plait_device;

/** Resets the device and brings it up. `options` may be null. Besides what the link's device reports:
 * PLAIT_STATUS_VERSION_MISMATCH, no Plait device or one of another register map; PLAIT_STATUS_TIMEOUT. */
plait_status plait_device_open(const plait_link* link, const plait_device_options* options,
                               plait_device** device);

plait_status plait_device_query(const plait_device* device, plait_device_info* info);

/** Resets the device and ends it. PLAIT_STATUS_INVALID_STATE: memory or groups of it are left. */
plait_status plait_device_close(plait_device* device);

/* ---- Memory ---- */

/** A place in registered memory: what calls take. Plain values: a part of a buffer is a buffer. Zeros stand
 * for a buffer that is not given. */
typedef struct plait_buffer {
    uint64_t device_address;
    uint64_t length_bytes;
    void* host;   /**< Where the host reaches its first byte; null when it does not. */
    uint32_t key; /**< Of its registration. */
    uint32_t reserved;
} plait_buffer;
#define PLAIT_BUFFER_INIT \
    { 0, 0, NULL, 0, 0 }

typedef struct plait_memory plait_memory;

/** `length_bytes` zeroed bytes of the link's memory, aligned to 4096, registered for `access`
 * (PLAIT_ACCESS_... bits; 0: only read by the device). PLAIT_STATUS_NO_MEMORY, and what the device reports.
 */
plait_status plait_memory_allocate(plait_device* device, uint64_t length_bytes, uint32_t access,
                                   plait_memory** memory);

/** Registers memory of the caller, which outlives the registration. `host` may be null: then
 * plait_buffer.host is too. */
plait_status plait_memory_register(plait_device* device, uint64_t device_address, uint64_t length_bytes,
                                   void* host, uint32_t access, plait_memory** memory);

/** All of it. */
plait_status plait_memory_buffer(const plait_memory* memory, plait_buffer* buffer);

/** Takes the registration back, and what plait_memory_allocate() allocated. No call may use it. What the
 * device does not confirm stays allocated until the link ends; `memory` is gone all the same. */
plait_status plait_memory_free(plait_memory* memory);

#ifdef __cplusplus
}
#endif

#include <plait/plait_ep.h>

#endif
