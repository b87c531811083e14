#ifndef UBIQUITYFS_SIMULATION_H
#define UBIQUITYFS_SIMULATION_H

// The whole process in virtual time and on one thread: this target defines, for the executable that
// links it and for all its shared libraries, the calls by which code gets another thread, a timer,
// the time or randomness. Nothing of what is simulated has to know.
//
// Linked into the simulation alone: symbols of an executable come before those of libraries.

#include <stdint.h>

/// Something to run: a job of Swift's runtime, a block, or a function with its context.
struct simulation_item {
  int32_t kind;
  void *subject;
  void *function;
};

/// Is given what is to run now (`time` 0), or at a virtual time in nanoseconds.
typedef void (*simulation_enqueue)(struct simulation_item item, int64_t time);

/// Begins. From here on everything that asks for a thread is given to `enqueue`, and time stands
/// still.
void simulation_begin(simulation_enqueue enqueue);

/// Runs it, once.
void simulation_run(struct simulation_item item);

/// Sets the time of all clocks, in nanoseconds; that of day counts from 2026-01-01.
void simulation_set_time(int64_t time);

/// Sets by how much the clock of day is wrong for whoever runs now; files that are written get its
/// time.
void simulation_set_skew(int64_t nanoseconds);

/// What every source of randomness gives from now on follows from the seed.
void simulation_set_seed(uint64_t seed);

/// Copies a directory with all in it, holes and times of files kept, to one that is not there. 0,
/// or -1.
int simulation_copy(const char *from, const char *to);

/// Removes a directory with all in it, which may be open somewhere. 0, or -1.
int simulation_remove(const char *path);

/// For a program that is about to start itself again: the same addresses each time, and all the
/// descriptors that it may have.
void simulation_prepare_process(void);

/// From here on each line is printed as it is written.
void simulation_print_lines(void);

/// fork(2), which Swift does not let be called: from a process that has one thread it is safe.
int simulation_fork(void);

/// _exit(2).
void simulation_end(int status) __attribute__((noreturn));

#endif
