#ifndef UBIQUITYFS_CLINUX_RING_H
#define UBIQUITYFS_CLINUX_RING_H

// An io_uring as the kernel gives it, for one thread: what is submitted, waited for and taken out
// is its maker's alone (IORING_SETUP_SINGLE_ISSUER). Functions give 0 or a positive number, or
// -errno.

#include <stddef.h>
#include <stdint.h>

/// Submissions are of 128 bytes: a command of a device has 80 for its own.
struct linux_ring {
  int fd;
  uint8_t *rings;
  size_t rings_size;
  struct io_uring_sqe *submissions;
  size_t submissions_size;
  uint32_t *submission_head;
  uint32_t *submission_tail;
  uint32_t submission_count;
  uint32_t *completion_head;
  uint32_t *completion_tail;
  uint32_t completion_mask;
  struct io_uring_cqe *completions;
};

void linux_ring_close(struct linux_ring *ring);

int linux_ring_open(struct linux_ring *ring, uint32_t submissions, uint32_t completions);

/// What is prepared and not yet submitted.
uint32_t linux_ring_pending(const struct linux_ring *ring);

int linux_ring_is_full(const struct linux_ring *ring);

/// Only with room (see `linux_ring_is_full`). `command` is at most 80 bytes.
void linux_ring_command(struct linux_ring *ring, int fd, uint32_t operation, const void *address,
    uint32_t length, const void *command, size_t command_size, uint64_t tag);

/// Only with room.
void linux_ring_read(struct linux_ring *ring, int fd, void *buffer, uint32_t length, uint64_t tag);

/// Submits what is prepared and waits for `wait` completions; may come back with fewer.
int linux_ring_enter(struct linux_ring *ring, uint32_t wait);

/// Takes out the next completion; 0 if there is none.
int linux_ring_next(struct linux_ring *ring, uint64_t *tag, int32_t *result);

#endif
