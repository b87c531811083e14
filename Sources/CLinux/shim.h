#ifndef UBIQUITYFS_CLINUX_SHIM_H
#define UBIQUITYFS_CLINUX_SHIM_H

// What Linux has beyond POSIX and the Glibc module leaves out. Each function is the system call.

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/types.h>
#include <unistd.h>

long syscall(long number, ...);

static const int linux_falloc_keep_size = FALLOC_FL_KEEP_SIZE;
static const int linux_falloc_punch_hole = FALLOC_FL_PUNCH_HOLE;
static const int linux_falloc_zero_range = FALLOC_FL_ZERO_RANGE;
static const int linux_falloc_collapse_range = FALLOC_FL_COLLAPSE_RANGE;
static const int linux_falloc_insert_range = FALLOC_FL_INSERT_RANGE;
static const unsigned int linux_rename_noreplace = 1;
static const unsigned int linux_rename_exchange = 2;
static const unsigned int linux_rename_whiteout = 4;
static const int linux_seek_data = 3;
static const int linux_seek_hole = 4;
static const int linux_mnt_detach = 2;
static const int linux_o_direct = __O_DIRECT;

/// The credentials that SO_PEERCRED gives.
struct linux_peer {
  int32_t pid;
  uint32_t uid;
  uint32_t gid;
};

static inline int linux_fallocate(int fd, int mode, int64_t offset, int64_t length) {
  return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

static inline int64_t linux_copy_file_range(int from, int64_t *from_offset, int to, int64_t *to_offset,
                                            size_t length) {
  return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, length, 0);
}

static inline int linux_renameat2(int from, const char *from_path, int to, const char *to_path,
                                  unsigned int flags) {
  return (int)syscall(SYS_renameat2, from, from_path, to, to_path, flags);
}

static inline int64_t linux_getdents64(int fd, void *buffer, size_t size) {
  return syscall(SYS_getdents64, fd, buffer, size);
}

static inline int linux_lsetxattr(const char *path, const char *name, const void *value, size_t size,
                                  int flags) {
  return (int)syscall(SYS_lsetxattr, path, name, value, size, flags);
}

static inline int64_t linux_lgetxattr(const char *path, const char *name, void *value, size_t size) {
  return syscall(SYS_lgetxattr, path, name, value, size);
}

static inline int64_t linux_llistxattr(const char *path, void *names, size_t size) {
  return syscall(SYS_llistxattr, path, names, size);
}

static inline int linux_lremovexattr(const char *path, const char *name) {
  return (int)syscall(SYS_lremovexattr, path, name);
}

static inline int linux_syncfs(int fd) { return (int)syscall(SYS_syncfs, fd); }

/// The magic number of the file system that a path is on; negative for an error.
static inline int64_t linux_file_system_type(const char *path) {
  struct statfs result;
  return statfs(path, &result) == 0 ? (int64_t)(uint32_t)result.f_type : -1;
}

static inline int linux_umount2(const char *path, int flags) {
  return (int)syscall(SYS_umount2, path, flags);
}

/// Closed by exec.
static inline int linux_eventfd(void) { return (int)syscall(SYS_eventfd2, 0, 02000000); }

/// Only where the processor's number fits a mask of 1024.
static inline int linux_pin_thread(int processor) {
  uint64_t mask[16] = {0};
  if (processor < 0 || processor >= 1024) return -1;
  mask[processor / 64] = 1ull << (processor % 64);
  return (int)syscall(SYS_sched_setaffinity, 0, sizeof mask, mask);
}

#endif
