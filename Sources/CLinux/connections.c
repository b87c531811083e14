#define _GNU_SOURCE

#include "connections.h"
#include "succession.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SYS_fsopen
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

// Of <linux/mount.h>, which collides with <sys/mount.h> in some versions of libc.
enum { fsopen_cloexec = 1, fsconfig_create = 6, fsmount_cloexec = 1 };

/// Writes decimal digits and gives how many. `snprintf` is not async-signal-safe.
static size_t put_number(char *text, uint32_t number) {
  char digits[12];
  int count = 0;
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  size_t length = 0;
  while (count > 0) text[length++] = digits[--count];
  return length;
}

/// The minor number, then `/abort`.
static void abort_path(char *path, const char *prefix, uint32_t minor) {
  size_t length = strlen(prefix);
  memcpy(path, prefix, length);
  length += put_number(path + length, minor);
  memcpy(path + length, "/abort", sizeof "/abort");
}

/// A directory of the control file system that is mounted nowhere.
static int open_control(void) {
  int context = (int)syscall(SYS_fsopen, "fusectl", fsopen_cloexec);
  if (context < 0) return -1;
  int mount = -1;
  if (syscall(SYS_fsconfig, context, fsconfig_create, NULL, NULL, 0) == 0)
    mount = (int)syscall(SYS_fsmount, context, fsmount_cloexec, 0);
  close(context);
  return mount;
}

int linux_open_fuse_abort(uint32_t minor) {
  char path[80];
  abort_path(path, "/sys/fs/fuse/connections/", minor);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file >= 0) return file;
  int failure = errno;
  if (failure != ENOENT) return -failure;
  int control = open_control();
  if (control < 0) return -failure;
  abort_path(path, "", minor);
  file = openat(control, path, O_WRONLY | O_CLOEXEC);
  if (file < 0) failure = errno;
  close(control);
  return file >= 0 ? file : -failure;
}

// The mount table.

// FNV-1a: it tells mount points apart that happen to have one number, nobody attacks it.
static const uint64_t hash_start = 0xcbf29ce484222325;

static uint64_t hash_byte(uint64_t hash, char byte) {
  return (hash ^ (unsigned char)byte) * 0x100000001b3;
}

uint64_t linux_mountpoint_hash(const char *escaped) {
  uint64_t hash = hash_start;
  while (*escaped) hash = hash_byte(hash, *escaped++);
  return hash;
}

/// One field of a line. `text` has its beginning, without an end.
struct field {
  char text[32];
  size_t length;
  uint64_t hash;
};

static int is_text(const struct field *field, const char *expected) {
  size_t length = strlen(expected);
  return field->length == length && length <= sizeof field->text &&
         memcmp(field->text, expected, length) == 0;
}

int linux_mount_table_has(const char *table, uint32_t minor, uint64_t place) {
  int file = open(table, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  // Filled with zeros, so that the digits have an end.
  char device[16] = "0:";
  put_number(device + 2, minor);
  // Fields 2 and 4 of a line are the device and the mount point. The type follows the first "-"
  // from field 6 on. Source: proc_pid_mountinfo(5).
  struct field field = {.length = 0, .hash = hash_start};
  int number = 0, type_number = -1;
  int matches = 1, is_found = 0;
  char piece[4096];
  ssize_t count;
  while (!is_found && (count = read(file, piece, sizeof piece)) > 0) {
    for (ssize_t index = 0; index < count && !is_found; index++) {
      char byte = piece[index];
      if (byte != ' ' && byte != '\n') {
        if (field.length < sizeof field.text) field.text[field.length] = byte;
        field.length++;
        field.hash = hash_byte(field.hash, byte);
        continue;
      }
      if (number == 2 && !is_text(&field, device)) matches = 0;
      if (number == 4 && field.hash != place) matches = 0;
      if (number == type_number) is_found = matches && is_text(&field, "fuse.ubiquityfs");
      if (number >= 6 && type_number < 0 && is_text(&field, "-")) type_number = number + 1;
      number++;
      field.length = 0;
      field.hash = hash_start;
      if (byte == '\n') {
        number = 0;
        type_number = -1;
        matches = 1;
      }
    }
  }
  close(file);
  return is_found;
}

// The watchdog.

enum { most_connections = 1024, input = 3 };

static struct {
  uint64_t key;
  uint64_t place;
  uint32_t minor;
  int file;
  /// For a successor, or -1.
  int device;
  int record;
} guarded[most_connections];
static int guarded_count;
static int kept_lock = -1;

static int is_kept(int index) { return guarded[index].device >= 0 && guarded[index].record >= 0; }

/// Aborts the connections that no successor can have; with `all`, those too that one could have
/// had.
static void abort_connections(int all) {
  for (int index = 0; index < guarded_count; index++) {
    if (!all && is_kept(index)) continue;
    uint32_t minor = guarded[index].minor;
    int file = guarded[index].file;
    if (file < 0) {
      // The control file system may be there by now. But so may another mount with the number,
      // whose file is not written to. The table is read after the file was opened: the file is of
      // the mount that the table shows.
      file = linux_open_fuse_abort(minor);
      if (file < 0) continue;
      if (!linux_mount_table_has("/proc/self/mountinfo", minor, guarded[index].place)) {
        close(file);
        continue;
      }
    }
    ssize_t written = write(file, "1", 1);
    (void)written;
  }
}

static const struct linux_successor *successor;
static pid_t daemon_process;
/// The daemon's process, as a descriptor that becomes readable with its end.
static int daemon_end = -1;
static uint64_t daemon_start;

/// The daemon is dead, or dying of a crash. Becomes the next one, or aborts what it had.
static void act(int is_crash) {
  struct linux_legacy legacy = {.lock = kept_lock, .daemon = daemon_process};
  for (int index = 0; index < guarded_count; index++)
    if (is_kept(index))
      linux_leave_mount(&legacy, guarded[index].device, guarded[index].record);
  abort_connections(0);
  if (successor && legacy.lock >= 0 && legacy.mounts > 0)
    linux_become_successor(successor, &legacy, daemon_end, daemon_start, is_crash);
  // There is nobody to come.
  abort_connections(1);
  _exit(0);
}

/// Takes the descriptor `file`, which may be negative.
static void guard(struct linux_watchdog_message message, int file) {
  if (guarded_count == most_connections) {
    if (file >= 0) close(file);
    return;
  }
  guarded[guarded_count].key = message.key;
  guarded[guarded_count].place = message.place;
  guarded[guarded_count].minor = message.minor;
  guarded[guarded_count].file = file;
  guarded[guarded_count].device = -1;
  guarded[guarded_count].record = -1;
  guarded_count++;
}

static void replace(int *place, int file) {
  if (*place >= 0) close(*place);
  *place = file;
}

/// Takes the descriptor `file`.
static void keep(struct linux_watchdog_message message, int file) {
  if (message.key == 0 && message.minor == linux_kept_lock) {
    replace(&kept_lock, file);
    return;
  }
  for (int index = 0; index < guarded_count; index++) {
    if (guarded[index].key != message.key) continue;
    if (message.minor == linux_kept_device) return replace(&guarded[index].device, file);
    if (message.minor == linux_kept_record) return replace(&guarded[index].record, file);
  }
  if (file >= 0) close(file);
}

static void forget(uint64_t key) {
  for (int index = 0; index < guarded_count; index++) {
    if (guarded[index].key != key) continue;
    replace(&guarded[index].file, -1);
    replace(&guarded[index].device, -1);
    replace(&guarded[index].record, -1);
    guarded[index] = guarded[--guarded_count];
    return;
  }
}

static ssize_t receive(int socket, struct linux_watchdog_message *message, int *file, int flags) {
  struct iovec part = {message, sizeof *message};
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr alignment;
  } control;
  struct msghdr header = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  *file = -1;
  ssize_t length = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
  if (length < 0) return length;
  struct cmsghdr *first = CMSG_FIRSTHDR(&header);
  if (first && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS)
    memcpy(file, CMSG_DATA(first), sizeof *file);
  return length;
}

int linux_hear_daemon(int socket, struct linux_watchdog_message *message, int *file) {
  ssize_t length;
  do length = receive(socket, message, file, MSG_WAITALL);
  while (length < 0 && errno == EINTR);
  if (length == sizeof *message) return 0;
  int failure = length < 0 ? errno : ECONNRESET;
  if (length >= 0 && *file >= 0) close(*file);
  *file = -1;
  return -failure;
}

/// Does what the daemon said so far; all of it, and at once, when it is dead.
static void hear(void) {
  struct linux_watchdog_message message;
  while (1) {
    int file;
    ssize_t length = receive(input, &message, &file, MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return;
    // The other end is closed: the daemon is gone.
    if (length == 0) act(0);
    if (length == sizeof message && message.kind == linux_watchdog_add) {
      guard(message, file);
      continue;
    }
    if (length == sizeof message && message.kind == linux_watchdog_keep) {
      keep(message, file);
      continue;
    }
    if (file >= 0) close(file);
    if (length != sizeof message) continue;
    if (message.kind == linux_watchdog_remove) forget(message.key);
    if (message.kind == linux_watchdog_act) act(1);
    if (message.kind == linux_watchdog_end) _exit(0);
  }
}

static void close_from(unsigned first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1 << 20) limit.rlim_cur = 1 << 20;
  for (unsigned file = first; file < limit.rlim_cur; file++) close((int)file);
}

/// Replaces this process's arguments, as `ps` shows them, which the fork copied from the daemon.
static void set_title(const char *title, size_t length) {
  char text[1024];
  int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return;
  text[count] = 0;
  // Fields 48 and 49 are the ends of the arguments in memory; field 2, in parentheses, may hold
  // anything. Source: proc_pid_stat(5).
  char *place = strrchr(text, ')');
  uintptr_t ends[2] = {0, 0};
  for (int field = 3; place && field <= 49; field++) {
    place = strchr(place + 1, ' ');
    if (!place || field < 48) continue;
    for (char *digit = place + 1; *digit >= '0' && *digit <= '9'; digit++)
      ends[field - 48] = ends[field - 48] * 10 + (uintptr_t)(*digit - '0');
  }
  if (ends[0] == 0 || ends[1] < ends[0] + length) return;
  memset((char *)ends[0], 0, ends[1] - ends[0]);
  memcpy((char *)ends[0], title, length);
}

static void watch(int socket, pid_t parent) {
  daemon_process = parent;
  daemon_start = linux_now();
  // Signals are all blocked. The one of the parent's death comes through a descriptor.
  int death_signal = linux_death_signal();
  prctl(PR_SET_PDEATHSIG, death_signal);
  prctl(PR_SET_NAME, "fuse-watchdog");
  setsid();
  if (chdir("/") != 0) _exit(1);
  static const char name[] = "ubiquityfs-watchdog";
  set_title(name, sizeof name);
  if (socket != input && dup2(socket, input) < 0) _exit(1);
  close_from(input + 1);
  int null = open("/dev/null", O_RDWR);
  for (int file = 0; file < 3; file++) dup2(null, file);
  if (null > input) close(null);
  sigset_t death;
  sigemptyset(&death);
  sigaddset(&death, death_signal);
  int signals = signalfd(-1, &death, SFD_NONBLOCK);
  if (signals < 0) _exit(1);
  daemon_end = (int)syscall(SYS_pidfd_open, parent, 0);
  while (1) {
    hear();
    if (getppid() != parent) act(0);
    struct pollfd entries[2] = {{input, POLLIN, 0}, {signals, POLLIN, 0}};
    if (poll(entries, 2, -1) < 0) continue;
    struct signalfd_siginfo info;
    // Anybody may send the signal; this one is of the parent's own making.
    if (read(signals, &info, sizeof info) == sizeof info && info.ssi_pid == (uint32_t)parent) {
      hear();
      act(0);
    }
  }
}

int linux_fork_watchdog(int socket, const struct linux_successor *next) {
  pid_t parent = getpid();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t child = fork();
  if (child == 0) {
    successor = next;
    watch(socket, parent);
    _exit(0);
  }
  int failure = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return child > 0 ? child : -failure;
}

int linux_tell_watchdog(int socket, struct linux_watchdog_message message, int file) {
  struct iovec part = {&message, sizeof message};
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr alignment;
  } control;
  struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
  if (file >= 0) {
    memset(&control, 0, sizeof control);
    header.msg_control = &control;
    header.msg_controllen = sizeof control;
    struct cmsghdr *first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(first), &file, sizeof file);
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL) == sizeof message ? 0 : -errno;
}

static volatile int crash_socket = -1;
static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGABRT};
enum { crash_signal_count = sizeof crash_signals / sizeof *crash_signals };
static struct sigaction earlier[crash_signal_count];

static void crashed(int number, siginfo_t *info, void *context) {
  (void)context;
  struct linux_watchdog_message message = {linux_watchdog_act, 0, 0, 0};
  send(crash_socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
  // What was there before, such as the backtraces of the language's runtime, acts now: a fault
  // happens again when this returns, a signal that was sent has to be sent again.
  for (int index = 0; index < crash_signal_count; index++)
    if (crash_signals[index] == number) sigaction(number, &earlier[index], NULL);
  if (info->si_code <= 0) raise(number);
}

void linux_tell_watchdog_of_crashes(int socket) {
  int is_first = crash_socket < 0;
  crash_socket = socket;
  if (!is_first) return;
  for (int index = 0; index < crash_signal_count; index++) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = crashed;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(crash_signals[index], &action, &earlier[index]);
  }
}
