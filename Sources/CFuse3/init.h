#ifndef UBIQUITYFS_CFUSE3_INIT_H
#define UBIQUITYFS_CFUSE3_INIT_H

// What is added to the INIT reply. The kernel has capabilities that libfuse 3.14 does not know: its
// one reply is changed as it passes through the session's custom I/O.

#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

// Of the kernel's protocol after the version that Debian 12's headers have. Source: the kernel's
// include/uapi/linux/fuse.h; 64-bit numbers, of which the upper half goes into `flags2`.
#define UBIQUITY_FUSE_INIT_EXT (1ULL << 30)
#define UBIQUITY_FUSE_HANDLE_KILLPRIV_V2 (1ULL << 28)
#define UBIQUITY_FUSE_DIRECT_IO_ALLOW_MMAP (1ULL << 36)
#define UBIQUITY_FUSE_PASSTHROUGH (1ULL << 37)
#define UBIQUITY_FUSE_HAS_RESEND (1ULL << 39)

/// What we want of the kernel beyond what libfuse asks for. A flag that the kernel does not offer
/// is left out.
struct ubiquity_fuse_wishes {
  uint64_t flags;
  /// With UBIQUITY_FUSE_PASSTHROUGH: how deep file systems may be stacked, this one included.
  uint32_t max_stack_depth;
};

/// `struct fuse_init_out` as the kernel knows it; what an older one does not know it passes over.
struct ubiquity_fuse_init_out {
  uint32_t major;
  uint32_t minor;
  uint32_t max_readahead;
  uint32_t flags;
  uint16_t max_background;
  uint16_t congestion_threshold;
  uint32_t max_write;
  uint32_t time_gran;
  uint16_t max_pages;
  uint16_t map_alignment;
  uint32_t flags2;
  uint32_t max_stack_depth;
  uint32_t unused[6];
};

#define UBIQUITY_FUSE_INIT_LIMIT 256

/// The course of INIT on one session: asked (`unique` is not 0), then answered. It is the first
/// request and is answered before any other is read, so no lock is needed.
struct ubiquity_fuse_init {
  struct ubiquity_fuse_wishes wanted;
  uint64_t unique;
  uint64_t offered;
  /// What of `wanted.flags` the kernel offers: known once it has asked, agreed once it is answered.
  uint64_t granted;
  int is_answered;
  /// What the kernel asked and what it was answered, for a daemon that takes the connection over.
  uint8_t request[UBIQUITY_FUSE_INIT_LIMIT];
  uint32_t request_length;
  struct ubiquity_fuse_init_out reply;
  uint32_t reply_length;
  /// The connection is one that another daemon began: the reply is compared with that daemon's, and
  /// goes nowhere.
  int is_replayed;
  /// The two are not the same: this program would do it in another way.
  int differs;
};

/// Looks at what was read from the device: is it INIT?
static inline void ubiquity_fuse_init_asked(struct ubiquity_fuse_init *init, const void *buffer,
                                            ssize_t count) {
  const struct fuse_in_header *header = (const struct fuse_in_header *)buffer;
  if (init->is_answered || count < (ssize_t)(sizeof *header + 16) || header->opcode != FUSE_INIT) {
    return;
  }
  const struct fuse_init_in *in = (const struct fuse_init_in *)(header + 1);
  init->unique = header->unique;
  init->request_length = 0;
  if (count <= (ssize_t)sizeof init->request) {
    memcpy(init->request, buffer, (size_t)count);
    init->request_length = (uint32_t)count;
  }
  init->offered = in->flags;
  if ((in->flags & UBIQUITY_FUSE_INIT_EXT) && count >= (ssize_t)(sizeof *header + 20)) {
    init->offered |= (uint64_t)in->flags2 << 32;
  }
  init->granted = init->wanted.flags & init->offered;
}

/// Whether this is the reply to INIT; then `out` is what to send in place of its second part.
static inline int ubiquity_fuse_init_changes(struct ubiquity_fuse_init *init,
                                             const struct iovec *vector, int count,
                                             struct ubiquity_fuse_init_out *out) {
  if (init->is_answered || count != 2 || vector[0].iov_len != sizeof(struct fuse_out_header) ||
      vector[1].iov_len < offsetof(struct ubiquity_fuse_init_out, max_background) ||
      vector[1].iov_len > sizeof *out) {
    return 0;
  }
  const struct fuse_out_header *header = (const struct fuse_out_header *)vector[0].iov_base;
  if (header->unique != init->unique || header->error != 0) return 0;
  memset(out, 0, sizeof *out);
  memcpy(out, vector[1].iov_base, vector[1].iov_len);
  // A reply without room for the upper half is to a kernel that does not have it.
  if (vector[1].iov_len < sizeof *out) init->granted &= UINT32_MAX;
  out->flags |= (uint32_t)init->granted;
  if (init->granted >> 32) {
    out->flags |= UBIQUITY_FUSE_INIT_EXT;
    out->flags2 |= (uint32_t)(init->granted >> 32);
  }
  if (init->granted & UBIQUITY_FUSE_PASSTHROUGH) {
    out->max_stack_depth = init->wanted.max_stack_depth;
  }
  init->is_answered = 1;
  uint32_t length = (uint32_t)vector[1].iov_len;
  if (init->is_replayed) {
    init->differs = length != init->reply_length || memcmp(out, &init->reply, length) != 0;
  } else {
    init->reply = *out;
    init->reply_length = length;
  }
  return 1;
}

#endif
