/* Expert-parallel calls for C programs; include <plait/plait.h>. T tokens of this rank, K = topk, H = hidden,
 * E experts, R ranks, C = receive_capacity, N rows received; expert e lives on rank e * R / E. */
#ifndef PLAIT_PLAIT_EP_H
#define PLAIT_PLAIT_EP_H

#include <plait/plait.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layout: where tokens go, computed on the host ---- */

/** What is asked, and arrays of the caller for the answer, each null when not wanted. */
typedef struct plait_layout {
    uint32_t struct_size;
    uint32_t version;
    uint32_t tokens;
    uint32_t topk;
    uint32_t experts;
    uint32_t ranks;
    uint32_t ranks_per_node;
    uint32_t reserved;
    const int64_t* topk_idx;     /**< [T, K]: expert ids, -1 = none. */
    uint32_t* tokens_per_rank;   /**< out [R]: a token counts once for a rank, */
    uint32_t* tokens_per_node;   /**< out [R / ranks_per_node]: once for a node, */
    uint32_t* tokens_per_expert; /**< out [E]: and with each entry for an expert. */
    uint8_t* is_token_in_rank;   /**< out [T, R]: 0 or 1. */
} plait_layout;
#define PLAIT_LAYOUT_INIT \
    { PLAIT_HEAD_INIT(plait_layout), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL }

/** PLAIT_STATUS_INVALID_PARAMETER: shapes outside the limits or that do not divide;
 * PLAIT_STATUS_INVALID_EXPERT: plait_last_error() names token, position and value. */
plait_status plait_get_dispatch_layout(const plait_layout* layout);

/* ---- Groups ---- */

/** The out-of-band channel of a job, used only while a group is created. */
typedef struct plait_bootstrap {
    uint32_t struct_size;
    uint32_t version;
    void* context;
    uint32_t rank; /**< This process's, 0 .. ranks - 1. */
    uint32_t ranks;
    /** Collective: gives `length_bytes` bytes and gets those of all ranks, in rank order, into `all`
     * (ranks * length_bytes). It does not wait longer than `timeout_ns` of the link's clock. Other than
     * PLAIT_STATUS_OK: not all ranks came, or the channel broke. */
    plait_status (*all_gather)(void* context, const void* mine, uint64_t length_bytes, void* all,
                               uint64_t timeout_ns);
} plait_bootstrap;
#define PLAIT_BOOTSTRAP_INIT \
    { PLAIT_HEAD_INIT(plait_bootstrap), NULL, 0, 1, NULL }

/** What a group is made for. Every rank gives the same values, except spray_policy, entropy_values and the
 * timeout. */
typedef struct plait_ep_config {
    uint32_t struct_size;
    uint32_t version;
    uint32_t ranks_per_node;          /**< Divides the ranks; ranks of a node are consecutive. */
    uint32_t experts;                 /**< A multiple of the ranks. */
    uint32_t topk;                    /**< Experts a token chooses. */
    uint32_t hidden;                  /**< Elements of a row: a multiple of 64. */
    uint32_t max_tokens;              /**< Tokens a rank may give to one dispatch. */
    plait_row_format dispatch_format; /**< Of rows on their way and in recv_x; not f32. */
    plait_entry_policy entry_policy;  /**< By which device of a node rows enter it. */
    uint32_t handles;                 /**< Dispatches alive at once, up to PLAIT_MAX_HANDLES. */
    uint32_t mtu_bytes;               /**< A power of two, PLAIT_MIN_MTU_BYTES .. PLAIT_MAX_MTU_BYTES. */
    uint32_t window_packets;          /**< 64, 128, 256 or 512. */
    uint32_t entropy_values;          /**< Paths a queue pair sprays over: a multiple of the planes. */
    plait_spray_policy spray_policy;  /**< How a queue pair picks the path of a packet. */
    uint64_t bootstrap_timeout_ns;    /**< Of each exchange with the other ranks at creation. */
    plait_ep_mode mode;               /**< Layout of the outputs: see plait_ep_dispatch_args. */
    uint32_t reserved;
    plait_row_format combine_format; /**< Of the experts' outputs on their way. */
    plait_row_format partial_format; /**< Of a node's sum on its way back over scale-out. */
    uint32_t encode_dispatch;        /**< Not 0: x of a dispatch is bf16, and the device encodes it as */
                                     /**< dispatch_format, which is then neither bf16 nor f32. */
    uint32_t encode_combine;         /**< The same of a combine and combine_format. */
} plait_ep_config;
#define PLAIT_EP_CONFIG_INIT                                                                        \
    {                                                                                               \
        PLAIT_HEAD_INIT(plait_ep_config), 8, 0, 0, 0, 0, PLAIT_ROW_FORMAT_E4M3_F32,                 \
            PLAIT_ENTRY_POLICY_BALANCED, 2, 4096, 512, 128, PLAIT_SPRAY_POLICY_SPRAY, 10000000000u, \
            PLAIT_EP_MODE_NORMAL, 0, PLAIT_ROW_FORMAT_BF16, PLAIT_ROW_FORMAT_BF16, 0, 0             \
    }

/** Ranks by number: bit r % 64 of bits[r / 64] stands for rank r. */
typedef struct plait_rank_mask {
    uint64_t bits[PLAIT_MAX_RANKS / 64];
} plait_rank_mask;

typedef struct plait_ep_group plait_ep_group;

/** Collective over `bootstrap`, whose ranks are consecutive devices of the fabric; it is used during the call
 * only. Errors leave nothing behind and are given on every rank: PLAIT_STATUS_INVALID_PARAMETER with the
 * limit in plait_last_error(), PLAIT_STATUS_PARAMETER_MISMATCH naming rank and field,
 * PLAIT_STATUS_VERSION_MISMATCH, PLAIT_STATUS_LIMIT_EXCEEDED, PLAIT_STATUS_TIMEOUT of the bootstrap, and what
 * the device reports. */
plait_status plait_ep_group_create(plait_device* device, const plait_ep_config* config,
                                   const plait_bootstrap* bootstrap, plait_ep_group** group);

/** Calls in flight end as aborted; the group's handles and calls are still the caller's to destroy. No rank
 * may have a call in flight: it sees this rank fail otherwise. */
plait_status plait_ep_group_destroy(plait_ep_group* group);

/** The mask of failed ranks: those that any call so far found missing, and what plait_ep_mask_update() said.
 * It is the host's: calls leave out the ranks that the device itself found unreachable, no others. */
plait_status plait_ep_mask_query(const plait_ep_group* group, plait_rank_mask* mask);
/** Puts a rank into the mask (`failed` not 0) or takes it out. PLAIT_STATUS_INVALID_PARAMETER: no such rank.
 */
plait_status plait_ep_mask_update(plait_ep_group* group, uint32_t rank, int failed);
/** Empties the mask. A rank that is still unreachable comes back with the next call that ends. */
plait_status plait_ep_mask_clean(plait_ep_group* group);

/** The first error that belongs to no call, into `error`; PLAIT_STATUS_OK when there is none. Looks for
 * completions, does not wait. plait_last_error() has a line about it. */
plait_status plait_ep_query_asynchronous_error(plait_ep_group* group, plait_status* error);

/* ---- Handles: a routing ---- */

/** The routing of a rank's tokens. The memory stays the caller's, untouched while a dispatch uses it. */
typedef struct plait_ep_routing {
    uint32_t struct_size;
    uint32_t version;
    uint32_t tokens; /**< T, up to max_tokens. */
    uint32_t reserved;
    plait_buffer topk_idx;     /**< [T, K] i64, -1 = none. */
    plait_buffer topk_weights; /**< [T, K] f32. Optional. */
} plait_ep_routing;
#define PLAIT_EP_ROUTING_INIT \
    { PLAIT_HEAD_INIT(plait_ep_routing), 0, 0, PLAIT_BUFFER_INIT, PLAIT_BUFFER_INIT }

typedef struct plait_ep_handle plait_ep_handle;

/** A handle with its first routing. Nothing happens on the device yet. */
plait_status plait_ep_handle_init(plait_ep_group* group, const plait_ep_routing* routing,
                                  plait_ep_handle** handle);

/** A new routing for the same handle. All ranks do it at the same place in their order of calls. Errors, the
 * handle unchanged: PLAIT_STATUS_INVALID_HANDLE, a call uses it; PLAIT_STATUS_QUEUE_FULL;
 * PLAIT_STATUS_INVALID_GROUP, the group was destroyed; PLAIT_STATUS_DEVICE_REMOVED or _FATAL. */
plait_status plait_ep_handle_update(plait_ep_handle* handle, const plait_ep_routing* routing);

/** All ranks do it at the same place in their order of calls. Errors, the handle unchanged:
 * PLAIT_STATUS_INVALID_HANDLE, a call uses it; PLAIT_STATUS_QUEUE_FULL. */
plait_status plait_ep_handle_destroy(plait_ep_handle* handle);

/* ---- Calls ---- */

/** Rows of a dispatch. A row of a format is its H codes of PLAIT_ROW_FORMAT_..._CODE_BITS in one buffer, and
 * for each block of 128 elements, a part of one included, a scale of PLAIT_ROW_FORMAT_..._BLOCK_SCALE_BYTES
 * in the other, which is absent where that is 0.
 *
 * Low latency: C = E / R * R * max_tokens, whatever receive_capacity says; the i-th row of source rank r for
 * local expert e is row (e * R + r) * max_tokens + i. There is no recv_topk_idx or recv_topk_weights. */
typedef struct plait_ep_dispatch_args {
    uint32_t struct_size;
    uint32_t version;
    uint32_t receive_capacity;      /**< C. More rows to receive: capacity_exceeded, none placed. */
    uint32_t timeout_us;            /**< Time limit of the call, on the device; above 0. */
    uint32_t expert_alignment;      /**< 1 .. 65536: see aligned_rows_per_local_expert. */
    uint32_t mark_empty_rows;       /**< Not 0: rows of recv_topk_idx that no token came for are -1. */
    plait_buffer x;                 /**< [T, H] of dispatch_format, bf16 with encode_dispatch. */
    plait_buffer x_scales;          /**< Their scales. */
    plait_buffer recv_x;            /**< out [C, H] of dispatch_format, by source rank, then token. */
    plait_buffer recv_x_scales;     /**< out: their scales. */
    plait_buffer recv_topk_idx;     /**< out [C, K] i64: local expert, -1 = not here. Optional. */
    plait_buffer recv_topk_weights; /**< out [C, K] f32. Optional. */
    plait_buffer recv_source;       /**< out [C] u64: source rank << 32 | token. Optional. */
} plait_ep_dispatch_args;
#define PLAIT_EP_DISPATCH_ARGS_INIT                                                                       \
    {                                                                                                     \
        PLAIT_HEAD_INIT(plait_ep_dispatch_args), 0, 0, 1, 0, PLAIT_BUFFER_INIT, PLAIT_BUFFER_INIT,        \
            PLAIT_BUFFER_INIT, PLAIT_BUFFER_INIT, PLAIT_BUFFER_INIT, PLAIT_BUFFER_INIT, PLAIT_BUFFER_INIT \
    }

/** Rows on their way back: their sum over ranks, not weighted. Low latency: over experts, each times its
 * weight: that of topk_weights here, else of the routing, else 1. */
typedef struct plait_ep_combine_args {
    uint32_t struct_size;
    uint32_t version;
    uint32_t timeout_us; /**< Time limit of the call, on the device; above 0. */
    uint32_t reserved;
    /** [N, H] of combine_format, bf16 with encode_combine; in the order of recv_x. Low latency: [C, H]. */
    plait_buffer x;
    plait_buffer combined_x;   /**< out [T, H] bf16; a token without terms becomes zeros. */
    plait_buffer topk_weights; /**< Low latency: [T, K] f32. Optional. */
    plait_buffer x_scales;     /**< The scales of x, where its format has any. */
    /** [T, H] bf16 each: the first terms of the tokens' sums, added in FP32. Optional. */
    plait_buffer bias0;
    plait_buffer bias1;
} plait_ep_combine_args;
#define PLAIT_EP_COMBINE_ARGS_INIT                                                          \
    {                                                                                       \
        PLAIT_HEAD_INIT(plait_ep_combine_args), 0, 0, PLAIT_BUFFER_INIT, PLAIT_BUFFER_INIT, \
            PLAIT_BUFFER_INIT, PLAIT_BUFFER_INIT, PLAIT_BUFFER_INIT, PLAIT_BUFFER_INIT      \
    }

/** How a call ended. The arrays are the call's, valid until it is destroyed; null after a combine and where
 * the device refused the call before it began. */
typedef struct plait_ep_completion {
    uint32_t struct_size;
    uint32_t version;
    plait_status status;    /**< Other than ok says what did not happen: docs/ep.md, Errors. */
    uint32_t received_rows; /**< dispatch: N. combine: tokens combined. */
    /** Rows that failed ranks did not deliver, or not wholly. Of a dispatch: gaps in the outputs, -1 in
     * recv_source and recv_topk_idx; of a combine: rows of nodes that its sums lack in part or whole. */
    uint32_t missing_rows;
    uint32_t local_experts; /**< Length of the next two: E / R. */
    const uint32_t* rows_per_local_expert;
    const uint32_t* aligned_rows_per_local_expert; /**< Each rounded up to expert_alignment. */
    const uint32_t* rows_per_source;               /**< [ranks] */
    uint32_t ranks;
    uint32_t non_finite; /**< Infinities and NaN that this rank's device met when it encoded or rounded for */
                         /**< the call: rows and contributions, once for each copy sent, and sums. */
    plait_rank_mask failed_ranks; /**< Who was missing. */
    /** Low-latency dispatch: [ranks, local_experts]: rows of a source for an expert. Else null. */
    const uint32_t* rows_per_source_and_expert;
} plait_ep_completion;
#define PLAIT_EP_COMPLETION_INIT \
    { PLAIT_HEAD_INIT(plait_ep_completion), 0, 0, 0, 0, NULL, NULL, NULL, 0, 0, {{0}}, NULL }

typedef struct plait_ep_call plait_ep_call;

/** Posts a dispatch and returns without waiting. The first one after init or update carries the routing to
 * all ranks; later ones repeat it (cached: no counts travel, T stays; low latency: it travels again). Errors,
 * nothing posted: PLAIT_STATUS_INVALID_LENGTH or _INVALID_PARAMETER naming the argument, _LIMIT_EXCEEDED
 * (`handles` are in use), _INVALID_HANDLE (a call uses it, or its latest left no routing: update it),
 * _INVALID_GROUP, _QUEUE_FULL, _DEVICE_REMOVED, _DEVICE_FATAL. */
plait_status plait_ep_dispatch(plait_ep_handle* handle, const plait_ep_dispatch_args* arguments,
                               plait_ep_call** call);

/** Posts the combine of a dispatch that has ended. May be repeated. Errors as plait_ep_dispatch();
 * INVALID_HANDLE also when the handle was never dispatched. */
plait_status plait_ep_combine(plait_ep_handle* handle, const plait_ep_combine_args* arguments,
                              plait_ep_call** call);

/** `done`: 1 when the call has ended, so that plait_ep_complete() returns at once, else 0. Never waits.
 * Errors as plait_ep_complete(), without the timeout. */
plait_status plait_ep_poll(plait_ep_call* call, int* done);

/** Waits for the end of the call, at most `timeout_ns` of the link's clock, and says how it ended, as often
 * as asked. The call's own failure is in plait_ep_completion.status. Errors: PLAIT_STATUS_TIMEOUT, still in
 * flight, may be waited for again; _DEVICE_REMOVED, _DEVICE_FATAL; _ABORTED, the group was destroyed. */
plait_status plait_ep_complete(plait_ep_call* call, uint64_t timeout_ns, plait_ep_completion* completion);

/** Ends the caller's interest. A call in flight goes on, and keeps its handle in use, until it ends. */
plait_status plait_ep_call_destroy(plait_ep_call* call);

#ifdef __cplusplus
}
#endif

#endif
