import Testing

/// What programs that watch a mount with inotify are told of what other devices do.
extension EndToEnd {
  @Suite struct NotificationTests {
    /// `watching DIRECTORY...`: a recursive watch of a's documents, from when it returns. `since
    /// WHAT`: the events since it was called last, as `EVENTS PATH`, without cookies, and without
    /// what the watcher itself causes by looking into a directory that it got to know.
    private static let watching = #"""
      watching() {
        timeout 200 inotifywait -m -r --format '%c %e %w%f' "$A" > "$ROOT/raw" 2> "$ROOT/watcher" & watcher=$!
        until_true 20 grep -q established "$ROOT/watcher"
      }
      # The daemon may tell a new watch late of what was done just before, so that has to be over.
      caught_up() {
        local mark=mark$RANDOM
        : > "$B/$mark"; synced b a; until_true 20 grep -q " CREATE .*/$mark" "$ROOT/raw"
        rm "$B/$mark"; synced b a; until_true 20 grep -q " DELETE .*/$mark" "$ROOT/raw"
        seen=$(lines | wc -l)
      }
      # together COMMAND...: changes on b come to a at once. Else a new file's name may come before
      # its content.
      together() { on a offline on; "$@"; synced b; on a offline off; synced a; }
      lines() { grep -v -e ' ACCESS' -e 'OPEN,ISDIR' -e 'CLOSE_NOWRITE,CLOSE,ISDIR' "$ROOT/raw" || true; }
      told() { lines | tail -n +$((seen + 1)) | sed "s/^[^ ]* //; s|$A/||; s|$A||"; }
      # tells EXPECTED: these lines have come since the last time, and no others
      tells() {
        local end=$((SECONDS + 30))
        until [ "$(told)" = "$1" ] || [ $SECONDS -ge $end ]; do sleep 0.05; done
        # Nothing tells that more events do not happen.
        sleep 0.1; same "$(told)" "$1"
        seen=$(lines | wc -l)
      }
      unwatched() { kill $watcher; wait $watcher || true; }
      agreed() {
        same "$(listing "$A")" "$(listing "$B")"
        on a fsck >&2; on b fsck >&2
      }

      """#

    @Test func aWatcherHearsWhatOtherDevicesDo() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.watching + #"""
            mkdir "$B/one" "$B/two"; echo 1 > "$B/one/f"; synced b a
            watching; caught_up
            together eval 'echo new > "$B/one/new"'
            tells 'CREATE one/new
            OPEN one/new
            MODIFY one/new
            CLOSE_WRITE,CLOSE one/new'
            echo more >> "$B/one/f"; synced b a
            tells 'OPEN one/f
            MODIFY one/f
            CLOSE_WRITE,CLOSE one/f'
            mv "$B/one/f" "$B/one/g"; synced b a
            tells 'MOVED_FROM one/f
            MOVED_TO one/g'
            mv "$B/one/g" "$B/two/h"; synced b a
            tells 'MOVED_FROM one/g
            MOVED_TO two/h'
            # A move has one cookie, and each another one.
            same "$(grep MOVED "$ROOT/raw" | cut -d ' ' -f 1 | uniq | wc -l)" 2
            chmod 600 "$B/two/h"; synced b a
            tells 'ATTRIB two/h'
            setfattr -n user.x -v 1 "$B/two/h"; synced b a
            tells 'ATTRIB two/h'
            ln -s nowhere "$B/one/link"; synced b a
            tells 'CREATE one/link'
            rm "$B/two/h" "$B/one/link"; synced b a
            until_true 10 grep -q 'DELETE .*two/h' "$ROOT/raw"
            until_true 10 grep -q 'DELETE .*one/link' "$ROOT/raw"
            unwatched; agreed
            same "$(cat "$A/one/new")" new; not stat "$A/two/h"; not stat "$A/one/f"
            """#, timeout: 240)
      }
    }

    /// The daemon looks for watches for a part of the time only, and among all open files: with
    /// many of those a look takes longer than the changes wait for it.
    @Test("a watch right after many changes hears of the next one", arguments: [7_200, 100_000])
    func watchAfterManyChanges(openFiles: Int) async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.watching + #"""
            # Each child has all descriptors of its parent.
            timeout 200 python3 - \#(openFiles) <<'END' & holder=$!
            from os import dup, fork; from time import sleep; from sys import argv
            from resource import RLIMIT_NOFILE, getrlimit, setrlimit
            wanted, (_, hard) = int(argv[1]), getrlimit(RLIMIT_NOFILE)
            setrlimit(RLIMIT_NOFILE, (hard, hard))
            each = min(wanted // 8, hard - 100)
            for _ in range(each): dup(1)
            for _ in range(wanted // each - 1):
                if fork() == 0: sleep(300)
            open('held', 'w').close(); sleep(300)
            END
            until_true 20 test -e held
            mkdir "$B/one"; synced b a
            for n in $(seq 20); do echo $n > "$B/one/$n"; synced b a; done
            on a offline on
            echo new > "$B/one/new"; synced b
            watching
            on a offline off; synced a
            until_true 20 grep -q ' CLOSE_WRITE,CLOSE .*/one/new' "$ROOT/raw"
            same "$(grep -o ' [A-Z_,]* .*/one/new' "$ROOT/raw" | cut -d ' ' -f 2 | tr '\n' ' ')" \
              'CREATE OPEN MODIFY CLOSE_WRITE,CLOSE '
            kill $holder; wait $holder || true
            unwatched; agreed
            """#, timeout: 240)
      }
    }

    @Test func directoriesComeMoveAndGo() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.watching + #"""
            mkdir "$B/one" "$B/two"; mkdir -p "$B/tree/sub"; echo 1 > "$B/tree/sub/f"; synced b a
            watching; caught_up
            mkdir "$B/one/d"; synced b a
            tells 'CREATE,ISDIR one/d'
            together eval 'echo 1 > "$B/one/d/in"'
            tells 'CREATE one/d/in
            OPEN one/d/in
            MODIFY one/d/in
            CLOSE_WRITE,CLOSE one/d/in'
            mv "$B/one/d" "$B/two/d"; synced b a
            tells 'MOVED_FROM,ISDIR one/d
            MOVED_TO,ISDIR two/d
            MOVE_SELF two/d/'
            rm -r "$B/tree"; synced b a
            tells 'DELETE tree/sub/f
            DELETE_SELF tree/sub/
            DELETE,ISDIR tree/sub
            DELETE_SELF tree/
            DELETE,ISDIR tree'
            # Somebody stands in what is moved.
            (cd "$A/two/d" && exec sleep 60) & stander=$!
            until_true 20 test -e /proc/$stander/cwd/in
            mv "$B/two/d" "$B/one/e"; synced b a
            tells 'MOVED_FROM,ISDIR two/d
            MOVED_TO,ISDIR one/e
            MOVE_SELF one/e/'
            same "$(ls /proc/$stander/cwd/)" in
            kill $stander; wait $stander || true
            same "$(cat "$A/one/e/in")" 1
            unwatched; agreed
            """#, timeout: 240)
      }
    }

    /// Names that change places, and names that are looked at all the time meanwhile.
    @Test func afterwardsTheMountShowsWhatThereIs() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.watching + #"""
            mkdir "$B/d" "$B/e"; for n in 1 2 3 4 5 6; do echo "$n" > "$B/d/$n"; done; synced b a
            watching
            (while [ -d "$A" ]; do { find "$A" -ls; stat "$A/d/"{1..9}; cat "$A"/*/*; } > /dev/null 2>&1 || true; done) & looker=$!
            for round in 1 2 3 4 5 6 7 8; do
              mv "$B/d/1" "$B/d/x"; mv "$B/d/2" "$B/d/1"; mv "$B/d/x" "$B/d/2"
              mv "$B/d" "$B/y"; mv "$B/e" "$B/d"; mv "$B/y" "$B/e"
              mv "$B/e"/[1-6] "$B/d"
              echo "$round" > "$B/d/3"; rm "$B/d/4"; mkdir "$B/d/4"; touch "$B/d/4/in"; rmdir "$B/e"; mkdir "$B/e"
              synced b a; same "$(listing "$A")" "$(listing "$B")"
              rm -r "$B/d/4"; echo "$round" > "$B/d/4"; ln "$B/d/5" "$B/e/5"
              synced b a; same "$(listing "$A")" "$(listing "$B")"
              rm "$B/e/5"; mv "$B/d/6" "$B/d/5"; cp "$B/d/5" "$B/d/6"
              synced b a; same "$(listing "$A")" "$(listing "$B")"
            done
            kill $looker; wait $looker || true
            unwatched; agreed
            for file in "$A"/d/*; do cmp "$file" "$B/d/${file##*/}"; done
            # One a round is certain: e takes d's place in a directory that was watched from the start. Of what comes
            # below new directories the watcher sees what it is quick enough for.
            [ "$(grep -c MOVED_TO "$ROOT/raw")" -ge 8 ]
            """#, timeout: 300)
      }
    }

    @Test func aWatchDoesNotKeepAMount() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.watching + #"""
            watching
            (for n in $(seq 200); do echo "$n" > "$B/file$((n % 10))"; sleep 0.01; done) & writer=$!
            for n in 1 2 3 4 5; do
              sleep 0.3
              on a unmount "$A_MOUNT"; on a mount "$CONTAINER" "$A_MOUNT"
            done
            wait $writer; unwatched
            synced b a; agreed
            """#, timeout: 240)
      }
    }
  }
}
