#define _GNU_SOURCE

#include "record.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
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

int linux_send_datagram(const char *address, const char *text) {
  struct sockaddr_un place = {.sun_family = AF_UNIX};
  size_t length = strlen(address);
  if (length == 0 || length >= sizeof place.sun_path) return -EINVAL;
  memcpy(place.sun_path, address, length);
  if (place.sun_path[0] == '@') place.sun_path[0] = 0;
  int file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (file < 0) return -errno;
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
  ssize_t sent =
      sendto(file, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&place, size);
  int failure = errno;
  close(file);
  return sent >= 0 ? 0 : -failure;
}

int32_t linux_thread_number(void) { return (int32_t)syscall(SYS_gettid); }
