#ifndef UBIQUITYFS_CLINUX_SHIM_H
#define UBIQUITYFS_CLINUX_SHIM_H

// What Linux has beyond POSIX and the Glibc module leaves out. Each function is the system call.
//
// No header of libc or the kernel is included here: what one declares would be declared by this
// module too, and which of the two Swift takes it from would depend on what was compiled first.

#include <stddef.h>
#include <stdint.h>

extern const int linux_falloc_keep_size;
extern const int linux_falloc_punch_hole;
extern const int linux_falloc_zero_range;
extern const int linux_falloc_collapse_range;
extern const int linux_falloc_insert_range;
extern const unsigned int linux_rename_noreplace;
extern const unsigned int linux_rename_exchange;
extern const unsigned int linux_rename_whiteout;
extern const int linux_seek_data;
extern const int linux_seek_hole;
extern const int linux_mnt_detach;
extern const int linux_o_direct;

/// The credentials that SO_PEERCRED gives.
struct linux_peer {
  int32_t pid;
  uint32_t uid;
  uint32_t gid;
};

int linux_fallocate(int fd, int mode, int64_t offset, int64_t length);

int64_t linux_copy_file_range(int from, int64_t *from_offset, int to, int64_t *to_offset,
    size_t length);

/// `ioctl_ficlone(2)`.
int linux_clone_file(int from, int to);

/// `openat2(2)` with O_CLOEXEC: follows no symbolic link and finds nothing outside of `directory`.
int linux_open_beneath(int directory, const char *path, int flags, unsigned int mode);

int linux_renameat2(int from, const char *from_path, int to, const char *to_path,
    unsigned int flags);

int64_t linux_getdents64(int fd, void *buffer, size_t size);

int linux_lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags);

int64_t linux_lgetxattr(const char *path, const char *name, void *value, size_t size);

int64_t linux_llistxattr(const char *path, void *names, size_t size);

int linux_lremovexattr(const char *path, const char *name);

int linux_syncfs(int fd);

/// Has the kernel begin to write what was changed in a part of a file to the disk. It does not wait
/// for the end, and makes nothing durable. `sync_file_range(2)`.
int linux_start_writeback(int fd, int64_t offset, int64_t count);

/// The magic number of the file system that a path is on; negative for an error.
int64_t linux_file_system_type(const char *path);

int linux_umount2(const char *path, int flags);

/// Closed by exec.
int linux_eventfd(void);

/// A socket of rtnetlink(7) that is told when links, addresses and routes change, of this thread's
/// network namespace. Does not block; closed by exec.
int linux_network_changes(void);

/// Has ext2/3/4 put the directories that are made in this one far from each other (chattr +T).
int linux_spread_directories(const char *path);

/// Has a signal that ends the process for a defect of it leave a line in the file at `path`, which
/// is appended to, and on stderr. Then what was done before for the signal is done. To be called
/// before the process has other threads. -ENAMETOOLONG, or 0.
int linux_log_crashes(const char *path, int to_stderr);

/// How many bytes of this process's memory are neither a file's nor in use by malloc's callers:
/// freed and not given back, beside stacks and the like. 0 where that is not known.
long linux_malloc_slack(void);

/// `malloc_trim(3)`.
void linux_malloc_trim(void);

/// How many arenas malloc makes at the most, from what size on a block is mapped by itself, and how
/// much free memory at an arena's end is not given back at once.
void linux_malloc_limit(int arenas, int largest, int kept);

/// Takes the program's code and constants out of this process's memory. They stay in the page
/// cache, and each page comes back when it is used.
void linux_unmap_program_pages(void);

#endif
