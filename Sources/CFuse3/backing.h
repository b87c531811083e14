#ifndef UBIQUITYFS_CFUSE3_BACKING_H
#define UBIQUITYFS_CFUSE3_BACKING_H

// Passthrough: files that the kernel reads and writes by itself. libfuse 3.14 knows nothing of it;
// what is here is the kernel's protocol from 7.40 on. Source: include/uapi/linux/fuse.h.

#include <errno.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <sys/ioctl.h>

struct ubiquity_fuse_backing_map {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};

#define UBIQUITY_FUSE_BACKING_OPEN _IOW(229, 1, struct ubiquity_fuse_backing_map)
#define UBIQUITY_FUSE_BACKING_CLOSE _IOW(229, 2, uint32_t)

/// The answer to OPEN as the kernel knows it; the header of Debian 12 has padding for `backing_id`.
struct ubiquity_fuse_open_out {
  uint64_t fh;
  uint32_t open_flags;
  int32_t backing_id;
};

/// The answer to CREATE.
struct ubiquity_fuse_create_out {
  struct fuse_entry_out entry;
  struct ubiquity_fuse_open_out open;
};

/// Makes a file known to the connection; gives its positive number, or a negative errno.
static inline int ubiquity_fuse_backing_open(int device, int fd) {
  struct ubiquity_fuse_backing_map map = {fd, 0, 0};
  int id = ioctl(device, UBIQUITY_FUSE_BACKING_OPEN, &map);
  return id > 0 ? id : id == 0 ? -EIO : -errno;
}

static inline void ubiquity_fuse_backing_close(int device, int id) {
  uint32_t number = (uint32_t)id;
  (void)ioctl(device, UBIQUITY_FUSE_BACKING_CLOSE, &number);
}

static const uint32_t ubiquity_fopen_direct_io = FOPEN_DIRECT_IO;
static const uint32_t ubiquity_fopen_noflush = FOPEN_NOFLUSH;
static const uint32_t ubiquity_fopen_passthrough = 1 << 7;

#endif
