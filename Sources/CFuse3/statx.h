#ifndef UBIQUITYFS_CFUSE3_STATX_H
#define UBIQUITYFS_CFUSE3_STATX_H

// FUSE_STATX, by which the kernel asks for the time of birth (Linux 6.6). libfuse 3.14 does not
// know it. Source: the kernel's include/uapi/linux/fuse.h.

#include <stdint.h>
#include <sys/sysmacros.h>

#define UBIQUITY_FUSE_STATX 52

struct ubiquity_fuse_sx_time {
  int64_t seconds;
  uint32_t nanoseconds;
  int32_t reserved;
};

struct ubiquity_fuse_statx {
  uint32_t mask;
  uint32_t block_size;
  uint64_t attributes;
  uint32_t links;
  uint32_t user;
  uint32_t group;
  uint16_t mode;
  uint16_t reserved;
  uint64_t number;
  uint64_t size;
  uint64_t blocks;
  uint64_t attributes_mask;
  struct ubiquity_fuse_sx_time accessed;
  struct ubiquity_fuse_sx_time born;
  struct ubiquity_fuse_sx_time changed;
  struct ubiquity_fuse_sx_time modified;
  uint32_t device_major;
  uint32_t device_minor;
  uint32_t file_system_major;
  uint32_t file_system_minor;
  uint64_t spare[14];
};

/// The answer to FUSE_STATX.
struct ubiquity_fuse_statx_out {
  uint64_t valid_seconds;
  uint32_t valid_nanoseconds;
  uint32_t flags;
  uint64_t spare[2];
  struct ubiquity_fuse_statx stat;
};

/// STATX_BASIC_STATS and STATX_BTIME.
static const uint32_t ubiquity_statx_basic = 0x7ff;
static const uint32_t ubiquity_statx_born = 0x800;

static inline uint32_t ubiquity_device_major(uint64_t device) { return major(device); }
static inline uint32_t ubiquity_device_minor(uint64_t device) { return minor(device); }

#endif
