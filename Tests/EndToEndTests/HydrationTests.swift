import Testing

/// Which programs may cause downloads, and what is told of those that did.
extension EndToEnd {
  @Suite struct HydrationTests {
    /// A device whose `$A/tree` was evicted but for `tree/here`; `downloads` are the bytes of
    /// contents that it has, and `none COMMAND...` is a command, which may fail, for which it
    /// fetches none.
    private func withEvictedTree(
      configuration: String? = nil, _ body: (TestAccount) async throws -> Void
    ) async throws {
      try await withAccount { account in
        if let configuration {
          try await account.script(
            "mkdir -p \"$XDG_CONFIG_HOME/ubiquityfs\"; cat > \"$XDG_CONFIG_HOME/ubiquityfs/config.yaml\" <<'END'\n"
              + configuration + "\nEND\n")
        }
        try await account.device("a")
        try await account.script(
          """
          mkdir -p tree/sub
          for n in 1 2 3 4 5 6; do head -c 70000 /dev/urandom | base64 > tree/file$n; done
          head -c 3000000 /dev/urandom > tree/sub/big
          echo 'a needle here' > tree/here
          echo 'a needle there' > tree/there
          cp -a tree "$A/tree"
          synced a
          # A block of 512 bytes for each placeholder.
          gone() { on a evict "$A/tree" 2>/dev/null; [ "$(du -s --block-size=1 "$A/tree" | cut -f1)" -le 8192 ]; }
          until_true 60 gone
          on a download "$A/tree/here"
          """)
        try await body(account)
      }
    }

    private static let tools = #"""
      # The traffic of the device would not do: in a test that takes long it also reads cursors.
      downloads() {
        local file sum=0
        while read -r file; do
          sum=$((sum + $(attribute localBytes "$file")))
        done < <(find "$A/tree" -type f)
        echo $sum
      }
      none() {
        local before; before=$(downloads)
        "$@"
        same "$(downloads)" "$before"
      }
      some() {
        local before; before=$(downloads)
        "$@" > /dev/null
        [ "$(downloads)" -gt "$before" ] || { echo "nothing was downloaded by: $*" >&2; return 1; }
      }
      run() { on a run --no-download -- "$@"; }
      lacks() { same "$(attribute downloadingStatus "$1")" notDownloaded; same "$(attribute localBytes "$1")" 0; }

      """#

    @Test func searchingUnderARunDownloadsNothing() async throws {
      try await withEvictedTree { account in
        try await account.script(
          Self.tools + #"""
            search() { run grep -r needle "$A/tree" > found 2> errors; }
            none exits 2 search
            same "$(cat found)" "$A/tree/here:a needle here"
            same "$(grep -c 'Operation not permitted' errors)" 8
            again() { on a run --no-download --error EAGAIN -- grep -r needle "$A/tree" 2> errors; }
            none exits 2 again
            same "$(grep -c 'Resource temporarily unavailable' errors)" 8
            # Nothing is left of it: no download, no error, and others read as ever.
            for file in "$A"/tree/file* "$A/tree/sub/big"; do
              lacks "$file"
              same "$(attribute isDownloading "$file")" 0
              refused 'no such attribute' attribute downloadingError "$file"
            done
            some grep -r needle "$A/tree/there"
            same "$(run cat "$A/tree/there")" 'a needle there'
            """#)
      }
    }

    @Test func lookersAndBackupsDownloadNothing() async throws {
      try await withEvictedTree { account in
        try await account.script(
          Self.tools + #"""
            # Those that look at names and attributes alone need no run.
            none du -s "$A/tree"
            none find "$A/tree" -type f -size +1 -newermt 2001-01-01
            none ls -lR "$A/tree"
            none rsync -ani "$A/tree/" "$WORK/copy/"
            none tar -cf /dev/null -C "$A" --exclude='file*' --exclude=big --exclude=there tree
            # A backup under a run has what is here, and says what it has not.
            backup() { run tar -cf "$WORK/backup.tar" -C "$A" tree 2> "$WORK/errors"; }
            none exits 2 backup
            same "$(grep -c 'Operation not permitted' "$WORK/errors")" 8
            same "$(tar -xOf "$WORK/backup.tar" tree/here 2> /dev/null)" 'a needle here'
            none exits 23 run rsync -a "$A/tree/" "$WORK/copy/"
            same "$(cd "$WORK/copy" && find . -type f)" ./here
            # Those that look for holes are not told of any where content is missing, and copy no zeros.
            copies() { run cp -r "$A/tree" "$WORK/copy2" 2> "$WORK/errors"; }
            none exits 1 copies
            same "$(grep -c 'Operation not permitted' "$WORK/errors")" 8
            same "$(cd "$WORK/copy2" && find . -type f -size +0)" ./here
            for program in restic borg; do
              command -v $program > /dev/null || continue
              export RESTIC_PASSWORD=x BORG_PASSPHRASE=x BORG_BASE_DIR=$WORK/borg-home
              if [ $program = restic ]; then
                restic init -r "$WORK/restic" > /dev/null
                none exits 3 run restic -r "$WORK/restic" --no-cache backup "$A/tree"
              else
                borg init -e none "$WORK/borg" > /dev/null
                none exits 1 run borg create "$WORK/borg::one" "$A/tree"
              fi
            done
            lacks "$A/tree/file1"
            """#)
      }
    }

    @Test func aThumbnailerIsLimitedByRule() async throws {
      let rules = """
        hydration:
          rules:
            - {executable: "*/allowed/tumblerd", action: allow}
            - {executable: "*/bin/nightly", action: deny, error: EAGAIN}
            - {executable: part, action: range-only}
        """
      try await withEvictedTree(configuration: rules) { account in
        try await account.script(
          Self.tools + #"""
            mkdir bin allowed
            for name in bin/tumblerd bin/evince-thumbnailer bin/nightly bin/other allowed/tumblerd; do
              cp /bin/cat $name
            done
            cp "$(command -v dd)" bin/part
            # By the list that is there without a rule.
            none refused 'operation not permitted' bin/tumblerd "$A/tree/file1"
            none refused 'operation not permitted' bin/evince-thumbnailer "$A/tree/file1"
            # By rules, of which the first that matches counts.
            none refused 'temporarily unavailable' bin/nightly "$A/tree/file1"
            lacks "$A/tree/file1"
            none bin/tumblerd "$A/tree/here"
            some allowed/tumblerd "$A/tree/file1"
            some bin/other "$A/tree/file2"
            cmp "$A/tree/file1" tree/file1
            # What of a file is here is read by all; and a part is brought without what comes after it.
            bin/part if="$A/tree/sub/big" of=part bs=4096 count=1 status=none
            cmp -n 4096 part tree/sub/big
            bin/tumblerd "$A/tree/sub/big" > all 2> errors && exit 1
            grep -q 'not permitted' errors
            cmp -n 4096 all tree/sub/big
            """#)
      }
    }

    @Test func whatIsWrongInTheConfigurationStopsTheStart() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          """
          mkdir -p "$XDG_CONFIG_HOME/ubiquityfs"
          echo 'hydration: {rules: [{executable: x, action: forbid}]}' > "$XDG_CONFIG_HOME/ubiquityfs/config.yaml"
          exits 2 on a status
          refused 'rule 1 of .hydration.rules. has the action .*forbid' on a status
          [ ! -e "$ROOT/a" ]
          """)
      }
    }

    @Test func aRunEndsAsItsCommandDoes() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          #"""
          run() { on a run --no-download -- "$@"; }
          exits 0 run true
          exits 7 run sh -c 'exit 7'
          exits 127 run no-such-command
          echo text > file; exits 126 run ./file
          exits 143 run sh -c 'kill -TERM $$'
          same "$(echo in | run cat)" in
          same "$(run printf '%s,' 'a b' '' -- --x)" 'a b,,--,--x,'
          same "$(run sh -c 'yes | head -n 1')" y
          # A reader that goes away ends what writes, as without a run.
          run sh -c 'yes; echo $? > "$ROOT/status"' | head -n 1 > /dev/null
          same "$(cat "$ROOT/status")" 141
          # Its number is the command's, and so is a signal.
          UBIQUITYFS_STATE=$ROOT/a ubiquityfs run --no-download -- sleep 1000 & process=$!
          is_sleep() { [ "$(cat /proc/$process/comm)" = sleep ]; }
          until_true 20 is_sleep
          kill -USR1 $process
          exits 138 wait $process
          exits 2 on a run -- true
          exits 2 on a run --no-download
          exits 2 on a run --no-download --error EIO -- true
          same "$(run sh -c 'echo "$UBIQUITYFS_DOWNLOAD"')" deny:EPERM
          same "$(on a run --range-only -- sh -c 'echo "$UBIQUITYFS_DOWNLOAD"')" range-only
          # One within another is no way out.
          same "$(run ubiquityfs --state "$ROOT/a" run --range-only -- sh -c 'echo "$UBIQUITYFS_DOWNLOAD"')" deny:EPERM
          """#)
      }
    }

    @Test func whatARunStartsIsLimitedWhereverItGoes() async throws {
      try await withEvictedTree { account in
        try await account.script(
          Self.tools + #"""
            # Without its environment it has its parents.
            none run env -i /bin/sh -c "cat '$A/tree/file1'; exit 0" 2> errors
            grep -q 'not permitted' errors
            # Without its parents it has its environment, also when the run is over and the daemon is another.
            cat > orphan <<'END'
            (setsid sh -c '
              while [ -d "$ROOT" ] && [ ! -e go ]; do sleep 0.05; done
              cat "$1" > read 2> refused; echo $? > ended' sh "$1" &) &
            END
            run sh orphan "$A/tree/file1"
            kill -TERM "$(cat "$ROOT/a/daemon.lock")"
            until_true 60 sh -c '! grep -q "$A_MOUNT" /proc/mounts'
            on a mount "$CONTAINER" "$A_MOUNT"
            before=$(downloads)
            : > go
            until_true 60 [ -s ended ]
            same "$(cat ended)" 1
            grep -q 'not permitted' refused
            same "$(downloads)" "$before"
            # A mark that somebody sets is one.
            UBIQUITYFS_DOWNLOAD=deny:EAGAIN refused 'temporarily unavailable' cat "$A/tree/file1"
            lacks "$A/tree/file1"
            """#)
      }
    }

    @Test func whateverReadsOrNeedsTheContentIsRefused() async throws {
      try await withEvictedTree { account in
        try await account.script(
          Self.tools + #"""
            cat > try.py <<'END'
            errno, mmap, os, sys = map(__import__, ('errno', 'mmap', 'os', 'sys'))
            path, copy = sys.argv[1:3]
            def refused(name, call):
                try: call()
                except OSError as error: assert error.errno == errno.EPERM, (name, error)
                else: raise AssertionError(name)
            reader = os.open(path, os.O_RDONLY)
            writer = os.open(path, os.O_RDWR)
            appender = os.open(path, os.O_WRONLY | os.O_APPEND)
            refused('read', lambda: os.read(reader, 10))
            # What is missing is data, which the read after it is refused.
            assert os.lseek(reader, 0, os.SEEK_DATA) == 0
            refused('pread', lambda: os.pread(reader, 10, 50000))
            refused('write', lambda: os.pwrite(writer, b'x', 10))
            refused('append', lambda: os.write(appender, b'x'))
            refused('truncate', lambda: os.truncate(path, 5))
            refused('allocate', lambda: os.posix_fallocate(writer, 0, 10))
            out = os.open(copy, os.O_RDWR | os.O_CREAT)
            refused('copy', lambda: os.copy_file_range(reader, out, 10))
            refused('sendfile', lambda: os.sendfile(out, reader, 0, 10))
            child = os.fork()
            if child == 0:
                mapped = mmap.mmap(reader, 4096, prot=mmap.PROT_READ); mapped[0]; os._exit(0)
            assert os.WTERMSIG(os.waitpid(child, 0)[1]) == 7, 'SIGBUS'
            END
            run python3 try.py "$A/tree/file1" "$A/copied1"
            run python3 try.py "$A/tree/file2" "$A/copied2"
            lacks "$A/tree/file1"; lacks "$A/tree/file2"
            # What replaces the whole content needs none of it.
            run sh -c "echo new > '$A/tree/file1'"
            same "$(cat "$A/tree/file1")" new
            same "$(on a log --downloads | grep ' fetched ' | grep -cv 'tree/here (command)' || true)" 0
            cmp tree/file2 "$A/tree/file2"
            """#)
      }
    }

    /// A page fault that waits for a download has its process's memory map; looking at the process
    /// must not wait for that.
    @Test func aPageFaultIsAnsweredWhileThreadsMapMemory() async throws {
      try await withEvictedTree { account in
        try await account.script(
          Self.tools + #"""
            cat > faults.c <<'END'
            #include <fcntl.h>
            #include <pthread.h>
            #include <stdio.h>
            #include <sys/mman.h>
            #include <unistd.h>
            static volatile int over;
            static void *churn(void *unused) {
              while (!over) {
                void *place = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                munmap(place, 1 << 16);
              }
              return unused;
            }
            int main(int count, char **paths) {
              pthread_t threads[3];
              for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, churn, 0);
              for (int i = 1; i < count; i++) {
                int file = open(paths[i], O_RDONLY);
                unsigned char *bytes = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
                printf("%d\n", bytes[0]);
              }
              over = 1;
              for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
              return 0;
            }
            END
            cc -pthread -o faults faults.c
            ./faults "$A"/tree/file1 "$A"/tree/file2 "$A"/tree/file3 "$A"/tree/sub/big > read
            same "$(cat read)" "$(for file in file1 file2 file3 sub/big; do od -An -N1 -tu1 tree/$file | tr -d ' '; done)"
            """#, timeout: 60)
      }
    }

    @Test func theLogSaysWhoCausedWhat() async throws {
      try await withEvictedTree { account in
        try await account.script(
          Self.tools + #"""
            log() { on a log --downloads; }
            said() { log | grep -E -- "$1" > /dev/null || { log >&2; echo "no line: $1" >&2; return 1; }; }
            cat "$A/tree/file1" > /dev/null
            size=$(stat -c %s tree/file1)
            said "^[0-9T:.-]+Z fetched $size bytes $A/tree/file1 \(read\) by cat \(process [0-9]+, .*/(cat|coreutils)\)$"
            run cat "$A/tree/file2" 2> /dev/null && exit 1
            said "denied $A/tree/file2 \(read\) by cat .* \[run --no-download\]$"
            cp /bin/cat tumblerd
            ./tumblerd "$A/tree/file2" 2> /dev/null && exit 1
            said "denied $A/tree/file2 \(read\) by tumblerd \(process [0-9]+, $WORK/tumblerd\) \[default: thumbnailer tumblerd\]$"
            on a download "$A/tree/file2"
            said "fetched [0-9]+ bytes $A/tree/file2 \(command\) by ubiquityfs "
            setfattr -n user.ubiquity.download -v 1 "$A/tree/file3"
            until_true 60 said "fetched [0-9]+ bytes $A/tree/file3 \(attribute\) by setfattr "
            on a pin "$A/tree/file4"
            until_true 60 said "fetched [0-9]+ bytes $A/tree/file4 \(pin\) by ubiquityfs "
            printf x >> "$A/tree/file5"
            said "fetched [0-9]+ bytes $A/tree/file5 \(write\) by "
            on a coordinate read "$A/tree/file6" -- true
            said "fetched [0-9]+ bytes $A/tree/file6 \(claim\) by ubiquityfs "
            on a unmount "$A_MOUNT"
            on a mount "$CONTAINER" "$A_MOUNT" -o policy=greedy
            until_true 60 said "fetched [0-9]+ bytes $A/tree/sub/big \(greedy\)$"
            # As JSON, and when the daemon is gone, and after a new start.
            count=$(log | wc -l)
            on a log --downloads --json | python3 -c '
            json, sys = map(__import__, ("json", "sys"))
            lines = [json.loads(line) for line in sys.stdin]
            read = next(line for line in lines if line["cause"] == "read" and line["result"] == "fetched")
            assert read["command"] == "cat" and read["bytes"] > 0 and read["process"] > 0, read
            denied = next(line for line in lines if line["result"] == "denied")
            assert denied["rule"] == "run --no-download" and denied["bytes"] == 0, denied
            '
            same "$(on a log --downloads -n 2 | wc -l)" 2
            on a unmount "$A_MOUNT"
            kill -TERM "$(cat "$ROOT/a/daemon.lock")"
            ended() { [ ! -e "$ROOT/a/control.sock" ]; }
            until_true 60 ended
            same "$(log | wc -l)" "$count"
            [ ! -e "$ROOT/a/control.sock" ]
            on a mount "$CONTAINER" "$A_MOUNT"
            same "$(log | wc -l)" "$count"
            same "$(stat -c %a "$ROOT/a/downloads.log")" 600
            UBIQUITYFS_STATE=$ROOT/a ubiquityfs log --downloads --follow -n 0 > followed & follower=$!
            # The follower shows only lines written after its start, whose time is not known.
            shown() {
              on a evict "$A/tree/there" && cat "$A/tree/there" > /dev/null || return 1
              grep -q "fetched [0-9]* bytes $A/tree/there (read) by cat" followed
            }
            until_true 60 shown
            kill $follower; wait $follower || true
            """#)
      }
    }

    @Test func aNewerContentIsAnUpdate() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          #"""
          echo one > "$A/file"; synced a b; cat "$B/file" > /dev/null
          echo second > "$A/file"; synced a b
          same "$(cat "$B/file")" second
          on b log --downloads > log
          grep -q "fetched 4 bytes $B/file (read) by cat" log
          grep -q "fetched 7 bytes $B/file (update)$" log
          """#)
      }
    }

    @Test func versionsAreContentsToo() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          #"""
          echo base > "$A/file"; synced a b; cat "$B/file" > /dev/null
          on a offline on; on b offline on
          echo from-a > "$A/file"; sleep 0.02; echo from-b > "$B/file"
          on a offline off; on b offline off
          synced a b a
          versions=$A_MOUNT/.ubiquity/versions/Documents/file
          lost=$(grep -l from-a "$B_MOUNT"/.ubiquity/versions/Documents/file/* | head -n 1)
          lost=${lost##*/}
          before=$(on a log --downloads | wc -l)
          refused 'not permitted' on a run --no-download -- cat "$versions/$lost"
          on a log --downloads | tail -n 1 | grep > /dev/null 'denied .*/file (version) by cat .*run --no-download'
          same "$(cat "$versions/$lost")" from-a
          on a log --downloads | tail -n 1 | grep > /dev/null 'fetched 7 bytes .*/file (version) by cat'
          # It is here now, for as long as somebody has it open at least.
          exec 3< "$versions/$lost"
          same "$(on a run --no-download -- cat "$versions/$lost")" from-a
          """#)
      }
    }

    @Test func aClaimUnderARunBringsNothing() async throws {
      try await withEvictedTree { account in
        try await account.script(
          Self.tools + #"""
            claims() { run ubiquityfs --state "$ROOT/a" coordinate read "$A/tree/file1" -- cat "$A/tree/file1"; }
            none exits 1 claims
            lacks "$A/tree/file1"
            some on a coordinate read "$A/tree/file1" -- cat "$A/tree/file1"
            # Who asks for it by name gets it.
            some run ubiquityfs --state "$ROOT/a" download "$A/tree/file2"
            """#)
      }
    }
  }
}
