#define _GNU_SOURCE
#include "simulation.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static simulation_enqueue enqueue;
/// Dispatch has threads of its own for its own ends, whose timers are to go by the machine's clock.
static _Thread_local int is_simulated;
static int64_t now;
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

// MARK: Dispatch, which sleeping tasks end up in too. Its dispatch_sync stays: with nothing queued it
// runs its block on this thread.

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

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!is_simulated || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
    return (int)real_syscall(SYS_clock_gettime, clock, (long)time, 0, 0, 0, 0);
  int isOfDay = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  time->tv_sec = now / 1000000000 + (isOfDay ? 1767225600 : 0);
  time->tv_nsec = now % 1000000000;
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

/// Swift's and BoringSSL's randomness.
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
  long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  if (number == SYS_getrandom && is_simulated) return getrandom((void *)a, (size_t)b, (unsigned)c);
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

void simulation_set_time(int64_t time) { now = time; }

void simulation_set_seed(uint64_t seed) { state = seed; }

void simulation_begin(simulation_enqueue callback) {
  enqueue = callback;
  is_simulated = 1;
  swift_task_enqueueGlobal_hook = (void *)take_job;
  swift_task_enqueueMainExecutor_hook = (void *)take_job;
}
