// Names and paths that are too long, loops, and what is refused of each kind of file.
#include "tell.h"
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/xattr.h>

static void names(void) {
  char name[300];
  memset(name, 'n', sizeof name);
  name[256] = 0;
  TELL(open(name, O_RDWR | O_CREAT, 0644));
  TELL(open(name, O_RDONLY));
  TELL(mkdir(name, 0755));
  TELL(unlink(name));
  TELL(rmdir(name));
  TELL(symlink("x", name));
  TELL(access(name, F_OK));
  close(made("file", "x"));
  TELL(rename("file", name));
  TELL(link("file", name));
  TELL(mkfifo(name, 0600));
  name[255] = 0;
  TELL(close(open(name, O_RDWR | O_CREAT, 0644)));
  TELL(rename(name, "short"));
  TELL(rename("short", name));
  TELL(unlink(name));
  // 255 bytes of which not all are characters, and none is refused but '/' and NUL.
  for (int byte = 1; byte < 256; byte++) {
    char odd[3] = {'x', (char)byte, 0};
    if (byte == '/') continue;
    int file = open(odd, O_RDWR | O_CREAT | O_EXCL, 0644);
    if (file < 0) printf("  byte %d: %s\n", byte, strerrorname_np(errno));
    else MUST(close(file) == 0 && access(odd, F_OK) == 0 && unlink(odd) == 0);
  }
  TELL(mkdir("...", 0755));
  TELL(mkdir(" ", 0755));
  TELL(mkdir("a\nb", 0755));
  TELL(mkdir("é", 0755));
  TELL(mkdir("e\xcc\x81", 0755));
  TELL(mkdir("É", 0755));
  TELL(open("", O_RDONLY));
  TELL(mkdir("", 0755));
  TELL(rmdir("."));
  TELL(rmdir(".."));
  TELL(unlink("."));
  TELL(mkdir(".", 0755));
  TELL(symlink("", "empty"));
}

// Deeper than PATH_MAX, step by step.
static void depth(void) {
  char name[256], path[PATH_MAX + 1];
  memset(name, 'd', 250);
  name[250] = 0;
  int top = open(".", O_RDONLY);
  for (int count = 0; count < 40; count++) MUST(mkdir(name, 0755) == 0 && chdir(name) == 0);
  TELL(getcwd(path, sizeof path) ? 0 : -1);
  close(made("deepest", "deep"));
  TELL(status("deepest").st_size);
  MUST(fchdir(top) == 0);
  memset(path, 'd', sizeof path);
  for (int place = 250; place < PATH_MAX; place += 251) path[place] = '/';
  path[PATH_MAX - 1] = 0;
  TELL(access(path, F_OK) == 0 || errno != ENAMETOOLONG);
  path[PATH_MAX - 1] = 'd', path[PATH_MAX] = 0;
  TELL(access(path, F_OK));
  for (int count = 0; count < 40; count++) MUST(chdir(name) == 0);
  TELL(unlink("deepest"));
  for (int count = 0; count < 40; count++) MUST(chdir("..") == 0 && rmdir(name) == 0);
  TELL(rename("file", "file"));
  memset(path, 'x', PATH_MAX);
  path[4095] = 0;
  TELL(symlink(path, "long"));
  TELL(status("long").st_size);
  char target[PATH_MAX];
  TELL(readlink("long", target, sizeof target));
  TELL(readlink("long", target, 10));
  TELL(readlink("file", target, 10));
  TELL(open("long", O_RDONLY));
  path[4095] = 'x', path[4096] = 0;
  TELL(symlink(path, "longer"));
}

static void loops(void) {
  MUST(symlink("self", "self") == 0 && symlink("two", "one") == 0 && symlink("one", "two") == 0);
  TELL(open("self", O_RDONLY));
  TELL(open("one", O_RDONLY));
  TELL(open("one/x", O_RDONLY));
  TELL(chmod("self", 0600));
  TELL(truncate("one", 0));
  TELL(open("self", O_RDWR | O_CREAT, 0644));
  TELL(open("self", O_RDONLY | O_NOFOLLOW));
  TELL(open("self", O_PATH | O_NOFOLLOW) >= 0);
  TELL(mkdir("self", 0755));
  TELL(mkdir("self/d", 0755));
  TELL(rename("file", "self/x"));
  TELL(link("self", "hard"));
  TELL(status("hard").st_nlink);
  char last[16] = "file", next[16];
  for (int count = 0; count < 41; count++) {
    snprintf(next, sizeof next, "chain%d", count);
    MUST(symlink(last, next) == 0);
    strcpy(last, next);
  }
  TELL(access("chain39", F_OK));
  TELL(access("chain40", F_OK));
}

static void kinds(void) {
  TELL(mkfifo("fifo", 0600));
  TELL(open("fifo", O_WRONLY | O_NONBLOCK));
  TELL(open("fifo", O_RDONLY | O_NONBLOCK) >= 0);
  TELL(truncate("fifo", 0));
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  TELL(bind(listener, (struct sockaddr *)&address, sizeof address));
  TELL(listen(listener, 1));
  TELL(S_ISSOCK(status("socket").st_mode));
  int client = socket(AF_UNIX, SOCK_STREAM, 0);
  TELL(connect(client, (struct sockaddr *)&address, sizeof address));
  TELL(open("socket", O_RDONLY));
  TELL(bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address));
  TELL(unlink("socket"));
  TELL(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address));
  TELL(mkdir("d", 0755));
  TELL(unlink("d"));
  TELL(rmdir("file"));
  TELL(link("d", "d2"));
  TELL(link("file", "file"));
  TELL(link("none", "hard2"));
  TELL(mknod("regular", S_IFREG | 0640, 0));
  TELL(status("regular").st_size);
  TELL(mknod("regular", S_IFREG | 0640, 0));
  TELL(mknod("wrong", S_IFDIR | 0755, 0));
  TELL(chdir("file"));
  TELL(open("/dev/null/x", O_RDONLY));
  TELL(lseek(open("file", O_RDONLY), 0, SEEK_END));
  TELL(access("file/", F_OK));
  TELL(unlink("file/"));
  TELL(mkdir("new/", 0755));
  TELL(rmdir("new/"));
  TELL(open("file", O_RDWR | O_CREAT | O_EXCL | O_DIRECTORY, 0644));
}

static void sizes(void) {
  struct statvfs about;
  TELL(statvfs(".", &about));
  TELL(about.f_namemax);
  TELL(about.f_bsize);
  TELL(about.f_frsize);
  TELL(about.f_blocks > 0 && about.f_bfree <= about.f_blocks && about.f_bavail <= about.f_bfree);
  TELL(about.f_files > 0 && about.f_ffree <= about.f_files);
  TELL(pathconf(".", _PC_NAME_MAX));
  TELL(pathconf(".", _PC_PATH_MAX));
  TELL(status(".").st_blksize);
  TELL(status("file").st_blksize);
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = {1 << 20, RLIM_INFINITY};
  MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  int file = open("limited", O_RDWR | O_CREAT, 0644);
  TELL(ftruncate(file, (1 << 20) + 1));
  TELL(pwrite(file, "x", 1, 1 << 20));
  TELL(pwrite(file, "xyz", 3, (1 << 20) - 2));
  TELL(fallocate(file, 0, 0, 2 << 20));
  TELL(status_of(file).st_size);
  limit.rlim_cur = RLIM_INFINITY;
  MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  TELL(pwrite(file, "x", 1, INT64_MAX));
  TELL(ftruncate(file, INT64_MAX));
  TELL(pwrite(file, "x", 1, 1LL << 40));
  TELL(status_of(file).st_size);
  TELL(ftruncate(file, 0));
}

static void attributes(void) {
  char value[65537] = {0}, name[300] = "user.";
  TELL(setxattr("file", "user.a", value, 1, 0));
  TELL(setxattr("file", "user.a", value, 0, 0));
  TELL(getxattr("file", "user.a", value, 10));
  TELL(setxattr("file", "user.a", "value", 5, XATTR_REPLACE));
  TELL(getxattr("file", "user.a", value, 3));
  TELL(getxattr("file", "user.a", NULL, 0));
  TELL(listxattr("file", NULL, 0));
  TELL(listxattr("file", value, 2));
  TELL(setxattr("file", "user.a", value, 65537, 0));
  memset(name + 5, 'n', 251);
  name[256] = 0;
  TELL(setxattr("file", name, "x", 1, 0));
  TELL(getxattr("file", name, value, 10));
  name[255] = 0;
  TELL(setxattr("file", name, "x", 1, 0));
  TELL(removexattr("file", name));
  TELL(setxattr("file", "user.", "x", 1, 0));
  TELL(getxattr("file", "user.", value, 1));
  TELL(removexattr("file", "user."));
  TELL(setxattr("file", "", "x", 1, 0));
  TELL(setxattr("file", "none", "x", 1, 0));
  TELL(getxattr("file", "none.x", value, 1));
  TELL(removexattr("file", "user.none"));
  TELL(removexattr("file", "user.a"));
  TELL(listxattr("file", value, 100));
  TELL(setxattr("d", "user.a", "x", 1, 0));
  TELL(setxattr("fifo", "user.a", "x", 1, 0));
  TELL(getxattr("fifo", "user.a", value, 1));
  TELL(lsetxattr("long", "user.a", "x", 1, 0));
}

int main(void) {
  umask(022);
  names();
  depth();
  loops();
  kinds();
  sizes();
  attributes();
  return 0;
}
