#ifndef UBIQUITYFS_CFUSE3_URING_H
#define UBIQUITYFS_CFUSE3_URING_H

// FUSE over io_uring, protocol 7.42: what the kernel's linux/fuse.h has since Linux 6.14. Written
// out here, since the headers that we are compiled with may be older.

#include <stdint.h>

/// FUSE_OVER_IO_URING is bit 41 of the INIT flags: bit 9 of the second word.
static const uint32_t ubiquity_uring_init_flag2 = 1u << 9;

/// The first part of an entry's memory. `in_out` is the request's fuse_in_header, then the reply's
/// fuse_out_header; `operation` the operation's own fixed part; what follows these is in the
/// payload.
struct ubiquity_uring_header {
  uint8_t in_out[128];
  uint8_t operation[128];
  uint64_t flags;
  /// Names the request in its commit.
  uint64_t commit;
  /// Of the request, then of the reply.
  uint32_t payload_size;
  uint32_t padding;
  uint64_t reserved;
};

/// What a command carries in its submission.
struct ubiquity_uring_command {
  uint64_t flags;
  uint64_t commit;
  uint16_t queue;
  uint8_t padding[6];
};

/// Gives an entry to a queue.
static const uint32_t ubiquity_uring_register = 1;
/// Answers an entry's request and gives the entry back for the next.
static const uint32_t ubiquity_uring_commit_and_fetch = 2;

_Static_assert(sizeof(struct ubiquity_uring_header) == 288, "as in the kernel");
_Static_assert(sizeof(struct ubiquity_uring_command) == 24, "as in the kernel");

#endif
