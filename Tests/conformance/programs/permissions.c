// Who may do what: modes, owners, set-id and sticky bits, groups. Only as root.
#include "tell.h"
#include <grp.h>
#include <sys/xattr.h>

// As another user, with the groups that follow.
#define AS(user, group, extra, ...)                                                                \
  IN_CHILD({                                                                                       \
    gid_t groups[2] = {group, extra};                                                              \
    MUST(setgroups(2, groups) == 0 && setgid(group) == 0 && setuid(user) == 0);                    \
    __VA_ARGS__;                                                                                   \
  })

static int mode(const char *name) { return status(name).st_mode & 07777; }

int main(void) {
  if (geteuid() != 0) return 77;
  umask(0);
  MUST(chmod(".", 0777) == 0);
  // New files are the caller's.
  TELL(AS(1001, 1002, 1003, close(made("theirs", "x"))));
  TELL(status("theirs").st_uid);
  TELL(status("theirs").st_gid);
  TELL(AS(1001, 1002, 1003, MUST(mkdir("their-d", 0750) == 0)));
  TELL(status("their-d").st_uid);
  umask(027);
  close(open("masked", O_RDWR | O_CREAT, 0777));
  TELL(mode("masked"));
  TELL(mkdir("masked-d", 07777));
  TELL(mode("masked-d"));
  TELL(mknod("masked-n", S_IFIFO | 0666, 0));
  TELL(mode("masked-n"));
  umask(0);

  // A supplementary group opens what the group may.
  close(made("group", "x"));
  MUST(chown("group", 1, 1003) == 0 && chmod("group", 0060) == 0);
  TELL(AS(1001, 1002, 1003, TELL(open("group", O_RDWR) >= 0)));
  TELL(AS(1001, 1002, 1004, TELL(open("group", O_RDWR))));
  TELL(AS(1, 1003, 1003, TELL(open("group", O_RDWR))));
  TELL(AS(1001, 1003, 1004, TELL(open("group", O_RDWR) >= 0)));
  TELL(AS(1001, 1002, 1003, TELL(access("group", R_OK))));
  TELL(AS(1001, 1002, 1003, TELL(chmod("group", 0666))));
  TELL(AS(1, 2, 1003, TELL(chown("group", -1, 1003))));
  TELL(AS(1, 2, 3, TELL(chown("group", -1, 4))));
  TELL(AS(1, 2, 3, TELL(chown("group", -1, 3))));
  TELL(AS(1, 2, 3, TELL(chown("group", 4, -1))));
  TELL(AS(1001, 2, 3, TELL(utimensat(AT_FDCWD, "group", NULL, 0))));
  MUST(chmod("group", 0666) == 0);
  TELL(AS(1001, 2, 3, TELL(utimensat(AT_FDCWD, "group", NULL, 0))));
  struct timespec times[2] = {{1, 1}, {2, 2}};
  TELL(AS(1001, 2, 3, TELL(utimensat(AT_FDCWD, "group", times, 0))));

  // Set-id bits: taken away by whoever writes without the right to keep them.
  close(made("set", "x"));
#define SET_AGAIN MUST(chown("set", 1001, 1002) == 0 && chmod("set", 06777) == 0)
  SET_AGAIN;
  TELL(mode("set"));
  TELL(AS(1001, 1002, 1003, TELL(write(open("set", O_WRONLY), "y", 1))));
  TELL(mode("set"));
  SET_AGAIN;
  TELL(write(open("set", O_WRONLY), "y", 1));
  TELL(mode("set"));
  TELL(AS(1004, 1005, 1003, TELL(truncate("set", 5))));
  TELL(mode("set"));
  SET_AGAIN;
  TELL(AS(1004, 1005, 1003, TELL(open("set", O_WRONLY | O_TRUNC) >= 0)));
  TELL(mode("set"));
  SET_AGAIN;
  TELL(AS(1004, 1005, 1003, TELL(fallocate(open("set", O_WRONLY), 0, 0, 10))));
  TELL(mode("set"));
  SET_AGAIN;
  TELL(chown("set", 1001, 1002));
  TELL(mode("set"));
  SET_AGAIN;
  TELL(AS(1001, 1002, 1003, TELL(chown("set", -1, 1003))));
  TELL(mode("set"));
  SET_AGAIN;
  TELL(chown("set", -1, -1));
  TELL(mode("set"));
  MUST(chown("set", 1001, 1002) == 0 && chmod("set", 02767) == 0);
  TELL(chown("set", 5, 6));
  TELL(mode("set"));
  MUST(chown("set", 1001, 1002) == 0 && chmod("set", 02767) == 0);
  TELL(AS(1004, 1005, 1003, TELL(write(open("set", O_WRONLY), "y", 1))));
  TELL(mode("set"));
  // Of a group that one is not in, set-group-ID is not to be had.
  MUST(chown("set", 1001, 1009) == 0 && chmod("set", 0777) == 0);
  TELL(AS(1001, 1002, 1003, TELL(chmod("set", 02777))));
  TELL(mode("set"));
  MUST(mkdir("set-d", 0755) == 0 && chown("set-d", 1001, 1009) == 0 && chmod("set-d", 06755) == 0);
  TELL(chown("set-d", 7, 8));
  TELL(mode("set-d"));
  // Under a set-group-ID directory: its group, and to directories the bit.
  MUST(chmod("set-d", 02777) == 0);
  TELL(AS(1001, 1002, 1003, ({ close(made("set-d/f", "")); MUST(mkdir("set-d/d", 0755) == 0); })));
  TELL(status("set-d/f").st_gid);
  TELL(mode("set-d/f"));
  TELL(status("set-d/d").st_gid);
  TELL(mode("set-d/d"));
  TELL(AS(1001, 1002, 1003, TELL(open("set-d/s", O_CREAT | O_RDWR, 02775) >= 0)));
  TELL(mode("set-d/s"));
  TELL(AS(1001, 1002, 1003, TELL(symlink("x", "set-d/l"))));
  TELL(status("set-d/l").st_gid);
  int unnamed = open("set-d", O_TMPFILE | O_RDWR, 0600);
  TELL(unnamed < 0 ? -1 : (int)status_of(unnamed).st_gid);

  // Sticky directories: only one's own may be removed or renamed.
  MUST(mkdir("sticky", 0777) == 0 && chmod("sticky", 01777) == 0);
  TELL(AS(1001, 1002, 1003, close(made("sticky/f", ""))));
  TELL(AS(1001, 1002, 1003, MUST(mkdir("sticky/d", 0777) == 0)));
  TELL(AS(1004, 1002, 1003, TELL(unlink("sticky/f"))));
  TELL(AS(1004, 1002, 1003, TELL(rmdir("sticky/d"))));
  TELL(AS(1004, 1002, 1003, TELL(rename("sticky/f", "sticky/g"))));
  TELL(AS(1004, 1002, 1003, ({
            close(made("sticky/o", ""));
            TELL(rename("sticky/o", "sticky/f"));
          })));
  TELL(AS(1004, 1002, 1003,
          TELL(renameat2(AT_FDCWD, "sticky/o", AT_FDCWD, "sticky/f", RENAME_EXCHANGE))));
  TELL(AS(1001, 1002, 1003, TELL(unlink("sticky/f"))));
  TELL(AS(1004, 1002, 1003, TELL(link("theirs", "sticky/theirs"))));
  TELL(AS(1001, 1002, 1003, TELL(chmod("theirs", 01777))));
  TELL(mode("theirs"));

  // Directories without rights.
  MUST(mkdir("closed", 0700) == 0);
  close(made("closed/f", "x"));
  TELL(AS(1001, 1002, 1003, TELL(open("closed/f", O_RDONLY))));
  TELL(AS(1001, 1002, 1003, TELL(open("closed", O_RDONLY))));
  TELL(AS(1001, 1002, 1003, TELL(access("closed/none", F_OK))));
  MUST(chmod("closed", 0711) == 0);
  TELL(AS(1001, 1002, 1003, TELL(open("closed/f", O_RDONLY) >= 0)));
  TELL(AS(1001, 1002, 1003, TELL(mkdir("closed/d", 0755))));
  TELL(AS(1001, 1002, 1003, TELL(unlink("closed/f"))));
  MUST(chmod("closed", 0744) == 0);
  TELL(AS(1001, 1002, 1003, TELL(access("closed/f", F_OK))));
  // Attributes.
  TELL(AS(1001, 1002, 1003, TELL(setxattr("closed", "user.a", "b", 1, 0))));
  TELL(AS(1001, 1002, 1003, TELL(setxattr("theirs", "user.a", "b", 1, 0))));
  TELL(AS(1001, 1002, 1003, TELL(setxattr("theirs", "trusted.a", "b", 1, 0))));
  TELL(AS(1001, 1002, 1003, TELL(getxattr("theirs", "trusted.a", NULL, 0))));
  TELL(AS(1001, 1002, 1003, TELL(setxattr("theirs", "security.a", "b", 1, 0))));
  TELL(setxattr("theirs", "trusted.a", "b", 1, 0));
  TELL(setxattr("theirs", "user.a", "c", 1, XATTR_CREATE));
  TELL(setxattr("theirs", "user.n", "c", 1, XATTR_REPLACE));
  TELL(setxattr("theirs", "none.a", "c", 1, 0));
  TELL(setxattr("theirs", "user.", "c", 1, 0));
  TELL(getxattr("theirs", "user.a", (char[1]){0}, 0));
  TELL(removexattr("theirs", "user.n"));
  MUST(symlink("theirs", "soft") == 0);
  TELL(lsetxattr("soft", "user.a", "b", 1, 0));
  TELL(lsetxattr("soft", "trusted.a", "b", 1, 0));
  TELL(mknod("fifo", S_IFIFO | 0666, 0));
  TELL(setxattr("fifo", "user.a", "b", 1, 0));
  TELL(AS(1001, 1002, 1003, TELL(mknod("device", S_IFCHR | 0666, 0x103))));
  return 0;
}
