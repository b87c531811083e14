// Reading directories while they change, seeking in them, and large ones.
// Argument: how many entries the large one gets.
#include "tell.h"

enum { entries = 1200 };

static unsigned char seen[entries * 2];

static int number(const struct dirent *entry) {
  return entry->d_name[0] == 'n' ? atoi(entry->d_name + 1) : -1;
}

static void make(int number) {
  char name[64];
  snprintf(name, sizeof name, "d/n%d", number);
  close(made(name, ""));
}

static void drop(int number) {
  char name[64];
  snprintf(name, sizeof name, "d/n%d", number);
  MUST(unlink(name) == 0);
}

// Entries come and go while the directory is read: none is seen twice, none that stayed is missed.
static void reading(bool dropping, bool making) {
  MUST(mkdir("d", 0755) == 0);
  for (int count = 0; count < entries; count++) make(count);
  memset(seen, 0, sizeof seen);
  bool gone[entries] = {false};
  DIR *stream = opendir("d");
  int next = entries, read_count = 0, twice = 0;
  for (struct dirent *entry; (entry = readdir(stream));) {
    int which = number(entry);
    if (which < 0) continue;
    twice += seen[which]++;
    read_count++;
    if (dropping && which < entries && which % 3 == 0 && !gone[which]) {
      gone[which] = true;
      drop(which);
      int ahead = (which + entries / 2) % entries;
      if (ahead % 3 == 1 && !gone[ahead]) {
        gone[ahead] = true;
        drop(ahead);
      }
    }
    if (making && read_count % 2 == 0 && next < 2 * entries) make(next++);
  }
  closedir(stream);
  int missed = 0;
  for (int count = 0; count < entries; count++) missed += !gone[count] && !seen[count];
  TELL(twice);
  TELL(missed);
  // Once more, at rest: what is there is all that is there.
  int right = 0, wrong = 0;
  stream = opendir("d");
  for (struct dirent *entry; (entry = readdir(stream));) {
    int which = number(entry);
    if (which < 0) continue;
    if (which < entries && gone[which]) wrong++;
    else right++;
  }
  rewinddir(stream);
  int again = 0;
  for (struct dirent *entry; (entry = readdir(stream));) again += number(entry) >= 0;
  closedir(stream);
  int left = next - entries;
  for (int count = 0; count < entries; count++) left += !gone[count];
  TELL(right - left);
  TELL(wrong);
  TELL(again - left);
  stream = opendir("d");
  for (struct dirent *entry; (entry = readdir(stream));)
    if (number(entry) >= 0) unlinkat(dirfd(stream), entry->d_name, 0);
  closedir(stream);
  TELL(rmdir("d"));
}

// A place that was told goes on there, also after changes and in any order.
static void seeking(void) {
  MUST(mkdir("d", 0755) == 0);
  for (int count = 0; count < entries; count++) make(count);
  DIR *stream = opendir("d");
  static long places[entries + 2];
  static char names[entries + 3][64];
  int count = 0;
  for (struct dirent *entry; (entry = readdir(stream)); count++) {
    strcpy(names[count], entry->d_name);
    places[count] = telldir(stream);
  }
  TELL(count);
  int wrong = 0;
  for (int round = 0; round < count - 1; round++) {
    int place = (int)((round * 7919L) % (count - 1));
    seekdir(stream, places[place]);
    struct dirent *entry = readdir(stream);
    wrong += !entry || strcmp(entry->d_name, names[place + 1]);
  }
  TELL(wrong);
  seekdir(stream, places[count - 1]);
  TELL(readdir(stream) == NULL);
  // The entry that a place comes after is gone.
  for (int place = 10; place < 1000; place += 10)
    if (names[place][0] == 'n') {
      MUST(unlinkat(dirfd(stream), names[place], 0) == 0);
      seekdir(stream, places[place]);
      struct dirent *entry = readdir(stream);
      wrong += !entry || strcmp(entry->d_name, names[place + 1]);
    }
  TELL(wrong);
  closedir(stream);
  stream = opendir("d");
  long start = telldir(stream);
  readdir(stream);
  seekdir(stream, start);
  int total = 0, unknown = 0;
  for (struct dirent *entry; (entry = readdir(stream)); total++)
    unknown += entry->d_type == DT_UNKNOWN;
  TELL(total);
  TELL(unknown);
  for (rewinddir(stream); ;) {
    struct dirent *entry = readdir(stream);
    if (!entry) break;
    if (number(entry) >= 0) unlinkat(dirfd(stream), entry->d_name, 0);
  }
  closedir(stream);
  TELL(rmdir("d"));
}

// What entries say agrees with what stat says.
static void kinds(void) {
  MUST(mkdir("d", 0755) == 0 && mkdir("d/directory", 0755) == 0);
  close(made("d/file", "x"));
  MUST(symlink("x", "d/link") == 0 && mkfifo("d/fifo", 0600) == 0);
  DIR *stream = opendir("d");
  int differing = 0, names = 0;
  for (struct dirent *entry; (entry = readdir(stream)); names++) {
    struct stat status;
    MUST(fstatat(dirfd(stream), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0);
    differing += status.st_ino != entry->d_ino || IFTODT(status.st_mode) != entry->d_type;
  }
  TELL(names);
  TELL(differing);
  closedir(stream);
}

static void large(int count) {
  MUST(mkdir("large", 0755) == 0 && chdir("large") == 0);
  char name[32];
  for (int which = 0; which < count; which++) {
    snprintf(name, sizeof name, "n%d", which);
    int file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
    MUST(file >= 0);
    close(file);
  }
  unsigned char *there = calloc(1, (size_t)count);
  DIR *stream = opendir(".");
  int names = 0, twice = 0;
  for (struct dirent *entry; (entry = readdir(stream));)
    if (number(entry) >= 0) {
      names++;
      twice += there[number(entry)]++;
    }
  TELL(names - count);
  TELL(twice);
  closedir(stream);
  for (int which = 0; which < count; which += 997) {
    snprintf(name, sizeof name, "n%d", which);
    MUST(access(name, F_OK) == 0);
  }
  TELL(access("none", F_OK));
  TELL(rmdir("../large"));
  stream = opendir(".");
  int removed = 0;
  for (struct dirent *entry; (entry = readdir(stream));)
    if (number(entry) >= 0) removed += unlink(entry->d_name) == 0;
  TELL(removed - count);
  closedir(stream);
  TELL(chdir(".."));
  TELL(rmdir("large"));
}

int main(int count, char **arguments) {
  umask(022);
  reading(false, false);
  reading(true, false);
  reading(false, true);
  reading(true, true);
  seeking();
  kinds();
  large(count > 1 ? atoi(arguments[1]) : 20000);
  return 0;
}
