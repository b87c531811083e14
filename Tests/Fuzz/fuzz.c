// libFuzzer's program: `Fuzz --target=NAME [LIBFUZZER-OPTION...] [CORPUS...]`, `Fuzz --list`,
// `Fuzz --target=NAME --seeds`. Tests/Fuzz/run builds and runs it.

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ubiquityfs_fuzz_choose(const char *name);
bool ubiquityfs_fuzz_seeds(void);
void ubiquityfs_fuzz_list(void);
void ubiquityfs_fuzz_run(const uint8_t *data, ptrdiff_t size);

int LLVMFuzzerInitialize(int *count, char ***arguments) {
  // Of a stack that is at its end libFuzzer's handler can only tell on another one.
  static char other[1 << 18];
  stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
  sigaltstack(&stack, NULL);
  bool chosen = false, seeds = false;
  for (int index = 1; index < *count; index++) {
    const char *argument = (*arguments)[index];
    if (strcmp(argument, "--list") == 0) {
      ubiquityfs_fuzz_list();
      exit(0);
    }
    if (strcmp(argument, "--seeds") == 0) seeds = true;
    if (strncmp(argument, "--target=", 9) == 0) chosen = ubiquityfs_fuzz_choose(argument + 9);
  }
  if (!chosen) {
    fputs("Fuzz: give --target=NAME; --list lists the targets\n", stderr);
    exit(2);
  }
  if (seeds) exit(ubiquityfs_fuzz_seeds() ? 0 : 1);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ubiquityfs_fuzz_run(data, (ptrdiff_t)size);
  return 0;
}

// libFuzzer brings its own; this one is of a build without it.
__attribute__((weak)) int main(void) {
  fputs("Fuzz: this build has no libFuzzer; run Tests/Fuzz/run\n", stderr);
  return 2;
}
