#define _GNU_SOURCE

#include "record.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int linux_memory_file(const char *name, uint64_t size) {
  int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0) return -errno;
  if (ftruncate(file, (off_t)size) == 0) return file;
  int failure = errno;
  close(file);
  return -failure;
}

int32_t linux_thread_number(void) { return (int32_t)syscall(SYS_gettid); }
