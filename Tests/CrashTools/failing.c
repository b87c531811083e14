// Preloaded into the daemon: makes one of its system calls on a disk fail.
//
//   FAIL_BELOW=DIRECTORY   only calls on what is below it count
//   FAIL_AT=N              the Nth call fails; 0 none
//   FAIL_WITH=ERRNO        as a number
//   FAIL_LOG=FILE          each call that counts, a line each
//
// Calls that change the disk: SQLite's and libfuse's as well as the program's own, since all of
// them call libc.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long calls;

// Whether this call is the one. `path` is relative to nothing: the program uses absolute paths.
static int fails(const char *call, const char *path) {
  static const char *below;
  static long at;
  static int code;
  pthread_mutex_lock(&lock);
  if (!below) {
    below = getenv("FAIL_BELOW") ? getenv("FAIL_BELOW") : "/nowhere";
    at = getenv("FAIL_AT") ? atol(getenv("FAIL_AT")) : 0;
    code = getenv("FAIL_WITH") ? atoi(getenv("FAIL_WITH")) : EIO;
  }
  int result = 0;
  const char *name = strrchr(path, '/');
  // The log of the daemon is not its data.
  if (!strncmp(path, below, strlen(below)) && !(name && !strncmp(name, "/daemon.", 8))) {
    calls++;
    result = calls == at ? code : 0;
    if (getenv("FAIL_LOG")) {
      // Opened each time: the daemon closes what it did not open itself when it starts.
      int (*open_it)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
      ssize_t (*write_it)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
      char line[PATH_MAX + 64];
      int length =
        snprintf(line, sizeof line, "%ld %s %s%s\n", calls, call, path, result ? " FAILS" : "");
      int journal = open_it(getenv("FAIL_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      if (journal < 0 || write_it(journal, line, length) < 0) abort();
      close(journal);
    }
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static int fails_file(const char *call, int file) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return fails(call, path);
}

#define real(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define on_file(result, name, parameters, ...)                                                    \
  result name parameters {                                                                        \
    static __typeof__(&name) next;                                                                \
    if (!next) next = real(name);                                                                 \
    int code = fails_file(#name, file);                                                           \
    if (code) { errno = code; return -1; }                                                        \
    return next(__VA_ARGS__);                                                                     \
  }
#define on_path(result, name, parameters, ...)                                                    \
  result name parameters {                                                                        \
    static __typeof__(&name) next;                                                                \
    if (!next) next = real(name);                                                                 \
    int code = fails(#name, path);                                                                \
    if (code) { errno = code; return -1; }                                                        \
    return next(__VA_ARGS__);                                                                     \
  }

on_file(ssize_t, write, (int file, const void *bytes, size_t count), file, bytes, count)
on_file(ssize_t, writev, (int file, const struct iovec *parts, int count), file, parts, count)
on_file(ssize_t, pwrite, (int file, const void *bytes, size_t count, off_t at), file, bytes,
        count, at)
on_file(ssize_t, pwrite64, (int file, const void *bytes, size_t count, off64_t at), file, bytes,
        count, at)
on_file(ssize_t, pwritev, (int file, const struct iovec *parts, int count, off_t at), file, parts,
        count, at)
on_file(int, ftruncate, (int file, off_t size), file, size)
on_file(int, ftruncate64, (int file, off64_t size), file, size)
on_file(int, fallocate, (int file, int mode, off_t at, off_t count), file, mode, at, count)
on_file(int, fallocate64, (int file, int mode, off64_t at, off64_t count), file, mode, at, count)
on_file(int, fsync, (int file), file)
on_file(int, fdatasync, (int file), file)
on_path(int, mkdir, (const char *path, mode_t mode), path, mode)
on_path(int, unlink, (const char *path), path)
on_path(int, rename, (const char *path, const char *to), path, to)
on_path(int, link, (const char *path, const char *to), path, to)

static int open_checked(const char *call, const char *path, int flags, mode_t mode) {
  static int (*next)(const char *, int, ...);
  if (!next) next = dlsym(RTLD_NEXT, "open");
  // What is there already is opened, not made.
  int code = (flags & O_CREAT) && access(path, F_OK) ? fails(call, path) : 0;
  if (code) { errno = code; return -1; }
  return next(path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_checked("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_checked("open64", path, flags | O_LARGEFILE, mode);
}
