#define _GNU_SOURCE

#include "shim.h"

#include <fcntl.h>
#include <link.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/rtnetlink.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

const int linux_falloc_keep_size = FALLOC_FL_KEEP_SIZE;
const int linux_falloc_punch_hole = FALLOC_FL_PUNCH_HOLE;
const int linux_falloc_zero_range = FALLOC_FL_ZERO_RANGE;
const int linux_falloc_collapse_range = FALLOC_FL_COLLAPSE_RANGE;
const int linux_falloc_insert_range = FALLOC_FL_INSERT_RANGE;
const unsigned int linux_rename_noreplace = RENAME_NOREPLACE;
const unsigned int linux_rename_exchange = RENAME_EXCHANGE;
const unsigned int linux_rename_whiteout = RENAME_WHITEOUT;
const int linux_seek_data = SEEK_DATA;
const int linux_seek_hole = SEEK_HOLE;
const int linux_mnt_detach = MNT_DETACH;
const int linux_o_direct = O_DIRECT;

int linux_fallocate(int fd, int mode, int64_t offset, int64_t length) {
  return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

int64_t linux_copy_file_range(int from, int64_t *from_offset, int to, int64_t *to_offset,
                                            size_t length) {
  return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, length, 0);
}

int linux_clone_file(int from, int to) { return ioctl(to, FICLONE, from); }

int linux_open_beneath(int directory, const char *path, int flags, unsigned int mode) {
  struct open_how how = {
      .flags = (unsigned int)(flags | O_CLOEXEC),
      .mode = flags & O_CREAT ? mode : 0,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
  };
  return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
}

int linux_renameat2(int from, const char *from_path, int to, const char *to_path,
                                  unsigned int flags) {
  return (int)syscall(SYS_renameat2, from, from_path, to, to_path, flags);
}

int64_t linux_getdents64(int fd, void *buffer, size_t size) {
  return syscall(SYS_getdents64, fd, buffer, size);
}

int linux_lsetxattr(const char *path, const char *name, const void *value, size_t size,
                                  int flags) {
  return (int)syscall(SYS_lsetxattr, path, name, value, size, flags);
}

int64_t linux_lgetxattr(const char *path, const char *name, void *value, size_t size) {
  return syscall(SYS_lgetxattr, path, name, value, size);
}

int64_t linux_llistxattr(const char *path, void *names, size_t size) {
  return syscall(SYS_llistxattr, path, names, size);
}

int linux_lremovexattr(const char *path, const char *name) {
  return (int)syscall(SYS_lremovexattr, path, name);
}

int linux_syncfs(int fd) { return (int)syscall(SYS_syncfs, fd); }

int linux_start_writeback(int fd, int64_t offset, int64_t count) {
  return sync_file_range(fd, offset, count, SYNC_FILE_RANGE_WRITE);
}

int64_t linux_file_system_type(const char *path) {
  struct statfs result;
  return statfs(path, &result) == 0 ? (int64_t)(uint32_t)result.f_type : -1;
}

int linux_umount2(const char *path, int flags) {
  return (int)syscall(SYS_umount2, path, flags);
}

int linux_eventfd(void) { return (int)syscall(SYS_eventfd2, 0, EFD_CLOEXEC); }

int linux_spread_directories(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  int flags = 0;
  int result = ioctl(fd, FS_IOC_GETFLAGS, &flags);
  if (result == 0 && !(flags & FS_TOPDIR_FL)) {
    flags |= FS_TOPDIR_FL;
    result = ioctl(fd, FS_IOC_SETFLAGS, &flags);
  }
  close(fd);
  return result;
}

long linux_malloc_slack(void) {
#ifdef __GLIBC__
  long resident = 0, shared = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file) return 0;
  int count = fscanf(file, "%*s %ld %ld", &resident, &shared);
  fclose(file);
  if (count != 2) return 0;
  struct mallinfo2 info = mallinfo2();
  long own = (resident - shared) * sysconf(_SC_PAGESIZE);
  long slack = own - (long)info.uordblks - (long)info.hblkhd;
  return slack > 0 ? slack : 0;
#else
  return 0;
#endif
}

void linux_malloc_trim(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void linux_malloc_limit(int arenas, int largest, int kept) {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, arenas);
  mallopt(M_MMAP_THRESHOLD, largest);
  mallopt(M_TRIM_THRESHOLD, kept);
#endif
}

/// dl_iterate_phdr(3) gives the program itself first.
static int unmap_program_pages(struct dl_phdr_info *program, size_t size, void *argument) {
  (void)size;
  (void)argument;
  unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE);
  for (int number = 0; number < program->dlpi_phnum; number++) {
    const ElfW(Phdr) *segment = &program->dlpi_phdr[number];
    if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W)) continue;
    // The last page may be that of another segment too. It stays.
    unsigned long start = (program->dlpi_addr + segment->p_vaddr + page - 1) & ~(page - 1);
    unsigned long end = (program->dlpi_addr + segment->p_vaddr + segment->p_memsz) & ~(page - 1);
    if (start < end) madvise((void *)start, end - start, MADV_DONTNEED);
  }
  return 1;
}

void linux_unmap_program_pages(void) { dl_iterate_phdr(unmap_program_pages, NULL); }

int linux_network_changes(void) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (fd < 0) return fd;
  struct sockaddr_nl address;
  memset(&address, 0, sizeof address);
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR |
                      RTMGRP_IPV6_ROUTE;
  if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}
