// A file system that reads every lookup and answers none: whoever looks waits, even after SIGKILL,
// until this process ends. `pit MOUNTPOINT -f` writes a line to standard output for each lookup.

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void look_up(fuse_req_t request, fuse_ino_t parent, const char *name) {
  (void)request;
  (void)parent;
  printf("%s\n", name);
  fflush(stdout);
}

static void get_attributes(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file) {
  (void)file;
  struct stat status;
  memset(&status, 0, sizeof status);
  status.st_ino = inode;
  status.st_mode = S_IFDIR | 0755;
  status.st_nlink = 2;
  status.st_uid = getuid();
  fuse_reply_attr(request, &status, 1000);
}

int main(int count, char **words) {
  static const struct fuse_lowlevel_ops operations = {
      .lookup = look_up, .getattr = get_attributes};
  struct fuse_args arguments = FUSE_ARGS_INIT(count, words);
  struct fuse_cmdline_opts options;
  if (fuse_parse_cmdline(&arguments, &options) != 0) return 1;
  struct fuse_session *session = fuse_session_new(&arguments, &operations, sizeof operations, NULL);
  if (!session || fuse_session_mount(session, options.mountpoint) != 0) return 1;
  return fuse_session_loop(session);
}
