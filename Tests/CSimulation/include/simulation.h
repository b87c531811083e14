#ifndef UBIQUITYFS_SIMULATION_H
#define UBIQUITYFS_SIMULATION_H

// The whole process in virtual time and on one thread: this target defines, for the executable that
// links it and for all its shared libraries, the calls by which code gets another thread, a timer, the
// time or randomness. Nothing of what is simulated has to know.
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

/// Begins. From here on everything that asks for a thread is given to `enqueue`, and time stands still.
void simulation_begin(simulation_enqueue enqueue);

/// Runs it, once.
void simulation_run(struct simulation_item item);

/// Sets the time of all clocks, in nanoseconds; that of day counts from 2026-01-01.
void simulation_set_time(int64_t time);

/// What every source of randomness gives from now on follows from the seed.
void simulation_set_seed(uint64_t seed);

#endif
