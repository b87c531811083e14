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

    // Opening a file handle takes CAP_DAC_READ_SEARCH.
    @Test(
      "a file handle outlives what the kernel remembers, and a remount",
      .enabled(if: TestAccount.isRoot))
    func fileHandlesFindTheirFiles() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir -p "$A/d/e"; echo text > "$A/d/e/f"; echo gone > "$A/gone"
          cat > handles.py <<'END'
          ctypes, os, struct, sys = map(__import__, ('ctypes', 'os', 'struct', 'sys'))
          libc = ctypes.CDLL(None, use_errno=True)
          command, mount, store = sys.argv[1:4]
          if command == 'take':
            for index, name in enumerate(['Documents/d/e/f', 'Documents/d/e', 'Documents/gone']):
              handle = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128))
              number = ctypes.c_int()
              path = os.path.join(mount, name).encode()
              assert libc.name_to_handle_at(-100, path, handle, ctypes.byref(number), 0) == 0, ctypes.get_errno()
              open(store + str(index), 'wb').write(handle.raw)
          else:
            directory = os.open(mount, os.O_RDONLY)
            def opened(index):
              handle = ctypes.create_string_buffer(open(store + str(index), 'rb').read())
              return libc.open_by_handle_at(directory, handle, os.O_RDONLY)
            f = opened(0); assert f >= 0, ctypes.get_errno()
            assert os.read(f, 10) == b'text\\n'
            d = opened(1); assert d >= 0, ctypes.get_errno()
            assert os.listdir(d) == ['f']
            assert os.readlink(f'/proc/self/fd/{d}').endswith('Documents/d/e')
            assert opened(2) == -1 and ctypes.get_errno() == 116, ctypes.get_errno()
          END
          python3 handles.py take "$A_MOUNT" handle
          rm "$A/gone"
          on a unmount "$A_MOUNT"; on a mount "$CONTAINER" "$A_MOUNT"
          python3 handles.py open "$A_MOUNT" handle
          """)
      }
    }

    @Test("statx tells when a file was made")
    func birthTimes() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          before=$(date +%s); echo text > "$A/f"; mkdir "$A/d"; after=$(date +%s)
          touch -d '2001-01-01' "$A/f"; chmod 600 "$A/f"
          for name in f d; do
            born=$(stat -c %W "$A/$name")
            [ "$born" -ge "$before" ]
            [ "$born" -le "$after" ]
          done
          same "$(stat -c '%s %a %Y %F' "$A/f")" '5 600 978307200 regular file'
          # All of it is as stat(2), which asks for no birth, tells it.
          python3 - "$A/f" $(stat -c '%i %f %h %u %g %s %b %X %Y %Z' "$A/f") <<'END'
          os, sys = map(__import__, ('os', 'sys'))
          s = os.stat(sys.argv[1])
          told = [s.st_ino, f'{s.st_mode:x}', s.st_nlink, s.st_uid, s.st_gid, s.st_size, s.st_blocks,
            int(s.st_atime), int(s.st_mtime), int(s.st_ctime)]
          assert [str(x) for x in told] == sys.argv[2:], (told, sys.argv)
          END
          # To the nanosecond the same on another device, and after a change there.
          synced a b
          births() { stat -c '%n %w' f d; }
          (cd "$A"; births) > births
          sleep 1.1; echo more >> "$B/f"; chmod 700 "$B/d"; synced b a
          for mount in "$A" "$B"; do (cd "$mount"; births) | cmp - births; done
          """)
      }
    }

    // The option `allow_other` is root's.
    @Test(
      "access control lists are those of a local disk, and the same on every device",
      .enabled(if: TestAccount.isRoot))
    func accessControlLists() async throws {
      try await withAccount { account in
        try await account.device("a", mountOptions: "allow_other")
        try await account.device("b")
        try await account.script(
          """
          acts() (
            mkdir "$1" && cd "$1"; umask 022
            tell() { getfacl -n "$@"; stat -c '%a %n' "$@"; }
            echo text > f; mkdir d; tell f d
            setfacl -m u:1234:rw,g:5678:r f; tell f
            chmod 640 f; tell f
            setfacl -m m::rw f; tell f
            setfacl -m u::rwx,g::r,o::- f; tell f
            setfacl -d -m u:1234:rwx,g::rx d; tell d
            (umask 077; touch d/new; mkdir d/sub; mkfifo d/fifo; ln -s x d/link); tell d/new d/sub d/fifo
            cp -a d copy; tell copy copy/new copy/sub
            cp f d/copied; tell d/copied
            setfacl -x u:1234 f; tell f
            setfacl -b f; tell f; setfacl -b f
            setfacl -k d; (umask 027; touch d/plain; mkdir d/other); tell d d/plain d/other
            chmod 2755 d; setfacl -m u:1234:rx d; tell d
            setfacl -d -m u:1234:r f 2>&1 || true
          )
          acts native > expected 2>&1; acts "$A/tree" > actual 2>&1
          diff expected actual
          # The kernel grants what the list grants, and nothing else.
          echo secret > "$A/secret"; chmod 600 "$A/secret"; chmod 755 "$ROOT" "$A_MOUNT" "$A"
          as() { setpriv --reuid 1234 --regid 1234 --clear-groups "$@"; }
          not as cat "$A/secret"
          setfacl -m u:1234:r "$A/secret"
          same "$(as cat "$A/secret")" secret
          not as sh -c ": >> '$A/secret'"
          rm "$A/tree/d/fifo" "$A/tree/copy/fifo"; synced a b
          lists() (
            cd "$1" && find tree secret ! -type l | sort | xargs getfacl -n | grep -v '^# owner:' | grep -v '^# group:'
          )
          same "$(lists "$B")" "$(lists "$A")"
          # ls marks what has a list, and only that.
          marked() (cd "$1" && ls -lR tree | grep -E '^[-d]' | awk '{ print substr($1, 11), $NF }')
          mkdir local; cp -a native local/tree; rm local/tree/d/fifo local/tree/copy/fifo
          marked local | grep -q '^+'
          same "$(marked "$A")" "$(marked local)"
          same "$(marked "$B")" "$(marked local)"
          same "$(stat -c %A "$A/secret") $(ls -l "$B/secret" | cut -c 11)" '-rw-r----- +'
          setfacl -m u:4321:rwx "$B/tree/copy/sub"; synced b a
          same "$(lists "$A" | grep -c 'user:4321:rwx')" 1
          """)
      }
    }

    @Test("programs open more files than the daemon has descriptors, and sync goes on")
    func manyOpenFiles() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          # What the daemon has open by itself is part of it.
          prlimit --pid \(pid) --nofile=300:300
          mkdir "$A/many"
          cat > many.py <<'END'
          os, resource, sys = map(__import__, ('os', 'resource', 'sys'))
          resource.setrlimit(resource.RLIMIT_NOFILE, (3000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
          names = [f'{sys.argv[1]}/{i}' for i in range(1000)]
          written = [os.open(name, os.O_RDWR | os.O_CREAT, 0o644) for name in names]
          for i, f in enumerate(written): os.write(f, b'x' * (i * 100))
          read = [os.open(name, os.O_RDONLY) for name in names]
          for i, f in enumerate(read): assert len(os.read(f, 200000)) == i * 100, i
          for i, f in enumerate(written): os.pwrite(f, b'y', 0); os.fsync(f) if i % 100 == 0 else None
          for f in written + read: os.close(f)
          END
          python3 many.py "$A/many" & program=$!
          echo beside > "$A/beside"; synced a b
          same "$(cat "$B/beside")" beside
          wait $program
          synced a b
          diff -r "$A/many" "$B/many"
          ! grep -i 'too many open files' "$ROOT/a/daemon.log"
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
