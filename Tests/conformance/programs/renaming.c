// Renames: over open files, exchanged, never replacing; and what they may not do.
#include "tell.h"

int main(void) {
  umask(022);
  int old = made("target", "old");
  close(made("source", "new text"));
  TELL(rename("source", "target"));
  char text[16] = {0};
  TELL(pread(old, text, 16, 0));
  TELL(!strcmp(text, "old"));
  TELL(status_of(old).st_nlink);
  TELL(pwrite(old, "older", 5, 0));
  TELL(status_of(old).st_size);
  TELL(status("target").st_size);
  TELL(access("source", F_OK));

  close(made("first", "1"));
  close(made("second", "22"));
  TELL(renameat2(AT_FDCWD, "first", AT_FDCWD, "second", RENAME_NOREPLACE));
  TELL(renameat2(AT_FDCWD, "first", AT_FDCWD, "third", RENAME_NOREPLACE));
  TELL(renameat2(AT_FDCWD, "third", AT_FDCWD, "second", RENAME_EXCHANGE));
  TELL(status("third").st_size);
  TELL(status("second").st_size);
  TELL(renameat2(AT_FDCWD, "third", AT_FDCWD, "none", RENAME_EXCHANGE));
  TELL(renameat2(AT_FDCWD, "third", AT_FDCWD, "second", RENAME_EXCHANGE | RENAME_NOREPLACE));
  TELL(renameat2(AT_FDCWD, "third", AT_FDCWD, "second", 1 << 7));

  MUST(mkdir("a", 0755) == 0 && mkdir("a/b", 0755) == 0 && mkdir("c", 0755) == 0);
  MUST(mkdir("a/b/deep", 0755) == 0);
  TELL(renameat2(AT_FDCWD, "a/b", AT_FDCWD, "third", RENAME_EXCHANGE));
  TELL(status("a").st_nlink);
  TELL(status("third").st_nlink);
  TELL(status("a/b").st_size);
  TELL(renameat2(AT_FDCWD, "a/b", AT_FDCWD, "third", RENAME_EXCHANGE));
  TELL(status("a").st_nlink);
  TELL(renameat2(AT_FDCWD, "a", AT_FDCWD, "a/b", RENAME_EXCHANGE));
  TELL(renameat2(AT_FDCWD, "a/b", AT_FDCWD, "a", RENAME_EXCHANGE));
  TELL(renameat2(AT_FDCWD, "a/b", AT_FDCWD, "c", RENAME_EXCHANGE));
  TELL(access("c/deep", F_OK));
  TELL(renameat2(AT_FDCWD, "a/b", AT_FDCWD, "c", RENAME_EXCHANGE));

  TELL(rename("a", "a/b/in"));
  TELL(rename("a", "a"));
  TELL(rename("a/b", "a"));
  TELL(rename("c", "a"));
  TELL(rename("third", "a"));
  TELL(rename("a", "third"));
  TELL(rename("none", "third"));
  TELL(rename("third", "none/in"));
  TELL(rename("third", "second/in"));
  TELL(rename("a/.", "x"));
  TELL(rename("a/..", "x"));
  TELL(rename("third", "third/"));
  TELL(rename("third", "new/"));
  TELL(rename("a/b", "c"));
  TELL(status("a").st_nlink);
  TELL(status("c").st_nlink);
  TELL(access("c/deep", F_OK));

  // Two names of one file.
  MUST(link("third", "fourth") == 0);
  TELL(rename("third", "fourth"));
  TELL(status("third").st_nlink);
  TELL(renameat2(AT_FDCWD, "third", AT_FDCWD, "fourth", RENAME_NOREPLACE));
  TELL(renameat2(AT_FDCWD, "third", AT_FDCWD, "fourth", RENAME_EXCHANGE));
  close(made("fifth", "5"));
  struct stat before = status("fourth");
  tick();
  TELL(rename("fifth", "third"));
  TELL(status("fourth").st_nlink);
  TELL_TEXT(changes(before, status("fourth")));

  // A directory that is open, and one that is worked in.
  int open_directory = open("c", O_RDONLY | O_DIRECTORY);
  MUST(mkdir("empty", 0755) == 0);
  int empty = open("empty", O_RDONLY | O_DIRECTORY);
  TELL(rename("c", "moved"));
  TELL(faccessat(open_directory, "deep", F_OK, 0));
  MUST(mkdir("other", 0755) == 0);
  TELL(rename("other", "empty"));
  TELL(status_of(empty).st_nlink);
  TELL(openat(empty, "in", O_RDWR | O_CREAT, 0644));
  struct stat directory_before = status("a"), root_before = status(".");
  tick();
  TELL(rename("moved", "a/moved"));
  TELL_TEXT(changes(directory_before, status("a")));
  TELL_TEXT(changes(root_before, status(".")));
  TELL(chdir("a/moved"));
  TELL(rename("../../a", "../../z"));
  char path[PATH_MAX];
  MUST(getcwd(path, sizeof path));
  TELL(strcmp(strrchr(path, '/') - 2, "/z/moved"));
  TELL(access("../../z", F_OK));
  TELL(status("..").st_nlink);

  // Symbolic links are moved, not followed; links to themselves are refused in between.
  MUST(chdir("../..") == 0 && symlink("fourth", "soft") == 0 && symlink("loop", "loop") == 0);
  TELL(rename("soft", "softer"));
  TELL(S_ISLNK(status("softer").st_mode));
  TELL(rename("loop", "loops"));
  TELL(rename("loops/x", "y"));
  TELL(rename("fourth", "loops/y"));
  TELL(rename("fourth", "softer"));
  TELL(S_ISREG(status("softer").st_mode));
  return 0;
}
