// O_APPEND, O_TRUNC, O_EXCL, O_TMPFILE, O_DIRECTORY, O_NOFOLLOW, O_PATH, and files without a name.
#include "tell.h"

static void flags(void) {
  int file = made("file", "0123456789");
  TELL(open("file", O_RDWR | O_CREAT | O_EXCL, 0644));
  MUST(symlink("nothing", "dangling") == 0);
  TELL(open("dangling", O_RDWR | O_CREAT | O_EXCL, 0644));
  TELL(open("dangling", O_RDWR));
  TELL(open("dangling", O_RDWR | O_NOFOLLOW));
  TELL(close(open("dangling", O_RDWR | O_CREAT, 0600)));
  TELL(access("nothing", F_OK));
  TELL(open("file", O_RDONLY | O_DIRECTORY));
  TELL(open(".", O_RDWR));
  TELL(open(".", O_RDONLY | O_CREAT, 0644));
  TELL(open("none/file", O_RDONLY | O_CREAT, 0644));
  TELL(open("file/below", O_RDONLY | O_CREAT, 0644));
  TELL(open("file/", O_RDONLY));
  TELL(open("new/", O_RDONLY | O_CREAT, 0644));
  int truncated = open("file", O_WRONLY | O_TRUNC);
  TELL(status_of(file).st_size);
  TELL(write(truncated, "ab", 2));
  TELL(read(truncated, (char[2]){0}, 2));
  TELL(close(truncated));
  int read_only = open("file", O_RDONLY);
  TELL(write(read_only, "x", 1));
  TELL(ftruncate(read_only, 1));
  TELL(fallocate(read_only, 0, 0, 10));
  TELL(status("file").st_size);
  made("shortened", "0123456789");
  TELL(close(open("shortened", O_RDONLY | O_TRUNC)));
  TELL(status("shortened").st_size);
  TELL(close(open("new-shortened", O_RDONLY | O_CREAT | O_TRUNC, 0644)));
  TELL(status("new-shortened").st_size);
  int path = open("file", O_PATH);
  TELL(read(path, (char[2]){0}, 2));
  TELL(status_of(path).st_size);
  TELL(fchmod(path, 0600));
  TELL(open("file", O_RDONLY | O_CREAT | O_DIRECTORY, 0644));
  int nothing_allowed = open("mode-0", O_RDWR | O_CREAT, 0);
  TELL(write(nothing_allowed, "x", 1));
  TELL(status("mode-0").st_mode);
}

static void appending(void) {
  int first = open("log", O_RDWR | O_CREAT | O_APPEND, 0644);
  int second = open("log", O_WRONLY | O_APPEND);
  TELL(write(first, "one ", 4));
  TELL(write(second, "two ", 4));
  TELL(lseek(first, 0, SEEK_SET));
  TELL(write(first, "three", 5));
  TELL(lseek(first, 0, SEEK_CUR));
  // Of a descriptor for appending the place is not looked at.
  TELL(pwrite(second, "end", 3, 0));
  char text[64] = {0};
  TELL(pread(first, text, 64, 0));
  TELL(!strcmp(text, "one two threeend"));
  TELL(fcntl(first, F_SETFL, 0));
  TELL(pwrite(first, "ONE", 3, 0));
  TELL(status("log").st_size);
  // Four processes append lines side by side: every line is whole.
  for (int writer = 0; writer < 4; writer++)
    if (fork() == 0) {
      int file = open("lines", O_WRONLY | O_CREAT | O_APPEND, 0644);
      char line[100];
      memset(line, 'a' + writer, 99);
      line[99] = '\n';
      for (int count = 0; count < 200; count++)
        if (write(file, line, 100) != 100) _exit(1);
      _exit(0);
    }
  int ended, failures = 0;
  while (wait(&ended) > 0) failures += ended != 0;
  TELL(failures);
  TELL(status("lines").st_size);
  FILE *lines = fopen("lines", "r");
  char line[128];
  int broken = 0, count = 0;
  while (fgets(line, sizeof line, lines)) {
    count++;
    for (int place = 0; place < 99; place++) broken += line[place] != line[0];
  }
  TELL(count);
  TELL(broken);
}

static void unnamed(void) {
  int file = open(".", O_TMPFILE | O_RDWR, 0640);
  TELL(file >= 0);
  if (file < 0) {
    TELL(open(".", O_TMPFILE | O_RDWR, 0640));
    return;
  }
  TELL(write(file, "text", 4));
  TELL(status_of(file).st_nlink);
  TELL(status_of(file).st_size);
  TELL(status_of(file).st_mode);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  TELL(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
  TELL(status("named").st_nlink);
  TELL(status("named").st_size);
  int exclusive = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0640);
  TELL(exclusive >= 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", exclusive);
  TELL(linkat(AT_FDCWD, path, AT_FDCWD, "never", AT_SYMLINK_FOLLOW));
  TELL(open(".", O_TMPFILE | O_RDONLY, 0640));
  TELL(open("named", O_TMPFILE | O_RDWR, 0640));
  TELL(open("none", O_TMPFILE | O_RDWR, 0640));
  TELL(close(exclusive));
  TELL(close(file));
}

static void removed(void) {
  int file = made("gone", "0123456789");
  int other = open("gone", O_RDWR);
  TELL(unlink("gone"));
  TELL(status_of(file).st_nlink);
  TELL(pwrite(other, "X", 1, 20));
  TELL(status_of(file).st_size);
  TELL(ftruncate(file, 5));
  TELL(status_of(other).st_size);
  TELL(fchmod(file, 0600));
  TELL(status_of(other).st_mode);
  TELL(fchown(file, 12, 34));
  TELL(status_of(other).st_uid);
  struct timespec times[2] = {{1, 2}, {3, 4}};
  TELL(futimens(file, times));
  TELL(status_of(other).st_mtim.tv_nsec);
  TELL(fsync(file));
  TELL(fallocate(file, 0, 0, 8192));
  TELL(status_of(other).st_size);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  TELL(linkat(AT_FDCWD, path, AT_FDCWD, "back", AT_SYMLINK_FOLLOW));
  int again = open(path, O_RDWR);
  TELL(again >= 0);
  TELL(status_of(again).st_size);
  TELL(open("gone", O_RDONLY));
  int fresh = made("gone", "new");
  TELL(status_of(fresh).st_size);
  TELL(status_of(file).st_size);
  TELL(close(file));
  TELL(close(other));
  TELL(close(again));
  // A directory without a name.
  MUST(mkdir("d", 0755) == 0);
  int directory = open("d", O_RDONLY | O_DIRECTORY);
  TELL(rmdir("d"));
  TELL(status_of(directory).st_nlink);
  TELL(openat(directory, "in", O_RDWR | O_CREAT, 0644));
  TELL(mkdirat(directory, "in", 0755));
  TELL(symlinkat("x", directory, "in"));
  TELL(linkat(AT_FDCWD, "gone", directory, "in", 0));
  TELL(renameat(AT_FDCWD, "gone", directory, "in"));
  TELL(faccessat(directory, "..", F_OK, 0));
  DIR *stream = fdopendir(directory);
  int names = 0;
  for (struct dirent *entry; (entry = readdir(stream));) names++;
  TELL(names);
}

int main(void) {
  umask(022);
  flags();
  appending();
  unnamed();
  removed();
  return 0;
}
