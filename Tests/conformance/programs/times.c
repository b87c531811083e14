// Which change touches which time, of what; nanoseconds; the numbers of links of directories.
#include "tell.h"

// Tells which times of `name` and of the directory it is in `call` changes.
#define TIMES(name, call)                                                                          \
  do {                                                                                             \
    struct stat before = status(name), above = status(".");                                        \
    tick();                                                                                        \
    errno = 0;                                                                                     \
    long long value = (long long)(call);                                                           \
    int code = errno;                                                                              \
    printf("%d: %s: %s", __LINE__, #call, value < 0 ? strerrorname_np(code) : "done");             \
    printf(", it %s", changes(before, status(name)));                                              \
    printf(", above %s\n", changes(above, status(".")));                                           \
    fflush(stdout);                                                                                \
  } while (0)

static void rules(void) {
  int file = made("file", "text");
  char text[8];
  struct timespec set[2] = {{1000000000, 123456789}, {1000000001, 987654321}};
  TIMES("file", futimens(file, set));
  TELL(status("file").st_atim.tv_nsec);
  TELL(status("file").st_mtim.tv_nsec);
  TIMES("file", pread(file, text, 4, 0));
  TIMES("file", pwrite(file, "TEXT", 4, 0));
  TIMES("file", pread(file, text, 4, 0));
  TIMES("file", pwrite(file, "", 0, 0));
  TIMES("file", ftruncate(file, 4));
  TIMES("file", ftruncate(file, 2));
  TIMES("file", truncate("file", 2));
  TIMES("file", truncate("file", 8));
  TIMES("file", close(open("file", O_WRONLY | O_TRUNC)));
  TIMES("file", close(open("file", O_WRONLY | O_TRUNC)));
  TIMES("file", fallocate(file, 0, 0, 100));
  TIMES("file", fallocate(file, 1, 0, 100));
  TIMES("file", fallocate(file, 3, 0, 100));
  TIMES("file", chmod("file", 0600));
  TIMES("file", chmod("file", 0600));
  TIMES("file", chown("file", -1, -1));
  TIMES("file", chown("file", 1, 1));
  TIMES("file", link("file", "second"));
  TIMES("file", rename("second", "third"));
  TIMES("file", unlink("third"));
  TIMES("file", rename("file", "file"));
  TIMES("file", fsync(file));
  TIMES("file", close(open("file", O_RDONLY)));
  TIMES("file", close(open("file", O_RDWR | O_CREAT, 0644)));
  struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  TIMES("file", utimensat(AT_FDCWD, "file", now, 0));
  TELL(status("file").st_atim.tv_sec > 1000000000);
  struct timespec accessed = status("file").st_atim;
  now[0].tv_nsec = UTIME_OMIT, now[1].tv_nsec = UTIME_NOW;
  TIMES("file", utimensat(AT_FDCWD, "file", now, 0));
  TELL(order(accessed, status("file").st_atim));
  now[1].tv_nsec = UTIME_OMIT;
  TIMES("file", utimensat(AT_FDCWD, "file", now, 0));
  TIMES("file", utimensat(AT_FDCWD, "file", NULL, 0));
  MUST(symlink("file", "soft") == 0);
  TIMES("soft", readlink("soft", text, 8));
  TIMES("soft", utimensat(AT_FDCWD, "soft", set, AT_SYMLINK_NOFOLLOW));
  TELL(status("soft").st_mtim.tv_nsec);
  TIMES("soft", lchown("soft", 3, 4));
  TIMES("soft", chmod("soft", 0600));
  TIMES("soft", readlink("soft", text, 8));
  close(open("file", O_RDWR));
  // Before 1970, and far off.
  set[0] = (struct timespec){-1, 999999999}, set[1] = (struct timespec){-2000000000, 5};
  TELL(utimensat(AT_FDCWD, "file", set, 0));
  TELL(status("file").st_atim.tv_sec);
  TELL(status("file").st_atim.tv_nsec);
  TELL(status("file").st_mtim.tv_sec);
  set[0] = (struct timespec){5000000000, 7}, set[1] = (struct timespec){6000000000, 8};
  TELL(utimensat(AT_FDCWD, "file", set, 0));
  TELL(status("file").st_mtim.tv_sec);
  TELL(status("file").st_mtim.tv_nsec);
  set[0].tv_nsec = 1000000000;
  TELL(utimensat(AT_FDCWD, "file", set, 0));
}

static void directories(void) {
  MUST(mkdir("d", 0755) == 0);
  TIMES("d", mkdir("d/in", 0755));
  TELL(status("d").st_nlink);
  TIMES("d", close(open("d/file", O_RDWR | O_CREAT, 0644)));
  TIMES("d", close(open("d/file", O_RDWR | O_CREAT, 0644)));
  TIMES("d", close(open("d/file", O_WRONLY | O_TRUNC)));
  TIMES("d", chmod("d/file", 0600));
  TIMES("d", link("d/file", "d/other"));
  TIMES("d", rename("d/other", "d/file"));
  TIMES("d", rename("d/other", "d/another"));
  TIMES("d", symlink("x", "d/soft"));
  TIMES("d", mkfifo("d/fifo", 0600));
  TIMES("d", unlink("d/soft"));
  TIMES("d", rename("d/another", "moved"));
  TIMES("d", rename("moved", "d/another"));
  TIMES("d/in", rename("d/in", "d/on") ?: rename("d/on", "d/in"));
  TIMES("d", unlink("d/none"));
  TIMES("d", rmdir("d/in"));
  TELL(status("d").st_nlink);
  for (int count = 0; count < 5; count++) {
    char name[16];
    snprintf(name, sizeof name, "d/%d", count);
    MUST(mkdir(name, 0755) == 0);
  }
  TELL(status("d").st_nlink);
  TELL(rename("d/1", "d/2"));
  TELL(status("d").st_nlink);
  TELL(rename("d/3", "out"));
  TELL(status("d").st_nlink);
  TELL(rename("out", "d/in"));
  TELL(status("d").st_nlink);
  TELL(status("d/in").st_nlink);
  DIR *stream = opendir("d");
  struct timespec old[2] = {{1, 1}, {2, 2}};
  TIMES("d", utimensat(AT_FDCWD, "d", old, 0));
  TIMES("d", readdir(stream) ? 0 : -1);
  TIMES("d", ({ while (readdir(stream)); 0; }));
  TIMES("d", ({ rewinddir(stream); while (readdir(stream)); 0; }));
  closedir(stream);
}

// What is made has the same time for all three, near the clock's.
static void fresh(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  close(made("fresh", ""));
  struct stat made = status("fresh");
  TELL(order(made.st_mtim, made.st_ctim));
  TELL(order(made.st_atim, made.st_ctim));
  TELL(llabs(made.st_ctim.tv_sec - now.tv_sec) <= 2);
  TELL(order(status(".").st_mtim, made.st_ctim) >= 0);
  struct statx extended;
  TELL(statx(AT_FDCWD, "fresh", 0, STATX_BASIC_STATS, &extended));
  TELL((extended.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
}

int main(void) {
  umask(022);
  fresh();
  rules();
  directories();
  return 0;
}
