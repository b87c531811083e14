// Holes and sparse files, truncation, space, O_DIRECT, mappings, copies in the kernel.
#include "tell.h"
#include <linux/falloc.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

// A sum of what is in a file, so that every byte counts.
static unsigned sum(const char *name) {
  int file = open(name, O_RDONLY);
  MUST(file >= 0);
  static unsigned char bytes[1 << 16];
  unsigned result = 2166136261u;
  for (ssize_t count; (count = read(file, bytes, sizeof bytes)) > 0;)
    for (ssize_t place = 0; place < count; place++) result = (result ^ bytes[place]) * 16777619u;
  close(file);
  return result;
}

static void map_of(const char *name) {
  int file = open(name, O_RDONLY);
  off_t end = lseek(file, 0, SEEK_END), place = 0;
  while (place < end) {
    off_t data = lseek(file, place, SEEK_DATA);
    if (data < 0) {
      printf("  hole to the end: %s\n", strerrorname_np(errno));
      break;
    }
    off_t hole = lseek(file, data, SEEK_HOLE);
    printf("  data %lld-%lld\n", (long long)data, (long long)hole);
    place = hole;
  }
  TELL(lseek(file, end, SEEK_DATA));
  TELL(lseek(file, end, SEEK_HOLE));
  TELL(lseek(file, -1, SEEK_DATA));
  TELL(lseek(file, 0, 17));
  close(file);
}

static void holes(void) {
  int file = open("sparse", O_RDWR | O_CREAT, 0644);
  TELL(lseek(file, 1 << 30, SEEK_SET));
  TELL(write(file, "end", 3));
  TELL(status("sparse").st_size);
  TELL(status("sparse").st_blocks < 64);
  TELL(pwrite(file, "middle", 6, 500 << 20));
  TELL(fsync(file));
  map_of("sparse");
  TELL(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 500 << 20, 4096));
  TELL(fsync(file));
  map_of("sparse");
  char text[8];
  TELL(pread(file, text, 8, 1 << 29));
  TELL(memcmp(text, "\0\0\0\0\0\0\0\0", 8));
  TELL(pread(file, text, 8, (1 << 30) - 2));
  TELL(pread(file, text, 8, (1 << 30) + 3));
  TELL(ftruncate(file, 100));
  TELL(ftruncate(file, 10000));
  map_of("sparse");
  TELL(ftruncate(file, -1));
  TELL(truncate("sparse", -1));
  TELL(truncate(".", 0));
  TELL(truncate("none", 0));
  TELL(ftruncate(file, 0));
  TELL(status("sparse").st_blocks);
  map_of("sparse");
  TELL(fallocate(file, 0, 0, 1 << 20));
  TELL(status("sparse").st_size);
  TELL(status("sparse").st_blocks >= 2048);
  TELL(fallocate(file, FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 20));
  TELL(status("sparse").st_size);
  TELL(status("sparse").st_blocks >= 4096);
  TELL(pwrite(file, "0123456789", 10, 4090));
  TELL(fallocate(file, FALLOC_FL_ZERO_RANGE, 4092, 4));
  TELL(pread(file, text, 8, 4090));
  TELL(memcmp(text, "01\0\0\0\0" "67", 8));
  TELL(fallocate(file, FALLOC_FL_PUNCH_HOLE, 0, 4096));
  TELL(fallocate(file, 0, -1, 10));
  TELL(fallocate(file, 0, 0, 0));
  TELL(posix_fallocate(file, 3 << 20, 100));
  TELL(status("sparse").st_size);
  TELL(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
  TELL(close(file));
  // Ends of a page after truncation are zeros, not what was there.
  file = made("ends", "");
  char page[8192];
  memset(page, 'x', sizeof page);
  TELL(write(file, page, sizeof page));
  TELL(ftruncate(file, 5000));
  TELL(ftruncate(file, 8192));
  TELL(pread(file, page, sizeof page, 0));
  TELL(page[4999]);
  TELL(page[5000]);
  TELL(page[8191]);
  TELL(close(file));
}

static void direct(void) {
  int file = open("direct", O_RDWR | O_CREAT | O_DIRECT, 0644);
  TELL(file >= 0);
  char *block;
  MUST(!posix_memalign((void **)&block, 4096, 65536));
  memset(block, 'd', 65536);
  TELL(pwrite(file, block, 65536, 0));
  TELL(pwrite(file, block, 4096, 1 << 20));
  TELL(status("direct").st_size);
  int cached = open("direct", O_RDWR);
  char text[16];
  TELL(pread(cached, text, 4, 4096));
  TELL(text[0]);
  TELL(pwrite(cached, "cached", 6, 4096));
  memset(block, 0, 65536);
  TELL(pread(file, block, 8192, 4096));
  TELL(memcmp(block, "cachedd", 7));
  memset(block, 'n', 4096);
  TELL(pwrite(file, block, 4096, 4096));
  TELL(pread(cached, text, 4, 4096));
  TELL(text[0]);
  TELL(pread(file, block, 65536, (1 << 20) + 4096));
  TELL(pread(file, block, 65536, 1 << 20));
  TELL(close(file));
  TELL(close(cached));
  printf("%u\n", sum("direct"));
}

static void mapped(void) {
  int file = open("mapped", O_RDWR | O_CREAT, 0644);
  MUST(ftruncate(file, 10000) == 0);
  char *shared = mmap(0, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  char *private = mmap(0, 10000, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  TELL(shared != MAP_FAILED);
  TELL(private != MAP_FAILED);
  strcpy(shared + 100, "through the mapping");
  char text[32] = {0};
  TELL(pread(file, text, 19, 100));
  TELL(strcmp(text, "through the mapping"));
  TELL(strcmp(private + 100, "through the mapping"));
  TELL(pwrite(file, "THROUGH", 7, 100));
  TELL(strcmp(shared + 100, "THROUGH the mapping"));
  strcpy(private + 5000, "mine");
  TELL(pread(file, text, 5, 5000));
  TELL(text[0]);
  TELL(msync(shared, 10000, MS_SYNC));
  // Another process sees it, with a mapping of its own.
  TELL(IN_CHILD({
    int other = open("mapped", O_RDWR);
    char *there = mmap(0, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
    if (strcmp(there + 100, "THROUGH the mapping")) _exit(1);
    strcpy(there + 9000, "from the child");
  }));
  TELL(strcmp(shared + 9000, "from the child"));
  // A mapping outlives its descriptor and the file's name.
  TELL(close(file));
  TELL(unlink("mapped"));
  strcpy(shared + 200, "still");
  TELL(strcmp(shared + 200, "still"));
  TELL(munmap(shared, 10000));
  TELL(munmap(private, 10000));
  // Past the end of the file is SIGBUS.
  file = made("short", "x");
  TELL(IN_CHILD({
    char *past = mmap(0, 8192, PROT_READ, MAP_SHARED, file, 0);
    signal(SIGBUS, SIG_DFL);
    _exit(past[4096]);
  }));
  TELL(IN_CHILD({
    char *last = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
    _exit(last[4095]);
  }));
  int read_only = open("short", O_RDONLY);
  TELL(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, read_only, 0) == MAP_FAILED ? -1 : 0);
  TELL(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, read_only, 0) == MAP_FAILED ? -1 : 0);
  // What is written through a mapping after its descriptor was closed is in the file.
  file = open("late", O_RDWR | O_CREAT, 0644);
  MUST(ftruncate(file, 8192) == 0);
  shared = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  TELL(close(file));
  strcpy(shared + 4096, "late");
  TELL(munmap(shared, 8192));
  printf("%u\n", sum("late"));
  struct stat before = status("late");
  tick();
  file = open("late", O_RDWR);
  shared = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  shared[0] = 'x';
  TELL(msync(shared, 8192, MS_SYNC));
  TELL_TEXT(changes(before, status("late")));
}

static void copies(void) {
  int from = open("from", O_RDWR | O_CREAT, 0644);
  char bytes[100000];
  for (size_t place = 0; place < sizeof bytes; place++) bytes[place] = (char)(place * 7 / 3);
  TELL(write(from, bytes, sizeof bytes));
  int to = open("to", O_RDWR | O_CREAT, 0644);
  off_t in = 10, out = 5;
  TELL(copy_file_range(from, &in, to, &out, 50000, 0));
  TELL(in);
  TELL(out);
  TELL(status("to").st_size);
  in = 99990;
  TELL(copy_file_range(from, &in, to, NULL, 50000, 0));
  in = 100000;
  TELL(copy_file_range(from, &in, to, NULL, 1, 0));
  in = 0, out = 10;
  TELL(copy_file_range(from, &in, from, &out, 100, 0));
  in = 0, out = 200000;
  TELL(copy_file_range(from, &in, from, &out, 100, 0));
  int appending = open("to", O_WRONLY | O_APPEND), reading = open("to", O_RDONLY);
  in = out = 0;
  TELL(copy_file_range(from, &in, appending, &out, 10, 0));
  TELL(copy_file_range(from, &in, reading, &out, 10, 0));
  TELL(copy_file_range(appending, &in, to, &out, 10, 0));
  TELL(copy_file_range(from, &in, to, &out, 10, 1));
  in = 0;
  TELL(lseek(to, 0, SEEK_END));
  TELL(sendfile(to, from, &in, 70000));
  TELL(in);
  TELL(status("to").st_size);
  int ends[2];
  MUST(pipe(ends) == 0);
  in = 100;
  TELL(splice(from, &in, ends[1], NULL, 1000, 0));
  out = 300000;
  TELL(splice(ends[0], NULL, to, &out, 1000, 0));
  TELL(status("to").st_size);
  struct iovec parts[3] = {{bytes, 10}, {bytes + 10, 20}, {bytes + 30, 30}};
  TELL(pwritev(to, parts, 3, 400000));
  TELL(preadv(to, parts, 3, 400010));
  TELL(pwritev2(to, parts, 3, 0, RWF_APPEND));
  TELL(status("to").st_size);
  TELL(read(to, bytes, 0));
  TELL(write(to, bytes, 0));
  TELL(pread(to, bytes, 10, -1));
  TELL(close(from));
  TELL(close(to));
  printf("%u %u\n", sum("from"), sum("to"));
  int pipe_copy = open("to", O_RDONLY);
  TELL(lseek(pipe_copy, -1, SEEK_SET));
  TELL(lseek(pipe_copy, 10, SEEK_END));
  TELL(read(pipe_copy, bytes, 10));
  TELL(read(open(".", O_RDONLY), bytes, 10));
}

int main(void) {
  umask(022);
  holes();
  direct();
  mapped();
  copies();
  return 0;
}
