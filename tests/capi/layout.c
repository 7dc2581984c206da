/* Structs lie in memory as programs built earlier know them: a field may only be added at an end. */
#include <plait/plait.h>

#define LAYOUT(type, size, last, offset)                      \
    _Static_assert(sizeof(type) == (size), "size of " #type); \
    _Static_assert(offsetof(type, last) == (offset), #last " of " #type)

LAYOUT(plait_shared_memory, 24, length_bytes, 16);
LAYOUT(plait_link, 64, now_ns, 56);
LAYOUT(plait_device_options, 16, timeout_ns, 8);
LAYOUT(plait_device_info, 24, max_groups, 20);
LAYOUT(plait_buffer, 32, key, 24);
LAYOUT(plait_layout, 72, is_token_in_rank, 64);
LAYOUT(plait_bootstrap, 32, all_gather, 24);
LAYOUT(plait_ep_config, 88, encode_combine, 84);
LAYOUT(plait_rank_mask, 32, bits, 0);
LAYOUT(plait_ep_routing, 80, topk_weights, 48);
LAYOUT(plait_ep_dispatch_args, 248, recv_source, 216);
LAYOUT(plait_ep_combine_args, 208, bias1, 176);
LAYOUT(plait_ep_completion, 96, rows_per_source_and_expert, 88);
