import Testing

/// POSIX behaviour that programs lean on, on one device.
extension EndToEnd {
  @Suite struct FileOperationTests {
    @Test func databasesWork() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          for mode in wal delete truncate; do
            db="$A/$mode.sqlite"
            same "$(sqlite3 "$db" "pragma journal_mode=$mode;")" $mode
            sqlite3 "$db" 'create table t(a integer primary key, b text);'
            writer() {
              for n in $(seq 40); do
                printf ".timeout 20000\\nbegin immediate; insert into t(b) values(hex(randomblob(2000))); commit;\\n" |
                  sqlite3 "$db"
              done
            }
            writer & first=$!
            writer & second=$!
            wait $first
            wait $second
            same "$(sqlite3 "$db" 'select count(*) from t; pragma integrity_check;' | tr '\\n' ' ')" '80 ok '
          done
          """, timeout: 240)
      }
    }

    @Test func savingByRenameKeepsOneFile() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          echo first > "$A/letter.txt"
          synced a b
          same "$(cat "$B/letter.txt")" first
          for n in 1 2 3; do
            echo "save $n" > "$A/.letter.txt.swp"
            mv "$A/.letter.txt.swp" "$A/letter.txt"
            sed -i 's/save/saved/' "$A/letter.txt"
            synced a b
            same "$(cat "$B/letter.txt")" "saved $n"
            same "$(ls -A "$B")" letter.txt
          done
          """)
      }
    }

    @Test func mappedWritesArrive() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          cat > map.c <<'EOF'
          #include <fcntl.h>
          #include <string.h>
          #include <sys/mman.h>
          #include <unistd.h>
          int main(int count, char **arguments) {
            int file = open(arguments[1], O_RDWR | O_CREAT, 0644);
            size_t size = 1 << 20;
            if (file < 0 || ftruncate(file, size)) return 1;
            char *bytes = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            if (bytes == MAP_FAILED) return 2;
            close(file);
            for (size_t i = 0; i < size; i += 4096) strcpy(bytes + i, "mapped");
            if (msync(bytes, size, MS_SYNC)) return 3;
            strcpy(bytes + 8, "unsynced");
            return munmap(bytes, size) ? 4 : 0;
          }
          EOF
          cc -o map map.c
          ./map local; ./map "$A/mapped"
          cmp local "$A/mapped"
          synced a b
          cmp local "$B/mapped"
          ./map "$B/mapped"
          cmp local "$B/mapped"
          """)
      }
    }

    @Test func systemCallsDoWhatTheySay() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          cat > calls.c <<'EOF'
          #define _GNU_SOURCE
          #include <errno.h>
          #include <fcntl.h>
          #include <linux/falloc.h>
          #include <stdio.h>
          #include <stdlib.h>
          #include <string.h>
          #include <sys/stat.h>
          #include <unistd.h>
          #define MUST(x) do { if (!(x)) { fprintf(stderr, "line %d: %s (%s)\\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)
          int main(void) {
            struct stat s; char b[16];
            int f = open("file", O_RDWR | O_CREAT | O_EXCL, 0640); MUST(f >= 0);
            MUST(open("file", O_RDWR | O_CREAT | O_EXCL, 0640) < 0 && errno == EEXIST);
            MUST(write(f, "0123456789", 10) == 10 && fsync(f) == 0);
            MUST(link("file", "hard") == 0 && fstat(f, &s) == 0 && s.st_nlink == 2);
            MUST(unlink("file") == 0 && unlink("hard") == 0 && fstat(f, &s) == 0 && s.st_nlink == 0);
            MUST(pread(f, b, 10, 0) == 10 && !memcmp(b, "0123456789", 10) && pwrite(f, "X", 1, 20) == 1);
            MUST(fstat(f, &s) == 0 && s.st_size == 21 && close(f) == 0);
            MUST(access("file", F_OK) < 0 && errno == ENOENT);
            f = open("first", O_RDWR | O_CREAT, 0600); MUST(f >= 0 && write(f, "tmp", 3) == 3);
            char path[64]; snprintf(path, sizeof path, "/proc/self/fd/%d", f);
            MUST(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0 && close(f) == 0);
            MUST(unlink("first") == 0);
            MUST(stat("named", &s) == 0 && s.st_size == 3 && s.st_nlink == 1);
            f = open("other", O_RDWR | O_CREAT, 0600); MUST(f >= 0 && write(f, "other", 5) == 5);
            MUST(renameat2(AT_FDCWD, "other", AT_FDCWD, "named", RENAME_NOREPLACE) < 0 && errno == EEXIST);
            MUST(renameat2(AT_FDCWD, "other", AT_FDCWD, "named", RENAME_EXCHANGE) == 0);
            MUST(stat("named", &s) == 0 && s.st_size == 5 && stat("other", &s) == 0 && s.st_size == 3);
            MUST(fallocate(f, 0, 0, 1 << 20) == 0 && fstat(f, &s) == 0 && s.st_size == 1 << 20);
            MUST(fallocate(f, FALLOC_FL_KEEP_SIZE, 1 << 20, 4096) == 0 && fstat(f, &s) == 0 && s.st_size == 1 << 20);
            MUST(fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
            MUST(pread(f, b, 5, 0) == 5 && !memcmp(b, "\\0\\0\\0\\0\\0", 5));
            MUST(pwrite(f, "abc", 3, 0) == 3 && fallocate(f, FALLOC_FL_ZERO_RANGE, 1, 1) == 0);
            MUST(pread(f, b, 3, 0) == 3 && !memcmp(b, "a\\0c", 3));
            int g = open("copy", O_RDWR | O_CREAT, 0600); off_t from = 0, to = 0;
            MUST(g >= 0 && copy_file_range(f, &from, g, &to, 4096, 0) == 4096);
            MUST(pread(g, b, 3, 0) == 3 && !memcmp(b, "a\\0c", 3));
            MUST(ftruncate(g, 1) == 0 && ftruncate(g, 4) == 0 && pread(g, b, 4, 0) == 4 && !memcmp(b, "a\\0\\0\\0", 4));
            MUST(close(g) == 0 && close(f) == 0);
            f = open("copy", O_WRONLY | O_APPEND); MUST(f >= 0 && write(f, "end", 3) == 3 && fstat(f, &s) == 0 && s.st_size == 7);
            struct timespec t[2] = {{1, 2}, {3, 4}};
            MUST(futimens(f, t) == 0 && fstat(f, &s) == 0 && s.st_mtim.tv_sec == 3 && s.st_mtim.tv_nsec == 4 && s.st_atim.tv_nsec == 2);
            MUST(fchmod(f, 04711) == 0 && fstat(f, &s) == 0 && (s.st_mode & 07777) == 04711 && close(f) == 0);
            MUST(mkdir("d", 0755) == 0 && mkdir("d/e", 0755) == 0 && stat("d", &s) == 0 && s.st_nlink == 3);
            MUST(rmdir("d") < 0 && errno == ENOTEMPTY);
            MUST(rename("d", "d/e/f") < 0 && errno == EINVAL);
            MUST(rename("d", "copy") < 0 && errno == ENOTDIR && rename("copy", "d") < 0 && errno == EISDIR);
            MUST(symlink("somewhere", "l") == 0 && readlink("l", b, 16) == 9 && !memcmp(b, "somewhere", 9));
            char name[257]; memset(name, 'n', 256); name[256] = 0;
            MUST(mkdir(name, 0755) < 0 && errno == ENAMETOOLONG); name[255] = 0; MUST(mkdir(name, 0755) == 0 && rmdir(name) == 0);
            MUST(mkfifo("fifo", 0600) == 0 && stat("fifo", &s) == 0 && S_ISFIFO(s.st_mode));
            return 0;
          }
          EOF
          cc -o calls calls.c
          mkdir "$A/calls" native
          (cd native && ../calls)
          (cd "$A/calls" && "$WORK/calls")
          df "$A" > /dev/null
          same "$(stat -f -c %T "$A")" fuseblk || same "$(stat -f -c %T "$A")" fuse
          """)
      }
    }

    @Test func directoryListingsAreStable() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir "$A/d"
          (cd "$A/d" && seq -f 'name %04g' 3000 | tr '\\n' '\\0' | xargs -0 touch)
          same "$(ls "$A/d" | wc -l)" 3000
          same "$(ls -U "$A/d" | sort | md5sum)" "$(seq -f 'name %04g' 3000 | md5sum)"
          find "$A/d" -name 'name *[02468]' -delete
          same "$(ls "$A/d" | wc -l)" 1500
          rm -rf "$A/d"
          [ ! -e "$A/d" ]
          """)
      }
    }

    @Test func attributesAndLinksFollow() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          echo text > "$A/file"
          ln "$A/file" "$A/second name"
          ln -s 'file' "$A/symlink"
          setfattr -n user.colour -v grün "$A/file"
          setfattr -n user.empty "$A/file"
          mkdir "$A/d"; setfattr -n user.of -v directory "$A/d"
          chmod 751 "$A/d"; chmod 4640 "$A/file"
          touch -d '1999-12-31 23:59:59.123456789' "$A/file"
          synced a b
          same "$(stat -c '%h %a %y' "$B/file")" "$(stat -c '%h %a %y' "$A/file")"
          same "$(stat -c %h "$B/file")" 2
          same "$(stat -c %i "$B/file")" "$(stat -c %i "$B/second name")"
          same "$(readlink "$B/symlink")" file
          same "$(getfattr --absolute-names --only-values -n user.colour "$B/file")" grün
          same "$(getfattr --absolute-names -d "$B/file" | grep -c '^user')" 2
          same "$(getfattr --absolute-names --only-values -n user.of "$B/d")" directory
          same "$(stat -c %a "$B/d")" 751
          setfattr -x user.colour "$B/file"
          rm "$B/second name"
          synced b a
          same "$(getfattr --absolute-names -d "$A/file" | grep -c '^user')" 1
          same "$(stat -c %h "$A/file")" 1
          same "$(cat "$A/symlink")" text
          """)
      }
    }

    @Test func specialFilesStayHere() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          mkdir "$A/d"
          mkfifo "$A/d/fifo"
          (echo through > "$A/d/fifo") & same "$(cat "$A/d/fifo")" through
          echo plain > "$A/d/plain"
          synced a b
          same "$(ls "$B/d")" plain
          [ -p "$A/d/fifo" ]
          """)
      }
    }

    @Test func readOnlyMountsRefuseWrites() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script("echo text > \"$A/file\"; synced a")
        try await account.device("b", mountOptions: "ro,x-something,noauto,defaults")
        try await account.script(
          """
          synced b
          same "$(cat "$B/file")" text
          refused 'read-only' touch "$B/new"
          refused 'read-only' rm "$B/file"
          """)
      }
    }
  }
}
