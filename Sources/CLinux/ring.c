#define _GNU_SOURCE

#include "ring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void linux_ring_close(struct linux_ring *ring) {
  if (ring->submissions) munmap(ring->submissions, ring->submissions_size);
  if (ring->rings) munmap(ring->rings, ring->rings_size);
  if (ring->fd >= 0) close(ring->fd);
  memset(ring, 0, sizeof *ring);
  ring->fd = -1;
}

int linux_ring_open(struct linux_ring *ring, uint32_t submissions,
                                  uint32_t completions) {
  struct io_uring_params parameters;
  memset(ring, 0, sizeof *ring);
  memset(&parameters, 0, sizeof parameters);
  // DEFER_TASKRUN: the kernel's work for this ring, copies into our memory among it, is done in
  // this thread's io_uring_enter and at no other time.
  parameters.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL |
                     IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  parameters.cq_entries = completions;
  ring->fd = (int)syscall(SYS_io_uring_setup, submissions, &parameters);
  if (ring->fd < 0) return -errno;
  if (!(parameters.features & IORING_FEAT_SINGLE_MMAP) ||
      !(parameters.features & IORING_FEAT_NODROP)) {
    linux_ring_close(ring);
    return -ENOSYS;
  }
  size_t first = parameters.sq_off.array + parameters.sq_entries * sizeof(uint32_t);
  size_t second =
      parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
  ring->rings_size = first > second ? first : second;
  void *rings = mmap(0, ring->rings_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                     ring->fd, IORING_OFF_SQ_RING);
  if (rings == MAP_FAILED) {
    int code = errno;
    linux_ring_close(ring);
    return -code;
  }
  ring->rings = (uint8_t *)rings;
  ring->submissions_size = parameters.sq_entries * 2 * sizeof(struct io_uring_sqe);
  void *entries = mmap(0, ring->submissions_size, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
  if (entries == MAP_FAILED) {
    int code = errno;
    linux_ring_close(ring);
    return -code;
  }
  ring->submissions = (struct io_uring_sqe *)entries;
  ring->submission_head = (uint32_t *)(ring->rings + parameters.sq_off.head);
  ring->submission_tail = (uint32_t *)(ring->rings + parameters.sq_off.tail);
  ring->submission_count = parameters.sq_entries;
  ring->completion_head = (uint32_t *)(ring->rings + parameters.cq_off.head);
  ring->completion_tail = (uint32_t *)(ring->rings + parameters.cq_off.tail);
  ring->completion_mask = *(uint32_t *)(ring->rings + parameters.cq_off.ring_mask);
  ring->completions = (struct io_uring_cqe *)(ring->rings + parameters.cq_off.cqes);
  // Submissions are used in order: the indirection is filled once.
  uint32_t *order = (uint32_t *)(ring->rings + parameters.sq_off.array);
  for (uint32_t index = 0; index < parameters.sq_entries; index++) order[index] = index;
  return 0;
}

uint32_t linux_ring_pending(const struct linux_ring *ring) {
  return *ring->submission_tail - __atomic_load_n(ring->submission_head, __ATOMIC_ACQUIRE);
}

int linux_ring_is_full(const struct linux_ring *ring) {
  return linux_ring_pending(ring) == ring->submission_count;
}

static struct io_uring_sqe *linux_ring_prepare(struct linux_ring *ring, uint8_t operation,
                                                      int fd, const void *address,
                                                      uint32_t length, uint64_t tag) {
  uint32_t index = *ring->submission_tail & (ring->submission_count - 1);
  struct io_uring_sqe *entry = ring->submissions + 2 * (size_t)index;
  memset(entry, 0, 2 * sizeof *entry);
  entry->opcode = operation;
  entry->fd = fd;
  entry->addr = (uint64_t)(uintptr_t)address;
  entry->len = length;
  entry->user_data = tag;
  return entry;
}

static void linux_ring_push(struct linux_ring *ring) {
  __atomic_store_n(ring->submission_tail, *ring->submission_tail + 1, __ATOMIC_RELEASE);
}

void linux_ring_command(struct linux_ring *ring, int fd, uint32_t operation,
                                      const void *address, uint32_t length, const void *command,
                                      size_t command_size, uint64_t tag) {
  struct io_uring_sqe *entry =
      linux_ring_prepare(ring, IORING_OP_URING_CMD, fd, address, length, tag);
  entry->cmd_op = operation;
  memcpy(entry->cmd, command, command_size);
  linux_ring_push(ring);
}

void linux_ring_read(struct linux_ring *ring, int fd, void *buffer, uint32_t length,
                                   uint64_t tag) {
  linux_ring_prepare(ring, IORING_OP_READ, fd, buffer, length, tag)->off = (uint64_t)-1;
  linux_ring_push(ring);
}

int linux_ring_enter(struct linux_ring *ring, uint32_t wait) {
  long result = syscall(SYS_io_uring_enter, ring->fd, linux_ring_pending(ring), wait,
                        IORING_ENTER_GETEVENTS, 0, 0);
  return result < 0 ? -errno : (int)result;
}

int linux_ring_next(struct linux_ring *ring, uint64_t *tag, int32_t *result) {
  uint32_t head = *ring->completion_head;
  if (head == __atomic_load_n(ring->completion_tail, __ATOMIC_ACQUIRE)) return 0;
  const struct io_uring_cqe *completion = ring->completions + (head & ring->completion_mask);
  *tag = completion->user_data;
  *result = completion->res;
  __atomic_store_n(ring->completion_head, head + 1, __ATOMIC_RELEASE);
  return 1;
}
