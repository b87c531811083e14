#ifndef UBIQUITYFS_CLINUX_RECORD_H
#define UBIQUITYFS_CLINUX_RECORD_H

// Memory that outlives the process that writes it, and words in it whose order a crash keeps.

#include <stdint.h>

/// A file in memory of this size, closed by exec; -errno. `memfd_create(2)`.
int linux_memory_file(const char *name, uint64_t size);

int32_t linux_thread_number(void);

/// Sends a text to a datagram socket; `@` stands for the zero byte that an abstract address begins
/// with. Gives 0 or -errno.
int linux_send_datagram(const char *address, const char *text);

/// What was written to memory before this by this thread is there if the word is.
static inline void linux_store_word(void *place, uint64_t value) {
  __atomic_store_n((uint64_t *)place, value, __ATOMIC_RELEASE);
}

static inline uint64_t linux_load_word(const void *place) {
  return __atomic_load_n((const uint64_t *)place, __ATOMIC_ACQUIRE);
}

/// Gives whether the bit was set before.
static inline int linux_set_bit(void *place, uint64_t bit) {
  return (__atomic_fetch_or((uint64_t *)place, 1ULL << bit, __ATOMIC_RELEASE) >> bit) & 1;
}

static inline void linux_clear_bit(void *place, uint64_t bit) {
  __atomic_fetch_and((uint64_t *)place, ~(1ULL << bit), __ATOMIC_RELEASE);
}

#endif
