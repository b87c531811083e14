#ifndef UBIQUITYFS_CLINUX_SUCCESSION_H
#define UBIQUITYFS_CLINUX_SUCCESSION_H

// How a watchdog becomes the next daemon. Not part of the module.

#include "connections.h"

#include <stddef.h>
#include <stdint.h>

enum { most_kept = 256 };

/// What a dead daemon leaves.
struct linux_legacy {
  int lock;
  int32_t daemon;
  int mounts;
  int devices[most_kept];
  int records[most_kept];
};

/// CLOCK_MONOTONIC in nanoseconds.
uint64_t linux_now(void);

/// The signal that a watchdog gets when its daemon dies.
int linux_death_signal(void);

void linux_leave_mount(struct linux_legacy *legacy, int device, int record);

/// Waits for the daemon's end, but not for long, and runs the next one in the place of this
/// process. Returns when it gives up: after too many daemons that died early, and where no program
/// can be run. `end` becomes readable with the daemon's end; `start` is when the daemon began.
void linux_become_successor(const struct linux_successor *successor,
                            const struct linux_legacy *legacy, int end, uint64_t start,
                            int is_crash);

#endif
