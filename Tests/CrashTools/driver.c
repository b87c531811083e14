// Does to a mount what a workload says, and tells what it sees.
//
//   driver run WORKLOAD DIRECTORY REPORT [MARK]    one operation a line of WORKLOAD, below
//   DIRECTORY
//   driver show DIRECTORY                          everything below DIRECTORY, a line each, sorted
//   driver model WORKLOAD DIRECTORY                `run`, and `show` after each operation
//
// `run` appends the number of each operation to REPORT when it has returned, with `0` or its errno,
// and writes it to MARK before the next one starts. It ends at the first operation after which the
// mount is gone. Files are open under numbers. What is written is one letter over and over, so that
// `show` can give contents exactly: as how often each byte comes, `0` being the byte 0.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static int files[16];
static char buffer[1 << 20];

static long number(char **word, int index) { return word[index] ? atol(word[index]) : 0; }

static int close_file(int *file) {
  int result = close(*file);
  *file = -1;
  return result;
}

static int sync_path(const char *path) {
  int file = open(path, O_RDONLY);
  if (file < 0) return -1;
  int result = fsync(file);
  int code = errno;
  close(file);
  errno = code;
  return result;
}

static int read_path(const char *path) {
  int file = open(path, O_RDONLY);
  if (file < 0) return -1;
  ssize_t count;
  while ((count = read(file, buffer, sizeof buffer)) > 0) {}
  int code = errno;
  close(file);
  errno = code;
  return count < 0 ? -1 : 0;
}

static int map_write(int file, off_t offset, size_t length, int letter) {
  struct stat status;
  if (fstat(file, &status)) return -1;
  char *bytes = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (bytes == MAP_FAILED) return -1;
  memset(bytes + offset, letter, length);
  int result = msync(bytes, status.st_size, MS_SYNC);
  munmap(bytes, status.st_size);
  return result;
}

// OP NUMBER-OR-PATH ...; the words are split at blanks, so names have none.
static int perform(char **word) {
  const char *op = word[0];
#define is(name) (!strcmp(op, name))
  int *file = word[1] && strlen(word[1]) <= 2 ? &files[atoi(word[1]) & 15] : &files[0];
  if (is("create")) return (*file = open(word[2], O_RDWR | O_CREAT | O_EXCL, 0644)) < 0 ? -1 : 0;
  if (is("open")) return (*file = open(word[2], O_RDWR)) < 0 ? -1 : 0;
  if (is("empty")) return (*file = open(word[2], O_RDWR | O_TRUNC)) < 0 ? -1 : 0;
  if (is("unnamed")) return (*file = open(word[2], O_RDWR | O_TMPFILE, 0644)) < 0 ? -1 : 0;
  if (is("name")) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", *file);
    return linkat(AT_FDCWD, path, AT_FDCWD, word[2], AT_SYMLINK_FOLLOW);
  }
  if (is("write")) {
    size_t length = number(word, 3);
    memset(buffer, word[4][0], length);
    // A write that was cut short is continued, and then says why it was.
    for (size_t done = 0; done < length;) {
      ssize_t count = pwrite(*file, buffer + done, length - done, number(word, 2) + done);
      if (count <= 0) return -1;
      done += count;
    }
    return 0;
  }
  if (is("map")) return map_write(*file, number(word, 2), number(word, 3), word[4][0]);
  if (is("cut")) return ftruncate(*file, number(word, 2));
  if (is("allocate")) return fallocate(*file, 0, number(word, 2), number(word, 3));
  if (is("punch"))
    return fallocate(
      *file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, number(word, 2), number(word, 3));
  if (is("fsync")) return fsync(*file);
  if (is("fdatasync")) return fdatasync(*file);
  if (is("syncfs")) return syncfs(*file);
  if (is("close")) return close_file(file);
  if (is("fsyncdir")) return sync_path(word[1]);
  if (is("read")) return read_path(word[1]);
  if (is("mkdir")) return mkdir(word[1], 0755);
  if (is("rmdir")) return rmdir(word[1]);
  if (is("unlink")) return unlink(word[1]);
  if (is("rename")) return rename(word[1], word[2]);
  if (is("exchange"))
    return renameat2(AT_FDCWD, word[1], AT_FDCWD, word[2], RENAME_EXCHANGE);
  if (is("link")) return link(word[1], word[2]);
  if (is("symlink")) return symlink(word[1], word[2]);
  if (is("chmod")) return chmod(word[1], strtol(word[2], NULL, 8));
  if (is("attribute")) return setxattr(word[1], word[2], word[3], strlen(word[3]), 0);
  if (is("evict")) return setxattr(word[1], "user.ubiquity.evict", "1", 1, 0);
  if (is("sync")) {
    int status = system("ubiquityfs sync --wait --timeout 20 >/dev/null 2>&1");
    errno = ENOTCONN;
    return status ? -1 : 0;
  }
  fprintf(stderr, "no operation: %s\n", op);
  exit(2);
}

static int run(const char *workload, const char *directory, const char *report, const char *mark) {
  FILE *lines = fopen(workload, "r");
  int told = open(report, O_WRONLY | O_CREAT | O_APPEND, 0600);
  int marked = mark ? open(mark, O_WRONLY) : -1;
  if (!lines || told < 0 || (mark && marked < 0) || chdir(directory)) {
    perror("driver");
    return 2;
  }
  memset(files, -1, sizeof files);
  char line[512];
  for (int index = 0; fgets(line, sizeof line, lines); index++) {
    char *word[8] = {0}, *rest = line;
    for (int count = 0; count < 7 && (word[count] = strtok(rest, " \n")); count++) rest = NULL;
    if (!word[0]) continue;
    int code = perform(word) ? errno : 0;
    if (code == ENOTCONN || code == ECONNABORTED || code == ENODEV) return 3;
    dprintf(told, "%d %d\n", index, code);
    if (marked >= 0 && pwrite(marked, line, snprintf(line, sizeof line, "%d", index), 0) < 0)
      return 2;
  }
  // Descriptors that the workload left open are left to the end of the process.
  return 0;
}

static void show(const char *path);

// On a directory of the disk: what a mount is to show after each operation. What only a mount knows
// (evict, sync) changes nothing.
static int model(const char *workload, const char *directory) {
  FILE *lines = fopen(workload, "r");
  if (!lines || chdir(directory)) return 2;
  memset(files, -1, sizeof files);
  char line[512];
  for (int index = 0; fgets(line, sizeof line, lines); index++) {
    char *word[8] = {0}, *rest = line;
    for (int count = 0; count < 7 && (word[count] = strtok(rest, " \n")); count++) rest = NULL;
    if (!word[0]) continue;
    if (strcmp(word[0], "evict") && strcmp(word[0], "sync") && perform(word)) {
      fprintf(stderr, "operation %d fails: %s\n", index, strerror(errno));
      return 1;
    }
    printf("== %d\n", index);
    show("");
  }
  return 0;
}

static void show_content(const char *path, off_t size) {
  int file = open(path, O_RDONLY);
  ssize_t count = file < 0 ? -1 : pread(file, buffer, sizeof buffer, 0);
  if (count < 0) {
    printf("errno=%d", errno);
  } else if (count != size) {
    printf("short=%zd", count);
  } else {
    for (ssize_t start = 0, end; start < count; start = end) {
      for (end = start; end < count && buffer[end] == buffer[start]; end++) {}
      char letter = buffer[start] ? buffer[start] : '0';
      printf("%c%zd,", letter, end - start);
    }
  }
  if (file >= 0) close(file);
}

static void show_attributes(const char *path) {
  char names[4096], value[4096];
  ssize_t count = llistxattr(path, names, sizeof names);
  for (char *name = names; name < names + count; name += strlen(name) + 1) {
    ssize_t length = lgetxattr(path, name, value, sizeof value);
    printf(" %s=%.*s", name, (int)(length < 0 ? 0 : length), value);
  }
}

static void show(const char *path) {
  struct dirent **entries;
  int count = scandir(*path ? path : ".", &entries, NULL, alphasort);
  if (count < 0) {
    printf("? %s errno=%d\n", path, errno);
    return;
  }
  for (int index = 0; index < count; index++) {
    const char *name = entries[index]->d_name;
    if (!strcmp(name, ".") || !strcmp(name, "..")) continue;
    char below[4096], target[4096];
    snprintf(below, sizeof below, "%s%s%s", path, *path ? "/" : "", name);
    struct stat status;
    if (lstat(below, &status)) {
      printf("? %s errno=%d\n", below, errno);
    } else if (S_ISDIR(status.st_mode)) {
      printf("d %s %o %lu", below, status.st_mode & 07777, status.st_nlink);
      show_attributes(below);
      printf("\n");
      show(below);
    } else if (S_ISLNK(status.st_mode)) {
      ssize_t length = readlink(below, target, sizeof target);
      printf("l %s %.*s\n", below, (int)(length < 0 ? 0 : length), target);
    } else {
      printf("f %s #%lu %o %lu ", below, status.st_ino, status.st_mode & 07777, status.st_nlink);
      show_content(below, status.st_size);
      show_attributes(below);
      printf("\n");
    }
    free(entries[index]);
  }
  free(entries);
}

int main(int argc, char **argv) {
  umask(022);
  if (argc >= 5 && argc <= 6 && !strcmp(argv[1], "run"))
    return run(argv[2], argv[3], argv[4], argv[5]);
  if (argc == 3 && !strcmp(argv[1], "show") && !chdir(argv[2])) {
    show("");
    return 0;
  }
  if (argc == 4 && !strcmp(argv[1], "model")) return model(argv[2], argv[3]);
  fprintf(stderr, "see the head of driver.c\n");
  return 2;
}
