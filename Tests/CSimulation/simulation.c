#define _GNU_SOURCE
#include "simulation.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static simulation_enqueue enqueue;
/// Dispatch has threads of its own for its own ends, whose timers are to go by the machine's clock.
static _Thread_local int is_simulated;
static int64_t now;
/// By how much the clock of day of the machine whose turn it is goes wrong.
static int64_t skew;
static uint64_t state;

enum { kind_job, kind_block, kind_function };

// MARK: Swift's runtime

#define SWIFT __attribute__((swiftcall))

typedef SWIFT void (*original)(void *job);

extern void *swift_task_enqueueGlobal_hook;
extern void *swift_task_enqueueMainExecutor_hook;
extern SWIFT void swift_job_run(void *job, void *executor, void *implementation);

static SWIFT void take_job(void *job, original next) {
  (void)next;
  enqueue((struct simulation_item){kind_job, job, 0}, 0);
}

// MARK: Dispatch, which sleeping tasks end up in too. Its dispatch_sync stays: with nothing queued
// it runs its block on this thread.

struct block {
  void *isa;
  int32_t flags;
  int32_t reserved;
  void (*invoke)(void *block);
};

struct counting_block {
  void *isa;
  int32_t flags;
  int32_t reserved;
  void (*invoke)(void *block, size_t index);
};

extern void *_Block_copy(const void *block);
extern void _Block_release(const void *block);

/// The two highest bits of a dispatch_time_t say which clock it is of; here all clocks are one.
static int64_t moment(uint64_t when) { return (int64_t)(when & ~((uint64_t)3 << 62)); }

void dispatch_async(void *queue, void *block) {
  (void)queue;
  enqueue((struct simulation_item){kind_block, _Block_copy(block), 0}, 0);
}

void dispatch_after(uint64_t when, void *queue, void *block) {
  (void)queue;
  enqueue((struct simulation_item){kind_block, _Block_copy(block), 0}, moment(when));
}

void dispatch_async_f(void *queue, void *context, void (*function)(void *)) {
  (void)queue;
  enqueue((struct simulation_item){kind_function, context, (void *)function}, 0);
}

void dispatch_after_f(uint64_t when, void *queue, void *context, void (*function)(void *)) {
  (void)queue;
  enqueue((struct simulation_item){kind_function, context, (void *)function}, moment(when));
}

void dispatch_apply(size_t count, void *queue, void *block) {
  (void)queue;
  for (size_t index = 0; index < count; index++)
    ((struct counting_block *)block)->invoke(block, index);
}

void simulation_run(struct simulation_item item) {
  switch (item.kind) {
  case kind_job:
    swift_job_run(item.subject, 0, 0);
    break;
  case kind_block:
    ((struct block *)item.subject)->invoke(item.subject);
    _Block_release(item.subject);
    break;
  default:
    ((void (*)(void *))item.function)(item.subject);
  }
}

// MARK: Time and randomness

static long real_syscall(long number, long a, long b, long c, long d, long e, long f) {
  static long (*next)(long, ...);
  if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  return next(number, a, b, c, d, e, f);
}

static void fill(unsigned char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    state += 0x9E3779B97F4A7C15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    bytes[i] = (unsigned char)(z >> 56);
  }
}

static int64_t time_of_day(void) { return now + skew + 1767225600000000000; }

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!is_simulated || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
    return (int)real_syscall(SYS_clock_gettime, clock, (long)time, 0, 0, 0, 0);
  int64_t moment = now;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) moment = time_of_day();
  time->tv_sec = moment / 1000000000;
  time->tv_nsec = moment % 1000000000;
  return 0;
}

ssize_t getrandom(void *bytes, size_t count, unsigned flags) {
  if (!is_simulated) return real_syscall(SYS_getrandom, (long)bytes, (long)count, flags, 0, 0, 0);
  fill(bytes, count);
  return (ssize_t)count;
}

int getentropy(void *bytes, size_t count) {
  return getrandom(bytes, count, 0) == (ssize_t)count ? 0 : -1;
}

/// Room that is kept and never used costs memory here: a hole does as well.
static int make_room(int file, off_t end) {
  struct stat status;
  if (fstat(file, &status) != 0) return -1;
  return status.st_size >= end ? 0 : ftruncate(file, end);
}

/// Swift's and BoringSSL's randomness; and room for files.
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
  long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  if (number == SYS_getrandom && is_simulated) return getrandom((void *)a, (size_t)b, (unsigned)c);
  if (number == SYS_fallocate && is_simulated && b == 0) return make_room((int)a, c + d);
  return real_syscall(number, a, b, c, d, e, f);
}

/// A crash here is the end of a device's tasks and not of the machine: nothing need be on the disk.
int fsync(int file) {
  (void)file;
  return 0;
}

int fdatasync(int file) {
  (void)file;
  return 0;
}

// What is written has the time of the machine that writes it: a start after a crash goes by that.

static void stamp(int file) {
  int64_t moment = time_of_day();
  struct timespec time = {moment / 1000000000, moment % 1000000000};
  futimens(file, (struct timespec[]){time, time});
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
  ssize_t done = real_syscall(SYS_pwrite64, file, (long)bytes, (long)count, offset, 0, 0);
  if (done > 0 && is_simulated) stamp(file);
  return done;
}

int ftruncate(int file, off_t size) {
  int result = (int)real_syscall(SYS_ftruncate, file, size, 0, 0, 0, 0);
  if (result == 0 && is_simulated) stamp(file);
  return result;
}

int open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  if (is_simulated && (flags & O_CREAT) && !(flags & O_EXCL)) {
    int file = (int)real_syscall(SYS_openat, AT_FDCWD, (long)path, flags & ~O_CREAT, 0, 0, 0);
    if (file >= 0 || errno != ENOENT) return file;
  }
  int file = (int)real_syscall(SYS_openat, AT_FDCWD, (long)path, flags, mode, 0, 0);
  if (file >= 0 && is_simulated && (flags & O_CREAT)) stamp(file);
  return file;
}

void simulation_set_time(int64_t time) { now = time; }

void simulation_set_skew(int64_t nanoseconds) { skew = nanoseconds; }

// MARK: Devices' files

static int copy_file(const char *from, const char *to, const struct stat *status) {
  static char buffer[1 << 16];
  int source = open(from, O_RDONLY | O_CLOEXEC);
  int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  int result = source < 0 || target < 0 ? -1 : (int)real_syscall(
      SYS_ftruncate, target, status->st_size, 0, 0, 0, 0);
  off_t end = 0;
  while (result == 0 && end < status->st_size) {
    // Holes stay holes: most of a redo journal is one.
    off_t start = lseek(source, end, SEEK_DATA);
    if (start < 0) break;
    end = lseek(source, start, SEEK_HOLE);
    while (result == 0 && start < end) {
      size_t part = end - start < (off_t)sizeof buffer ? end - start : sizeof buffer;
      ssize_t count = pread(source, buffer, part, start);
      if (count <= 0 ||
          real_syscall(SYS_pwrite64, target, (long)buffer, count, start, 0, 0) != count)
        result = -1;
      start += count;
    }
  }
  if (target >= 0) futimens(target, (struct timespec[]){status->st_atim, status->st_mtim});
  if (source >= 0) close(source);
  if (target >= 0) close(target);
  return result;
}

/// Copies what is in one directory to another, or removes it.
static int walk(const char *from, const char *to, int isRemoval) {
  DIR *directory = opendir(from);
  if (!directory) return -1;
  int result = 0;
  struct dirent *entry;
  while (result == 0 && (entry = readdir(directory))) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char source[PATH_MAX], target[PATH_MAX];
    snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
    snprintf(target, sizeof target, "%s/%s", to, entry->d_name);
    struct stat status;
    if (lstat(source, &status) != 0) {
      result = -1;
    } else if (S_ISDIR(status.st_mode)) {
      if (!isRemoval) result = mkdir(target, 0700);
      if (result == 0) result = walk(source, target, isRemoval);
      if (isRemoval && result == 0) result = rmdir(source);
    } else if (isRemoval) {
      // A life that crashed has it open for ever; its memory goes now.
      result = truncate(source, 0);
      if (result == 0) result = unlink(source);
    } else {
      result = copy_file(source, target, &status);
    }
  }
  closedir(directory);
  return result;
}

int simulation_copy(const char *from, const char *to) {
  return mkdir(to, 0700) == 0 ? walk(from, to, 0) : -1;
}

int simulation_remove(const char *path) {
  int result = walk(path, "", 1);
  return result == 0 ? rmdir(path) : result;
}

// MARK: Processes

void simulation_prepare_process(void) {
  // Nothing may depend on addresses; should something, at least it is the same each time.
  personality(personality(0xFFFFFFFF) | ADDR_NO_RANDOMIZE);
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void simulation_print_lines(void) { setvbuf(stdout, NULL, _IOLBF, 0); }

int simulation_fork(void) { return fork(); }

void simulation_end(int status) { _exit(status); }

void simulation_set_seed(uint64_t seed) { state = seed; }

void simulation_begin(simulation_enqueue callback) {
  enqueue = callback;
  is_simulated = 1;
  swift_task_enqueueGlobal_hook = (void *)take_job;
  swift_task_enqueueMainExecutor_hook = (void *)take_job;
}
