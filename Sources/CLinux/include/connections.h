#ifndef UBIQUITYFS_CLINUX_CONNECTIONS_H
#define UBIQUITYFS_CLINUX_CONNECTIONS_H

// FUSE connections from outside: aborting one, and a process that does so when a daemon dies.

#include <stdint.h>

/// Opens the file that aborts a connection, by the minor number of the mount's device. Uses the
/// control file system where it is mounted; else, with CAP_SYS_ADMIN, a mount of it that no path
/// leads to. Gives -errno: EACCES for the connection of another user. Touches no FUSE mount.
int linux_open_fuse_abort(uint32_t minor);

/// The messages of a daemon to its watchdog, each in one packet.
enum {
  /// Guard the connection. Its control file comes along, if the daemon could open it.
  linux_watchdog_add = 1,
  linux_watchdog_remove = 2,
  /// The daemon is crashing: act at once.
  linux_watchdog_act = 3,
  /// Keep the descriptor that comes along for a successor. `key` is its connection's, or 0 for the
  /// lock of the state directory; `minor` is a `linux_kept_*`.
  linux_watchdog_keep = 4,
  /// The daemon ends, or another one has all: end without acting.
  linux_watchdog_end = 5,
};

/// What a kept descriptor is.
enum {
  linux_kept_lock = 0,
  linux_kept_device = 1,
  linux_kept_record = 2,
};

/// How a daemon is started in the place of one that died. All of it stays as it is while watchdogs
/// run.
struct linux_successor {
  const char *program;
  /// Ends with NULL.
  char *const *arguments;
  /// What its stdout and stderr are.
  const char *log;
  /// How many daemons in a row died early before this one.
  uint32_t early_deaths;
};

/// The environment variable that tells a successor what it was left. `linux_successor` in
/// succession.c has its form.
extern const char *const linux_succession_variable;

struct linux_watchdog_message {
  uint32_t kind;
  uint32_t minor;
  /// Tells a connection from a later one with the same minor number.
  uint64_t key;
  /// The mount point, as `linux_mountpoint_hash` gives it.
  uint64_t place;
};

/// Stands for a mount point, which is escaped as in /proc/self/mountinfo.
uint64_t linux_mountpoint_hash(const char *escaped);

/// Whether a mount of ubiquityfs with this number is at this place, as far as `table` tells, a file
/// like /proc/self/mountinfo. 0 also where the file cannot be read.
int linux_mount_table_has(const char *table, uint32_t minor, uint64_t place);

/// Sends a message, with a descriptor unless `file` is negative. Gives 0, or -errno.
int linux_tell_watchdog(int socket, struct linux_watchdog_message message, int file);

/// Waits for a message that `linux_tell_watchdog` sent, and gives its descriptor, or -1. Gives 0,
/// or
/// -errno.
int linux_hear_daemon(int socket, struct linux_watchdog_message *message, int *file);

/// Forks a process that guards connections for as long as the calling *thread* lives. Then it
/// becomes the `successor`, if connections with kept descriptors are left and it is not NULL, and
/// aborts the others. Gives its number to the caller, or -errno.
///
/// `socket` is its end of a SOCK_SEQPACKET pair. It keeps no descriptor of the caller's but those
/// that come through the socket. After the fork only async-signal-safe functions are called: the
/// caller may have threads.
int linux_fork_watchdog(int socket, const struct linux_successor *successor);

/// Has SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE and SIGABRT tell the watchdog at the other end of
/// `socket` before they end this process: while a core is dumped its threads are still there.
void linux_tell_watchdog_of_crashes(int socket);

#endif
