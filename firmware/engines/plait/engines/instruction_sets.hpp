#pragma once

// PLAIT_ROW_LOOP compiles a function for several instruction sets, of which the best that the processor has
// is called. What the function loops with is to be PLAIT_ALWAYS_INLINE, since every version needs its own.

#if defined(__x86_64__) && defined(__linux__) && __STDC_HOSTED__ && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The dynamic linker picks the version; it does so before a sanitizer is ready, hence not with one.
#define PLAIT_ROW_LOOP __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PLAIT_ROW_LOOP
#endif

#define PLAIT_ALWAYS_INLINE inline __attribute__((always_inline))
