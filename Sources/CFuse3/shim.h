#ifndef UBIQUITYFS_CFUSE3_SHIM_H
#define UBIQUITYFS_CFUSE3_SHIM_H

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <fuse3/fuse_log.h>
#include <linux/fuse.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "backing.h"
#include "init.h"
#include "statx.h"

/// What a session's callbacks get as their user data.
struct ubiquity_fuse_context {
  void *handler;
  struct ubiquity_fuse_init init;
  /// Called once, on the thread that answered INIT, when the kernel has taken the answer: what was
  /// granted holds from here on.
  void (*init_answered)(void *handler);
  /// Of the first request after INIT, and whether `ubiquity_fuse_number` gave the same.
  uint64_t first_number;
  int knows_numbers;
};

/// The number of a request. libfuse 3.14 has no function for it: the second word of its private
/// structure, which `knows_numbers` says is right.
static inline uint64_t ubiquity_fuse_number(fuse_req_t request) {
  uint64_t words[2];
  memcpy(words, (const void *)request, sizeof words);
  return words[1];
}

static inline void ubiquity_fuse_prove_number(struct ubiquity_fuse_context *context,
                                             fuse_req_t request) {
  if (context->knows_numbers || context->first_number == 0) return;
  if (ubiquity_fuse_number(request) == context->first_number) context->knows_numbers = 1;
}

/// Makes a request that libfuse 3.14 does not know one that it knows. FUSE_TMPFILE has the
/// arguments and the answer of FUSE_CREATE; its name, `/`, is one that no entry can have.
/// FUSE_STATX becomes FUSE_BMAP, whose arguments are shorter and which the kernel only sends for
/// block devices.
static inline void ubiquity_fuse_translate(void *request) {
  struct fuse_in_header *header = (struct fuse_in_header *)request;
  if (header->opcode == FUSE_TMPFILE) header->opcode = FUSE_CREATE;
  if (header->opcode == UBIQUITY_FUSE_STATX) header->opcode = FUSE_BMAP;
}

/// FUSE_NOTIFY_INVAL_ENTRY with FUSE_EXPIRE_ONLY: the kernel asks before it uses the name again. A
/// kernel before Linux 6.2 knows no flags and forgets the name. The function of libfuse for it has
/// other arguments in other versions.
static inline void ubiquity_fuse_doubt(
    int fd, uint64_t parent, const void *name, uint32_t length) {
  struct {
    uint64_t parent;
    uint32_t length;
    uint32_t flags;
  } entry = {parent, length, 1};
  struct fuse_out_header header = {
      (uint32_t)(sizeof header + sizeof entry) + length + 1, FUSE_NOTIFY_INVAL_ENTRY, 0};
  struct iovec vector[4] = {
      {&header, sizeof header}, {&entry, sizeof entry}, {(void *)name, length}, {(void *)"", 1}};
  ssize_t written = writev(fd, vector, 4);
  // The kernel does not know the name, or the mount is gone.
  (void)written;
}

static inline ssize_t ubiquity_fuse_read(int fd, void *buffer, size_t length, void *data) {
  struct ubiquity_fuse_context *context = (struct ubiquity_fuse_context *)data;
  ssize_t count = read(fd, buffer, length);
  ubiquity_fuse_init_asked(&context->init, buffer, count);
  if (count >= (ssize_t)sizeof(struct fuse_in_header)) {
    const struct fuse_in_header *header = (const struct fuse_in_header *)buffer;
    if (context->first_number == 0 && header->opcode != FUSE_INIT)
      context->first_number = header->unique;
    ubiquity_fuse_translate(buffer);
  }
  return count;
}

static inline ssize_t ubiquity_fuse_writev(int fd, struct iovec *vector, int count, void *data) {
  struct ubiquity_fuse_context *context = (struct ubiquity_fuse_context *)data;
  struct ubiquity_fuse_init_out out;
  if (ubiquity_fuse_init_changes(&context->init, vector, count, &out)) {
    struct iovec changed[2] = {vector[0], {&out, vector[1].iov_len}};
    // The kernel has had the answer, from another daemon.
    ssize_t written = context->init.is_replayed
                          ? (ssize_t)(vector[0].iov_len + vector[1].iov_len)
                          : writev(fd, changed, 2);
    if (written >= 0 && context->init_answered) context->init_answered(context->handler);
    return written;
  }
  return writev(fd, vector, count);
}

static inline ssize_t ubiquity_fuse_splice(int from, off_t *from_offset, int to, off_t *to_offset,
                                           size_t length, unsigned int flags, void *data) {
  (void)data;
  extern ssize_t splice(int, loff_t *, int, loff_t *, size_t, unsigned int);
  return splice(from, (loff_t *)from_offset, to, (loff_t *)to_offset, length, flags);
}

/// Lets the session's INIT reply pass through `ubiquity_fuse_writev`. After mounting, before the
/// loop.
///
/// Clones of the device and splicing are as without it: libfuse passes the clone's descriptor, and
/// splices where the two splice functions are given.
static inline int ubiquity_fuse_install(struct fuse_session *session, int device) {
  struct fuse_custom_io io;
  memset(&io, 0, sizeof io);
  io.read = ubiquity_fuse_read;
  io.writev = ubiquity_fuse_writev;
  io.splice_receive = ubiquity_fuse_splice;
  io.splice_send = ubiquity_fuse_splice;
  return fuse_session_custom_io(session, &io, device);
}

/// Has the kernel queue again what it gave to a daemon and has no answer to. Their numbers have the
/// bit UBIQUITY_FUSE_RESENT then. FUSE_NOTIFY_RESEND, Linux 6.9; gives 0 or -errno.
static inline int ubiquity_fuse_resend(int device) {
  struct fuse_out_header header = {sizeof header, 7, 0};
  return write(device, &header, sizeof header) == sizeof header ? 0 : -errno;
}

/// Has the kernel ask again for every name that it knows. It takes no lock. FUSE_NOTIFY_INC_EPOCH,
/// protocol 7.44 (Linux 6.16); gives 0 or -errno.
static inline int ubiquity_fuse_begin_epoch(int device) {
  struct fuse_out_header header = {sizeof header, 8, 0};
  return write(device, &header, sizeof header) == sizeof header ? 0 : -errno;
}

static const uint32_t ubiquity_fuse_epoch_minor = 44;

/// Lets the other thread of a processor go on, in a loop that waits.
static inline void ubiquity_fuse_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static const uint64_t ubiquity_fuse_handle_killpriv_v2 = UBIQUITY_FUSE_HANDLE_KILLPRIV_V2;
static const uint64_t ubiquity_fuse_direct_io_allow_mmap = UBIQUITY_FUSE_DIRECT_IO_ALLOW_MMAP;
/// Set in the number of a request that another daemon had read before.
static const uint64_t ubiquity_fuse_resent = 1ULL << 63;
static const uint64_t ubiquity_fuse_has_resend = UBIQUITY_FUSE_HAS_RESEND;
static const uint64_t ubiquity_fuse_passthrough = UBIQUITY_FUSE_PASSTHROUGH;

#endif
