#define _GNU_SOURCE

#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// A line in the log for a daemon that a trap or a fault ends. The handler runs in whatever state
// the thread is in: it calls nothing that is not async-signal-safe (signal-safety(7)).

static char log_path[4096];
static int writes_to_stderr;
static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGABRT};
static const char *const names[] = {"SIGSEGV", "SIGBUS", "SIGILL", "SIGTRAP", "SIGFPE", "SIGABRT"};
enum { signal_count = sizeof signals / sizeof *signals };
static struct sigaction former[signal_count];

struct text {
  char bytes[512];
  size_t length;
};

static void add(struct text *text, const char *part) {
  while (*part && text->length < sizeof text->bytes) text->bytes[text->length++] = *part++;
}

static void add_number(struct text *text, uint64_t value, unsigned base, int width) {
  char digits[65];
  int count = 0;
  do {
    digits[count++] = "0123456789abcdef"[value % base];
    value /= base;
  } while (value || count < width);
  while (count && text->length < sizeof text->bytes) text->bytes[text->length++] = digits[--count];
}

// The civil date of a count of days since 1970, as gmtime(3) gives it, which is not safe here.
// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
static void add_time(struct text *text, const struct timespec *now) {
  int64_t days = now->tv_sec / 86400, seconds = now->tv_sec % 86400;
  days += 719468;
  int64_t era = days / 146097, day_of_era = days % 146097;
  int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  int64_t shifted = (5 * day_of_year + 2) / 153;
  int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  add_number(text, (uint64_t)(year_of_era + era * 400 + (month <= 2)), 10, 4);
  add(text, "-");
  add_number(text, (uint64_t)month, 10, 2);
  add(text, "-");
  add_number(text, (uint64_t)(day_of_year - (153 * shifted + 2) / 5 + 1), 10, 2);
  add(text, "T");
  add_number(text, (uint64_t)(seconds / 3600), 10, 2);
  add(text, ":");
  add_number(text, (uint64_t)(seconds / 60 % 60), 10, 2);
  add(text, ":");
  add_number(text, (uint64_t)(seconds % 60), 10, 2);
  add(text, ".");
  add_number(text, (uint64_t)now->tv_nsec / 1000, 10, 6);
  add(text, "Z");
}

static void crashed(int number, siginfo_t *info, void *context) {
  (void)context;
  int error = errno;
  int index = 0;
  while (index < signal_count - 1 && signals[index] != number) index++;
  struct timespec now = {0, 0};
  clock_gettime(CLOCK_REALTIME, &now);
  struct text text = {.length = 0};
  add_time(&text, &now);
  add(&text, " critical daemon: the daemon ends by ");
  add(&text, names[index]);
  add(&text, ", a defect of it (thread ");
  add_number(&text, (uint64_t)gettid(), 10, 1);
  if (info->si_code > 0) {
    add(&text, ", address 0x");
    add_number(&text, (uint64_t)(uintptr_t)info->si_addr, 16, 1);
  }
  add(&text, "). Closed files are safe. Please report this line with the lines around it.\n");
  int file = open(log_path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file >= 0 && write(file, text.bytes, text.length) < 0) errno = error;
  if (file >= 0) close(file);
  if (writes_to_stderr && write(2, text.bytes, text.length) < 0) errno = error;
  // What was there before acts now: a fault happens again when this returns, a signal that was sent
  // has to be sent again.
  sigaction(number, &former[index], NULL);
  errno = error;
  if (info->si_code <= 0) raise(number);
}

int linux_log_crashes(const char *path, int to_stderr) {
  int is_first = !log_path[0];
  if (strlen(path) >= sizeof log_path) return -ENAMETOOLONG;
  strcpy(log_path, path);
  writes_to_stderr = to_stderr;
  if (!is_first) return 0;
  for (int index = 0; index < signal_count; index++) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = crashed;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(signals[index], &action, &former[index]);
  }
  return 0;
}
