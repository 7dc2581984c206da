/* A C program of a user: a layout, and a device that is not there. Exit status 0: all as expected. */
#include <plait/plait.h>
#include <stdio.h>
#include <string.h>

static uint32_t read_register(void* context, uint32_t offset) {
    (void)context;
    (void)offset;
    return 0xffffffffu; /* what a device that is gone reads as */
}

static void write_register(void* context, uint32_t offset, uint32_t value) {
    (void)context;
    (void)offset;
    (void)value;
}

static int allocate(void* context, uint64_t length_bytes, plait_shared_memory* memory) {
    (void)context;
    (void)length_bytes;
    (void)memory;
    return 0;
}

static void release(void* context, const plait_shared_memory* memory) {
    (void)context;
    (void)memory;
}

static int wait_interrupt(void* context, uint64_t timeout_ns) {
    *(uint64_t*)context += timeout_ns;
    return 0;
}

static uint64_t now_ns(void* context) { return *(uint64_t*)context; }

static int check_layout(void) {
    const int64_t ids[] = {0, 1, 3, -1}; /* token 0 twice on rank 0, token 1 on rank 1 */
    const uint32_t expected[] = {1, 1, 0, 1};
    uint32_t per_expert[4];
    plait_layout layout = PLAIT_LAYOUT_INIT;
    layout.tokens = 2;
    layout.topk = 2;
    layout.experts = 4;
    layout.ranks = 2;
    layout.ranks_per_node = 2;
    layout.topk_idx = ids;
    layout.tokens_per_expert = per_expert;
    return plait_get_dispatch_layout(&layout) == PLAIT_STATUS_OK &&
           memcmp(per_expert, expected, sizeof expected) == 0;
}

static int check_missing_device(void) {
    uint64_t time_ns = 0;
    plait_device* device = NULL;
    plait_status status;
    plait_link link = PLAIT_LINK_INIT;
    link.context = &time_ns;
    link.read_register = read_register;
    link.write_register = write_register;
    link.allocate = allocate;
    link.release = release;
    link.wait_interrupt = wait_interrupt;
    link.now_ns = now_ns;
    status = plait_device_open(&link, NULL, &device);
    printf("%s: %s\n", plait_status_string(status), plait_last_error());
    return status == PLAIT_STATUS_DEVICE_REMOVED && device == NULL;
}

int main(void) { return check_layout() && check_missing_device() ? 0 : 1; }
