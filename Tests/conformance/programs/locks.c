// flock(2), fcntl(2) locks and open-file-description locks between processes.
#include "tell.h"

static struct flock range(short type, off_t start, off_t length) {
  return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
}

// Tries a lock in another process.
static int elsewhere(int command, short type, off_t start, off_t length) {
  return IN_CHILD({
    int file = open("file", O_RDWR);
    struct flock lock = range(type, start, length);
    _exit(fcntl(file, command, &lock) == 0 ? 0 : errno);
  });
}

static int flock_elsewhere(int kind) {
  return IN_CHILD({
    int file = open("file", O_RDWR);
    _exit(flock(file, kind | LOCK_NB) == 0 ? 0 : errno);
  });
}

// Waits for a lock of the kind in another process, which is told that it waits by what comes
// through the pipe; it gets it once `release` has run.
#define WAITING(take, release)                                                                     \
  do {                                                                                             \
    int ends[2];                                                                                   \
    MUST(pipe(ends) == 0);                                                                         \
    fflush(stdout);                                                                                \
    pid_t child = fork();                                                                          \
    if (child == 0) {                                                                              \
      int there = open("file", O_RDWR);                                                            \
      MUST(write(ends[1], "w", 1) == 1);                                                           \
      _exit((take) == 0 ? 0 : errno);                                                              \
    }                                                                                              \
    char byte;                                                                                     \
    MUST(read(ends[0], &byte, 1) == 1);                                                            \
    tick();                                                                                        \
    int ended;                                                                                     \
    TELL(waitpid(child, &ended, WNOHANG));                                                         \
    release;                                                                                       \
    MUST(waitpid(child, &ended, 0) == child);                                                      \
    TELL(WEXITSTATUS(ended));                                                                      \
  } while (0)

static void whole_files(void) {
  int file = open("file", O_RDWR), again = open("file", O_RDWR), copy = dup(file);
  TELL(flock(file, LOCK_SH));
  TELL(flock_elsewhere(LOCK_SH));
  TELL(flock_elsewhere(LOCK_EX));
  TELL(flock(again, LOCK_EX | LOCK_NB));
  TELL(flock(copy, LOCK_EX | LOCK_NB));
  TELL(flock_elsewhere(LOCK_SH));
  TELL(flock(copy, LOCK_UN));
  TELL(flock_elsewhere(LOCK_EX));
  TELL(flock(file, LOCK_EX));
  WAITING(flock(there, LOCK_EX), flock(file, LOCK_UN));
  TELL(flock(file, LOCK_EX));
  close(copy);
  TELL(flock_elsewhere(LOCK_EX));
  close(file);
  TELL(flock_elsewhere(LOCK_EX));
  int read_only = open("file", O_RDONLY);
  TELL(flock(read_only, LOCK_EX));
  TELL(flock(read_only, 99));
  close(read_only);
  int directory = open(".", O_RDONLY);
  TELL(flock(directory, LOCK_EX));
  close(directory);
  close(again);
}

static void ranges(void) {
  int file = open("file", O_RDWR);
  struct flock lock = range(F_WRLCK, 10, 10);
  TELL(fcntl(file, F_SETLK, &lock));
  TELL(elsewhere(F_SETLK, F_WRLCK, 0, 10));
  TELL(elsewhere(F_SETLK, F_WRLCK, 19, 1));
  TELL(elsewhere(F_SETLK, F_RDLCK, 15, 100));
  TELL(elsewhere(F_SETLK, F_RDLCK, 20, 0));
  TELL(elsewhere(F_SETLK, F_WRLCK, 0, 0));
  pid_t parent = getpid();
  TELL(IN_CHILD({
    int there = open("file", O_RDWR);
    struct flock question = range(F_WRLCK, 0, 0);
    MUST(fcntl(there, F_GETLK, &question) == 0);
    _exit(question.l_type == F_WRLCK && question.l_start == 10 && question.l_len == 10 &&
          question.l_pid == parent ? 0 : 1);
  }));
  lock = range(F_UNLCK, 12, 3);
  TELL(fcntl(file, F_SETLK, &lock));
  TELL(elsewhere(F_SETLK, F_WRLCK, 12, 3));
  TELL(elsewhere(F_SETLK, F_WRLCK, 11, 1));
  TELL(elsewhere(F_SETLK, F_WRLCK, 15, 1));
  // Any close of the file by the process gives up its locks.
  close(open("file", O_RDONLY));
  TELL(elsewhere(F_SETLK, F_WRLCK, 0, 0));
  lock = range(F_WRLCK, 0, 0);
  TELL(fcntl(file, F_SETLK, &lock));
  WAITING(({ struct flock all = range(F_WRLCK, 0, 0); fcntl(there, F_SETLKW, &all); }),
          ({ struct flock none = range(F_UNLCK, 0, 0); fcntl(file, F_SETLK, &none); }));
  int read_only = open("file", O_RDONLY);
  lock = range(F_WRLCK, 0, 0);
  TELL(fcntl(read_only, F_SETLK, &lock));
  lock = range(F_WRLCK, -1, 5);
  TELL(fcntl(file, F_SETLK, &lock));
  lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -5, .l_len = 2};
  TELL(fcntl(file, F_SETLK, &lock));
  TELL(elsewhere(F_SETLK, F_WRLCK, status("file").st_size - 5, 2));
  TELL(lockf(file, F_TEST, 0));
  close(read_only);
  close(file);
  TELL(elsewhere(F_SETLK, F_WRLCK, 0, 0));
}

// Two that wait for each other: one is told so.
static void circle(void) {
  int file = open("file", O_RDWR), ready[2];
  struct flock lock = range(F_WRLCK, 0, 1);
  MUST(pipe(ready) == 0 && fcntl(file, F_SETLK, &lock) == 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int there = open("file", O_RDWR);
    struct flock second = range(F_WRLCK, 1, 1), first = range(F_WRLCK, 0, 1);
    if (fcntl(there, F_SETLK, &second)) _exit(1);
    MUST(write(ready[1], "r", 1) == 1);
    // Blocks until the parent, refused, gives up the first.
    _exit(fcntl(there, F_SETLKW, &first) ? errno : 0);
  }
  char byte;
  MUST(read(ready[0], &byte, 1) == 1);
  // The child waits by now, or will: in the end one of the two is refused.
  tick();
  tick();
  lock = range(F_WRLCK, 1, 1);
  int mine = fcntl(file, F_SETLKW, &lock) ? errno : 0;
  struct flock none = range(F_UNLCK, 0, 0);
  fcntl(file, F_SETLK, &none);
  int ended;
  MUST(waitpid(child, &ended, 0) == child);
  TELL((mine == EDEADLK) + (WEXITSTATUS(ended) == EDEADLK));
  close(file);
}

static void descriptions(void) {
  int first = open("file", O_RDWR), second = open("file", O_RDWR);
  struct flock lock = range(F_WRLCK, 0, 10);
  TELL(fcntl(first, F_OFD_SETLK, &lock));
  TELL(fcntl(second, F_OFD_SETLK, &lock));
  TELL(fcntl(second, F_SETLK, &lock));
  TELL(elsewhere(F_OFD_SETLK, F_WRLCK, 5, 1));
  TELL(elsewhere(F_SETLK, F_WRLCK, 5, 1));
  TELL(elsewhere(F_OFD_SETLK, F_WRLCK, 10, 1));
  lock = range(F_WRLCK, 0, 1);
  TELL(fcntl(second, F_OFD_GETLK, &lock));
  TELL(lock.l_type);
  TELL(lock.l_pid);
  // It stays when another descriptor of the file is closed.
  close(open("file", O_RDONLY));
  TELL(elsewhere(F_OFD_SETLK, F_WRLCK, 5, 1));
  // The last close of the description releases it; the child has one that it came by.
  WAITING(({
            close(first);
            struct flock all = range(F_WRLCK, 0, 0);
            fcntl(there, F_OFD_SETLKW, &all);
          }),
          close(first));
  lock = range(F_WRLCK, 0, 10);
  TELL(fcntl(second, F_OFD_SETLK, &lock));
  lock = range(F_RDLCK, 0, 5);
  TELL(fcntl(second, F_OFD_SETLK, &lock));
  TELL(elsewhere(F_OFD_SETLK, F_RDLCK, 0, 5));
  TELL(elsewhere(F_OFD_SETLK, F_RDLCK, 5, 5));
  close(second);
}

// Whoever dies gives up what it held.
static void death(void) {
  int ready[2];
  MUST(pipe(ready) == 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int there = open("file", O_RDWR);
    struct flock all = range(F_WRLCK, 0, 0);
    if (fcntl(there, F_SETLK, &all) || flock(there, LOCK_EX)) _exit(1);
    MUST(write(ready[1], "r", 1) == 1);
    pause();
  }
  char byte;
  MUST(read(ready[0], &byte, 1) == 1);
  TELL(elsewhere(F_SETLK, F_WRLCK, 0, 0));
  TELL(flock_elsewhere(LOCK_EX));
  MUST(kill(child, SIGKILL) == 0);
  waitpid(child, NULL, 0);
  TELL(elsewhere(F_SETLK, F_WRLCK, 0, 0));
  TELL(flock_elsewhere(LOCK_EX));
  // A lock of a file without a name.
  int file = made("unnamed", "x");
  MUST(unlink("unnamed") == 0);
  struct flock lock = range(F_WRLCK, 0, 0);
  TELL(fcntl(file, F_SETLK, &lock));
  TELL(flock(file, LOCK_EX));
  // Leases.
  TELL(fcntl(open("file", O_RDONLY), F_SETLEASE, F_RDLCK));
}

int main(void) {
  umask(022);
  close(made("file", "0123456789"));
  whole_files();
  ranges();
  circle();
  descriptions();
  death();
  return 0;
}
