#ifndef UBIQUITYFS_CFUSE3_SHIM_H
#define UBIQUITYFS_CFUSE3_SHIM_H

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <fuse3/fuse_log.h>
#include <linux/fuse.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/// What a session's callbacks get as their user data.
///
/// libfuse 3.14 knows fewer capabilities than the kernel. `extra_flags` are FUSE_INIT flags that are
/// set in the one INIT reply as it passes, where the kernel offers them; `granted_flags` says which
/// that were.
struct ubiquity_fuse_context {
  void *handler;
  uint64_t init_unique;
  uint32_t extra_flags;
  uint32_t offered_flags;
  uint32_t granted_flags;
  int init_done;
};

static inline ssize_t ubiquity_fuse_read(int fd, void *buffer, size_t length, void *data) {
  struct ubiquity_fuse_context *context = (struct ubiquity_fuse_context *)data;
  ssize_t count = read(fd, buffer, length);
  // INIT is the first request and is answered before any other is read: no lock is needed.
  if (!context->init_done && count >= (ssize_t)(sizeof(struct fuse_in_header) + 16)) {
    const struct fuse_in_header *header = (const struct fuse_in_header *)buffer;
    if (header->opcode == FUSE_INIT) {
      const struct fuse_init_in *in = (const struct fuse_init_in *)(header + 1);
      context->init_unique = header->unique;
      context->offered_flags = in->flags;
    }
  }
  return count;
}

static inline ssize_t ubiquity_fuse_writev(int fd, struct iovec *vector, int count, void *data) {
  struct ubiquity_fuse_context *context = (struct ubiquity_fuse_context *)data;
  if (!context->init_done && count == 2 && vector[0].iov_len == sizeof(struct fuse_out_header) &&
      vector[1].iov_len >= 16 && vector[1].iov_len <= sizeof(struct fuse_init_out)) {
    const struct fuse_out_header *header = (const struct fuse_out_header *)vector[0].iov_base;
    const struct fuse_init_out *answer = (const struct fuse_init_out *)vector[1].iov_base;
    if (header->unique == context->init_unique && header->error == 0 &&
        answer->minor >= 6) {
      struct fuse_init_out out;
      memset(&out, 0, sizeof out);
      memcpy(&out, answer, vector[1].iov_len);
      context->granted_flags = context->extra_flags & context->offered_flags;
      out.flags |= context->granted_flags;
      context->init_done = 1;
      struct iovec changed[2] = {vector[0], {&out, vector[1].iov_len}};
      return writev(fd, changed, 2);
    }
  }
  return writev(fd, vector, count);
}

static inline ssize_t ubiquity_fuse_splice(int from, off_t *from_offset, int to, off_t *to_offset,
                                           size_t length, unsigned int flags, void *data) {
  (void)data;
  extern ssize_t splice(int, loff_t *, int, loff_t *, size_t, unsigned int);
  return splice(from, (loff_t *)from_offset, to, (loff_t *)to_offset, length, flags);
}

/// Lets the session's INIT reply pass through `ubiquity_fuse_writev`. After mounting, before the loop.
static inline int ubiquity_fuse_install(struct fuse_session *session) {
  struct fuse_custom_io io;
  memset(&io, 0, sizeof io);
  io.read = ubiquity_fuse_read;
  io.writev = ubiquity_fuse_writev;
  io.splice_receive = ubiquity_fuse_splice;
  io.splice_send = ubiquity_fuse_splice;
  return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}

static const uint32_t ubiquity_fuse_handle_killpriv_v2 = FUSE_HANDLE_KILLPRIV_V2;

#endif
