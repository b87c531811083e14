#define _GNU_SOURCE

#include "succession.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/// `early=N predecessor=PROCESS lock=FILE mount=DEVICE:RECORD ...`
const char *const linux_succession_variable = "UBIQUITYFS_SUCCESSION";

/// A daemon whose thread waits in the kernel does not end. The next one finds out whether it may
/// begin.
static const int patience = 250;
/// Who dies within this, in nanoseconds, died early; who crashes, within the second.
static const uint64_t early_death = 1000000000;
static const uint64_t early_crash = 60000000000;
static const uint32_t most_early_deaths = 6;

// A realtime signal: another one of its number that somebody sent does not swallow it.
int linux_death_signal(void) { return SIGRTMIN + 4; }

uint64_t linux_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void linux_leave_mount(struct linux_legacy *legacy, int device, int record) {
  if (legacy->mounts == most_kept) return;
  legacy->devices[legacy->mounts] = device;
  legacy->records[legacy->mounts] = record;
  legacy->mounts++;
}

// Text without `snprintf`, which is not async-signal-safe.

static struct {
  char bytes[32 + most_kept * 32];
  size_t length;
} text;

static void put(const char *word) {
  size_t length = strlen(word);
  if (text.length + length >= sizeof text.bytes) return;
  memcpy(text.bytes + text.length, word, length + 1);
  text.length += length;
}

static void put_number(uint32_t number) {
  char digits[12];
  size_t place = sizeof digits - 1;
  digits[place] = 0;
  do {
    digits[--place] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  put(digits + place);
}

static void describe(const struct linux_legacy *legacy, uint32_t early_deaths) {
  text.length = 0;
  put(linux_succession_variable);
  put("=early=");
  put_number(early_deaths);
  put(" predecessor=");
  put_number((uint32_t)legacy->daemon);
  put(" lock=");
  put_number((uint32_t)legacy->lock);
  for (int index = 0; index < legacy->mounts; index++) {
    put(" mount=");
    put_number((uint32_t)legacy->devices[index]);
    put(":");
    put_number((uint32_t)legacy->records[index]);
  }
}

/// The environment, with what `text` says in the place of what it said before.
static char **environment(void) {
  static char *result[4096];
  size_t count = 0;
  size_t length = strlen(linux_succession_variable);
  for (char **entry = environ; entry && *entry; entry++) {
    if (strncmp(*entry, linux_succession_variable, length) == 0 && (*entry)[length] == '=')
      continue;
    // A fault that a test asks for is that of one daemon.
    static const char fault[] = "UBIQUITYFS_FAULT";
    if (strncmp(*entry, fault, sizeof fault - 1) == 0) continue;
    if (count < sizeof result / sizeof *result - 2) result[count++] = *entry;
  }
  result[count++] = text.bytes;
  result[count] = NULL;
  return result;
}

static void keep_over_exec(int file) { fcntl(file, F_SETFD, 0); }

void linux_become_successor(const struct linux_successor *successor,
                            const struct linux_legacy *legacy, int end, uint64_t start,
                            int is_crash) {
  uint64_t life = linux_now() - start;
  int is_early = life < early_death || (is_crash && life < early_crash);
  uint32_t early_deaths = is_early ? successor->early_deaths + 1 : 0;
  if (early_deaths > most_early_deaths) return;
  if (end >= 0) {
    struct pollfd entry = {end, POLLIN, 0};
    poll(&entry, 1, patience);
  }
  // Backs off: 0, 0, 100, 200, ... milliseconds.
  if (early_deaths > 1) poll(NULL, 0, 50 << (early_deaths - 1));
  describe(legacy, early_deaths);
  char **variables = environment();
  keep_over_exec(legacy->lock);
  for (int index = 0; index < legacy->mounts; index++) {
    keep_over_exec(legacy->devices[index]);
    keep_over_exec(legacy->records[index]);
  }
  int log = open(successor->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (log >= 0) {
    dup2(log, 1);
    dup2(log, 2);
  }
  // The signal of the daemon's death may still be pending, and would end the next daemon. To ignore
  // it for a moment takes it away.
  prctl(PR_SET_PDEATHSIG, 0);
  signal(linux_death_signal(), SIG_IGN);
  signal(linux_death_signal(), SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execve(successor->program, successor->arguments, variables);
  // An upgrade may just be replacing the file. This process is still the program as it was.
  execve("/proc/self/exe", successor->arguments, variables);
}
