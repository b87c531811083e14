// What each program here is made of: it does things in the directory it is run in, and tells what
// came of them. Run in a native directory and in a mount, it has to tell the same.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// The call's value, or its errno.
#define TELL(...)                                                                                  \
  do {                                                                                             \
    errno = 0;                                                                                     \
    long long told = (long long)(__VA_ARGS__);                                                     \
    if (told == -1 && errno)                                                                       \
      printf("%d: %s: %s\n", __LINE__, #__VA_ARGS__, strerrorname_np(errno));                      \
    else                                                                                           \
      printf("%d: %s: %lld\n", __LINE__, #__VA_ARGS__, told);                                      \
    fflush(stdout);                                                                                \
  } while (0)

#define TELL_TEXT(...) printf("%d: %s: %s\n", __LINE__, #__VA_ARGS__, __VA_ARGS__)

// Ends the program where what it builds on does not hold.
#define MUST(...)                                                                                  \
  do {                                                                                             \
    errno = 0;                                                                                     \
    if (!(__VA_ARGS__)) {                                                                          \
      printf("%d: must be: %s (%s)\n", __LINE__, #__VA_ARGS__, strerror(errno));                   \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static inline int made(const char *name, const char *text) {
  int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  MUST(file >= 0);
  MUST(write(file, text, strlen(text)) == (ssize_t)strlen(text));
  return file;
}

static inline struct stat status(const char *name) {
  struct stat status;
  MUST(lstat(name, &status) == 0);
  return status;
}

static inline struct stat status_of(int file) {
  struct stat status;
  MUST(fstat(file, &status) == 0);
  return status;
}

// Between two changes of which the times are compared: a native file system's clock is coarse.
static inline void tick(void) { usleep(20000); }

static inline int order(struct timespec first, struct timespec second) {
  if (first.tv_sec != second.tv_sec) return first.tv_sec < second.tv_sec ? -1 : 1;
  return (first.tv_nsec > second.tv_nsec) - (first.tv_nsec < second.tv_nsec);
}

// Which times changed between the two. The access time is left out: what reading does to it is the
// mount's choice, natively too.
static inline const char *changes(struct stat before, struct stat after) {
  static char text[8];
  text[0] = 0;
  if (order(before.st_mtim, after.st_mtim)) strcat(text, "m");
  if (order(before.st_ctim, after.st_ctim)) strcat(text, "c");
  return text;
}

// Runs what it is given in a child and gives its exit status.
#define IN_CHILD(...)                                                                              \
  ({                                                                                               \
    fflush(stdout);                                                                                \
    pid_t child = fork();                                                                          \
    if (child == 0) {                                                                              \
      __VA_ARGS__;                                                                                 \
      fflush(stdout);                                                                              \
      _exit(0);                                                                                    \
    }                                                                                              \
    int ended;                                                                                     \
    MUST(waitpid(child, &ended, 0) == child);                                                      \
    WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);                                 \
  })
