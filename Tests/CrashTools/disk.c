// A disk whose every write is written down, and what of it a power cut may leave.
//
//   disk serve IMAGE LOG DIRECTORY    shows `disk` (the image, in memory) and `mark` in DIRECTORY
//   disk count LOG                    how many records, and the marks among them
//   disk cut IMAGE LOG AT SEED OUT    the image as a power cut before record AT may leave it
//
// `serve` is a FUSE file system for a loop device to stand on: each write of the block layer is a
// record of LOG in the order in which it came, and so is each flush. What is written to `mark` is a
// record too, so that a program can say between which two writes it was.
//
// A disk may keep or lose what was written since the last flush, each sector of it on its own, and
// nothing else. `cut` applies all records up to the last flush before AT, and of those from there
// to AT a part that SEED chooses: 0 none of them, 1 all of them, else each with an even chance, and
// some torn between two sectors.
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { WRITE = 1, FLUSH = 2, MARK = 3 };

struct record {
  uint32_t kind;
  uint32_t length;
  uint64_t offset;
};

static const size_t sector = 512;

static char *image;
static size_t size;
static int journal = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void load(const char *path) {
  int file = open(path, O_RDONLY);
  struct stat status;
  if (file < 0 || fstat(file, &status)) fail(path);
  size = status.st_size;
  image = calloc(1, size);
  if (!image) fail("memory");
  // Holes stay untouched, so that a large image that holds little costs little.
  off_t data = 0;
  while ((data = lseek(file, data, SEEK_DATA)) >= 0) {
    off_t hole = lseek(file, data, SEEK_HOLE);
    while (data < hole) {
      ssize_t count = pread(file, image + data, hole - data, data);
      if (count <= 0) fail(path);
      data += count;
    }
  }
  close(file);
}

static int append(enum kind kind, const char *bytes, uint32_t length, uint64_t offset) {
  struct record record = {kind, length, offset};
  if (write(journal, &record, sizeof record) != sizeof record) return -EIO;
  if (length > 0 && write(journal, bytes, length) != length) return -EIO;
  return 0;
}

static int get_attributes(const char *path, struct stat *status, struct fuse_file_info *file) {
  (void)file;
  memset(status, 0, sizeof *status);
  if (!strcmp(path, "/")) {
    status->st_mode = S_IFDIR | 0700;
    status->st_nlink = 2;
  } else if (!strcmp(path, "/disk")) {
    status->st_mode = S_IFREG | 0600;
    status->st_nlink = 1;
    status->st_size = size;
  } else if (!strcmp(path, "/mark")) {
    status->st_mode = S_IFREG | 0600;
    status->st_nlink = 1;
  } else {
    return -ENOENT;
  }
  return 0;
}

static int open_file(const char *path, struct fuse_file_info *file) {
  (void)path;
  // The page cache above would hold writes back and merge them.
  file->direct_io = 1;
  return 0;
}

static int truncate_file(const char *path, off_t length, struct fuse_file_info *file) {
  (void)length;
  (void)file;
  return strcmp(path, "/mark") ? -EPERM : 0;
}

static int read_file(
  const char *path, char *buffer, size_t count, off_t offset, struct fuse_file_info *file) {
  (void)file;
  if (strcmp(path, "/disk") || (size_t)offset >= size) return 0;
  if (count > size - offset) count = size - offset;
  pthread_mutex_lock(&lock);
  memcpy(buffer, image + offset, count);
  pthread_mutex_unlock(&lock);
  return count;
}

static int write_file(
  const char *path, const char *bytes, size_t count, off_t offset, struct fuse_file_info *file) {
  (void)file;
  bool isMark = !strcmp(path, "/mark");
  if (!isMark && offset + count > size) return -ENOSPC;
  pthread_mutex_lock(&lock);
  int result = append(isMark ? MARK : WRITE, bytes, count, offset);
  if (!result && !isMark) memcpy(image + offset, bytes, count);
  pthread_mutex_unlock(&lock);
  return result ? result : (int)count;
}

static int flush_disk(const char *path, int onlyData, struct fuse_file_info *file) {
  (void)onlyData;
  (void)file;
  if (strcmp(path, "/disk")) return 0;
  pthread_mutex_lock(&lock);
  int result = append(FLUSH, NULL, 0, 0);
  pthread_mutex_unlock(&lock);
  return result;
}

static const struct fuse_operations operations = {
  .getattr = get_attributes,
  .open = open_file,
  .truncate = truncate_file,
  .read = read_file,
  .write = write_file,
  .fsync = flush_disk,
};

static int serve(char *program, const char *base, const char *log, char *directory) {
  load(base);
  journal = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  if (journal < 0) fail(log);
  char *arguments[] = {program, "-f", "-o", "fsname=disk", directory};
  return fuse_main(5, arguments, &operations, NULL);
}

static bool next(FILE *file, struct record *record, char **bytes) {
  if (fread(record, sizeof *record, 1, file) != 1) return false;
  *bytes = realloc(*bytes, record->length + 1);
  if (record->length > 0 && fread(*bytes, record->length, 1, file) != 1) return false;
  (*bytes)[record->length] = 0;
  return true;
}

static int count(const char *log) {
  FILE *file = fopen(log, "r");
  if (!file) fail(log);
  struct record record;
  char *bytes = NULL;
  uint64_t index = 0;
  while (next(file, &record, &bytes)) {
    if (record.kind == FLUSH) printf("%lu flush\n", index);
    if (record.kind == MARK) printf("%lu mark %s\n", index, bytes);
    index++;
  }
  printf("%lu end\n", index);
  return 0;
}

static uint64_t state;

static uint64_t random_word(void) {
  uint64_t word = (state += 0x9E3779B97F4A7C15);
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
  return word ^ (word >> 31);
}

static void apply(const struct record *record, const char *bytes, size_t from, size_t to) {
  memcpy(image + record->offset + from, bytes + from, to - from);
}

static int cut(const char *base, const char *log, uint64_t at, uint64_t seed, const char *out) {
  load(base);
  FILE *file = fopen(log, "r");
  if (!file) fail(log);
  struct record record;
  char *bytes = NULL;
  uint64_t flushed = 0;
  for (uint64_t index = 0; index < at && next(file, &record, &bytes); index++)
    if (record.kind == FLUSH) flushed = index;
  rewind(file);
  state = seed;
  for (uint64_t index = 0; index < at && next(file, &record, &bytes); index++) {
    if (record.kind != WRITE) continue;
    size_t sectors = record.length / sector;
    if (index < flushed || seed == 1) {
      apply(&record, bytes, 0, record.length);
    } else if (seed > 1) {
      uint64_t chance = random_word() % 8;
      if (chance < 4) {
        apply(&record, bytes, 0, record.length);
      } else if (chance == 4 && sectors > 1) {
        size_t kept = 1 + random_word() % (sectors - 1);
        apply(&record, bytes, 0, kept * sector);
      } else if (chance == 5 && sectors > 1) {
        size_t lost = 1 + random_word() % (sectors - 1);
        apply(&record, bytes, lost * sector, record.length);
      }
    }
  }
  int image_file = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (image_file < 0 || ftruncate(image_file, size)) fail(out);
  static const char nothing[1 << 16];
  for (size_t offset = 0; offset < size; offset += sizeof nothing) {
    size_t length = size - offset < sizeof nothing ? size - offset : sizeof nothing;
    if (memcmp(image + offset, nothing, length) == 0) continue;
    if (pwrite(image_file, image + offset, length, offset) != (ssize_t)length) fail(out);
  }
  return close(image_file) ? 1 : 0;
}

int main(int argc, char **argv) {
  if (argc == 5 && !strcmp(argv[1], "serve")) return serve(argv[0], argv[2], argv[3], argv[4]);
  if (argc == 3 && !strcmp(argv[1], "count")) return count(argv[2]);
  if (argc == 7 && !strcmp(argv[1], "cut"))
    return cut(argv[2], argv[3], strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10), argv[6]);
  fprintf(stderr, "see the head of disk.c\n");
  return 2;
}
