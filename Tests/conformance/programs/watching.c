// inotify of what is done here, and running programs from here.
#include "tell.h"
#include <sys/inotify.h>

static int watcher;

// What has been told since, as names of events.
static void told(const char *of) {
  static const struct { uint32_t mask; const char *name; } names[] = {
      {IN_ACCESS, "access"}, {IN_MODIFY, "modify"}, {IN_ATTRIB, "attrib"},
      {IN_CLOSE_WRITE, "close-write"}, {IN_CLOSE_NOWRITE, "close"}, {IN_OPEN, "open"},
      {IN_MOVED_FROM, "moved-from"}, {IN_MOVED_TO, "moved-to"}, {IN_CREATE, "create"},
      {IN_DELETE, "delete"}, {IN_DELETE_SELF, "delete-self"}, {IN_MOVE_SELF, "move-self"},
      {IN_UNMOUNT, "unmount"}, {IN_IGNORED, "ignored"}, {IN_ISDIR, "directory"}};
  char bytes[1 << 16] __attribute__((aligned(8)));
  ssize_t count = read(watcher, bytes, sizeof bytes);
  printf("%s:", of);
  for (char *place = bytes; count > 0 && place < bytes + count;) {
    struct inotify_event *event = (struct inotify_event *)place;
    printf(" %d", event->wd);
    for (size_t kind = 0; kind < sizeof names / sizeof *names; kind++)
      if (event->mask & names[kind].mask) printf("-%s", names[kind].name);
    if (event->len) printf("(%s)", event->name);
    place += sizeof *event + event->len;
  }
  printf("\n");
}

#define WATCHED(call) do { TELL(call); told("  told"); } while (0)

static void changes_here(void) {
  watcher = inotify_init1(IN_NONBLOCK);
  MUST(mkdir("d", 0755) == 0 && mkdir("e", 0755) == 0);
  TELL(inotify_add_watch(watcher, "d", IN_ALL_EVENTS));
  TELL(inotify_add_watch(watcher, "e", IN_ALL_EVENTS));
  int file;
  WATCHED((file = open("d/file", O_RDWR | O_CREAT, 0644)) >= 0);
  WATCHED(write(file, "text", 4));
  char text[4];
  WATCHED(pread(file, text, 4, 0));
  WATCHED(ftruncate(file, 2));
  WATCHED(fchmod(file, 0600));
  WATCHED(close(file));
  TELL(inotify_add_watch(watcher, "d/file", IN_ALL_EVENTS));
  WATCHED(truncate("d/file", 1));
  WATCHED(utimensat(AT_FDCWD, "d/file", NULL, 0));
  WATCHED(link("d/file", "e/hard"));
  WATCHED(rename("d/file", "d/renamed"));
  WATCHED(rename("d/renamed", "e/moved"));
  WATCHED(rename("e/moved", "e/hard"));
  WATCHED(unlink("e/hard"));
  WATCHED(unlink("e/moved"));
  WATCHED(mkdir("d/in", 0755));
  WATCHED(rename("d/in", "e/in"));
  WATCHED(symlink("x", "d/link"));
  WATCHED(mkfifo("d/fifo", 0600));
  WATCHED(close(open("e/other", O_WRONLY | O_CREAT, 0644)));
  WATCHED(renameat2(AT_FDCWD, "d/link", AT_FDCWD, "e/other", RENAME_EXCHANGE));
  WATCHED(unlink("d/other"));
  WATCHED(rmdir("e/in"));
  WATCHED(unlink("e/other") ?: unlink("d/fifo"));
  WATCHED(unlink("d/link"));
  WATCHED(rmdir("d"));
  WATCHED(rmdir("e"));
}

static void copy(const char *from, const char *to, mode_t mode) {
  int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, mode);
  char bytes[1 << 16];
  for (ssize_t count; (count = read(in, bytes, sizeof bytes)) > 0;)
    MUST(write(out, bytes, count) == count);
  MUST(fchmod(out, mode) == 0);
  close(in), close(out);
}

static int run(const char *path) {
  return IN_CHILD({
    execl(path, path, "again", NULL);
    _exit(errno);
  });
}

static void programs(const char *self) {
  copy(self, "program", 0755);
  TELL(run("./program"));
  int script = open("script", O_WRONLY | O_CREAT, 0755);
  MUST(write(script, "#!./program\n", 12) == 12 && close(script) == 0);
  TELL(run("./script"));
  MUST(chmod("program", 0644) == 0);
  TELL(run("./program"));
  MUST(chmod("program", 0755) == 0);
  int writer = open("program", O_WRONLY);
  TELL(run("./program"));
  close(writer);
  // One that runs cannot be written to, but replaced and removed.
  int ends[2];
  MUST(pipe(ends) == 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[0], 0);
    close(ends[1]);
    execl("./program", "program", "wait", NULL);
    _exit(99);
  }
  close(ends[0]);
  char path[64], target[PATH_MAX] = {0};
  snprintf(path, sizeof path, "/proc/%d/exe", child);
  while (readlink(path, target, sizeof target - 1) > 0 && !strstr(target, "/program")) tick();
  TELL(open("program", O_WRONLY));
  TELL(truncate("program", 1));
  copy(self, "new", 0755);
  TELL(rename("new", "program"));
  TELL(close(open("program", O_WRONLY)));
  TELL(unlink("program"));
  close(ends[1]);
  int ended;
  MUST(waitpid(child, &ended, 0) == child);
  TELL(WEXITSTATUS(ended));
  TELL(run("./program"));
  TELL(mkdir("p", 0755));
  TELL(run("./p"));
}

int main(int count, char **arguments) {
  if (count > 1 && !strcmp(arguments[1], "wait")) {
    char byte;
    return read(0, &byte, 1) == 0 ? 42 : 1;
  }
  if (count > 1) return 43;
  umask(022);
  changes_here();
  char self[PATH_MAX] = {0};
  MUST(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  programs(self);
  return 0;
}
