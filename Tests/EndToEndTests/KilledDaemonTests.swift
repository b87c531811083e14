import Foundation
import Testing

/// A daemon that was killed while a thread of it waits in the kernel. Its process stays, with every
/// descriptor open, until that thread is let go: without help its mount hangs for good.
extension EndToEnd {
  @Suite struct KilledDaemonTests {
    /// As root the program mounts the control file system itself where it needs it.
    private static let canAbort: Bool = {
      let table = try? String(contentsOfFile: "/proc/self/mounts", encoding: .utf8)
      return TestAccount.isRoot || (table ?? "").contains(" /sys/fs/fuse/connections ")
    }()

    /// `stuck NUMBER`: the backend's directory becomes one that never answers, and a thread of the
    /// daemon is waiting there when this returns. `freed`: the reverse. `watchdog DAEMON`: its
    /// number.
    private static let prelude = #"""
      touch killed
      cc -O1 -D_FILE_OFFSET_BITS=64 -o tool "$SOURCES/Tests/CrashTools/pit.c" $(pkg-config --cflags --libs fuse3)
      mkdir "$ROOT/pit"
      pit=
      end_pit() {
        [ -z "$pit" ] || kill -9 "$pit" || true
        umount -l "$ROOT/pit" 2>/dev/null || fusermount3 -uqz "$ROOT/pit" || true
      }
      trap end_pit EXIT
      is_pit() { grep -qF " $ROOT/pit fuse" /proc/self/mounts; }
      stuck() {
        : > looked
        ./tool "$ROOT/pit" -f >> looked & pit=$!
        until_true 20 is_pit
        mv "$CLOUD" "$CLOUD.away"; ln -s "$ROOT/pit/cloud" "$CLOUD"
        echo "$1" > "$A/file"
        until_true 60 test -s looked
      }
      freed() {
        end_pit; pit=
        rm "$CLOUD"; mv "$CLOUD.away" "$CLOUD"
      }
      watchdog() {
        local directory
        for directory in /proc/[0-9]*; do
          grep -qsx fuse-watchdog "$directory/comm" || continue
          grep -qs "^PPid:[[:space:]]*$1\$" "$directory/status" && echo "${directory#/proc/}"
        done
        return 0
      }
      lives() { [ -n "$(watchdog "$1")" ]; }
      lost='not connected|connection abort'

      """#

    @Test(
      "a mount of a killed daemon that cannot end fails at once instead of hanging",
      .enabled(if: canAbort))
    func mountOfKilledDaemon() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          Self.prelude + """
            stuck first
            kill -9 \(pid)
            refused "$lost" timeout -s KILL 10 stat "$A"
            refused "$lost" timeout -s KILL 10 stat "$A/file"
            # The daemon is still there: commands say so, and do not wait for it.
            refused 'was killed' timeout -s KILL 60 env UBIQUITYFS_STATE="$ROOT/a" ubiquityfs status
            refused 'was killed' timeout -s KILL 60 env UBIQUITYFS_STATE="$ROOT/a" \
              ubiquityfs mount "$CONTAINER" "$A_MOUNT"
            not timeout -s KILL 60 env UBIQUITYFS_STATE="$ROOT/a" ubiquityfs evict "$A/file"
            freed
            on a mount "$CONTAINER" "$A_MOUNT"
            same "$(cat "$A/file")" first
            synced a
            """)
      }
    }

    @Test(
      "the next command frees the mount when the watchdog was killed too", .enabled(if: canAbort))
    func commandFreesMount() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          Self.prelude + """
            stuck first
            kill -9 $(watchdog \(pid)) \(pid)
            not timeout -s KILL 60 env UBIQUITYFS_STATE="$ROOT/a" ubiquityfs evict "$A/file"
            refused "$lost" timeout -s KILL 10 stat "$A"
            freed
            on a unmount "$A_MOUNT"
            on a mount "$CONTAINER" "$A_MOUNT"
            same "$(cat "$A/file")" first
            """)
      }
    }

    /// Each device has a backend of its own, so that a daemon hangs for each, and a command that
    /// comes first on the mount of each.
    private static let hungDevices = #"""
      devices='status doctor unmount sync download evict list storage mount query claim waiting'
      end_pits() {
        local name
        kill -9 $(jobs -p) 2>/dev/null || true
        for name in $devices; do
          umount -l "$ROOT/pit-$name" 2>/dev/null || fusermount3 -uqz "$ROOT/pit-$name" || true
        done
      }
      trap end_pits EXIT
      for name in $devices; do
        mkdir "$ROOT/mount-$name" "$ROOT/pit-$name"
        on $name account sign-in --quiet --backend "file://$ROOT/cloud-$name"
        on $name mount --quiet "$CONTAINER" "$ROOT/mount-$name"
      done
      file() { echo "$ROOT/mount-$1/Documents/file"; }
      daemon() { cat "$ROOT/$1/daemon.lock"; }
      hang() {
        local name=$1
        ./tool "$ROOT/pit-$name" -f > looked-$name &
        is_pit() { grep -qF " $ROOT/pit-$name fuse" /proc/self/mounts; }
        until_true 20 is_pit
        mv "$ROOT/cloud-$name" "$ROOT/kept-$name"
        ln -s "$ROOT/pit-$name/cloud" "$ROOT/cloud-$name"
        echo first > "$(file $name)"
        until_true 60 test -s looked-$name
      }
      # ends DEVICE ARGUMENT...: the program, which is to end by itself
      ends() {
        local status=0 said
        said=$(UBIQUITYFS_STATE=$ROOT/$1 timeout -s KILL 60 ubiquityfs "${@:2}" 2>&1) || status=$?
        if [ $status = 0 ] || [ $status = 137 ] ||
          ! grep -Eq 'was killed|lost its daemon' <<<"$said"; then
          echo "exit $status of $*: $said" >&2; return 1
        fi
      }
      # together COMMAND...: all at once, each with its words in one
      together() {
        local command processes=()
        for command; do $command & processes+=($!); done
        for command in "${processes[@]}"; do wait $command; done
      }

      """#

    @Test(
      "every command ends on the hung mount of a daemon that was killed with its watchdog",
      .enabled(if: TestAccount.isRoot))
    func everyCommandEnds() async throws {
      try await withAccount { account in
        try await account.script(
          Self.prelude + Self.hungDevices + """
            for name in $devices; do hang $name; done
            # What waits for an answer of the daemon ends, too.
            ends waiting sync --wait & waiting=($!)
            ends waiting events & waiting+=($!)
            ends waiting query --watch '*' & waiting+=($!)
            # The daemon's socket, and one for each of them.
            are_waiting() { [ "$(grep -cF " $ROOT/waiting/" /proc/net/unix)" -ge 4 ]; }
            until_true 20 are_waiting
            for name in $devices; do kill -9 $(watchdog "$(daemon $name)") $(daemon $name); done
            for name in status mount; do exits 137 timeout -s KILL 1 stat "$(file $name)-new"; done

            # On each mount another command is the first.
            together "ends status status" "ends doctor doctor" "ends sync sync --wait" \
              "ends unmount unmount $ROOT/mount-unmount" "ends list container list" \
              "ends download download $(file download)" "ends evict evict $(file evict)" \
              "ends storage storage" "ends mount mount $CONTAINER $ROOT/mount-mount" \
              "ends query query file" "ends claim coordinate read $(file claim) -- true"
            for process in "${waiting[@]}"; do wait $process; done
            # The other commands, on a mount that is dead by now.
            file=$(file status)
            together "ends status pin $file" "ends status unpin $file" "ends status policy $file" \\
              "ends status versions list $file" "ends status trash list" "ends status fsck" \\
              "ends status store verify" "ends status store recover" "ends status account status" \\
              "ends status container create org.example.new" "ends status offline on" \\
              "ends status limit" "ends status metered" "ends status daemon" \\
              "ends status run --no-download -- true"
            for name in $devices; do
              refused "$lost" timeout -s KILL 10 stat "$(file $name)"
              timeout -s KILL 10 findmnt "$ROOT/mount-$name" > /dev/null
            done
            """, timeout: 180)
      }
    }

    @Test(
      "a mount that has a killed daemon's device number by now is left alone",
      .enabled(if: canAbort))
    func numberOfAnother() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          Self.prelude + """
            number() { awk -v at="$1" '$5 == at { print $3 }' /proc/self/mountinfo; }
            stuck first
            kill -9 $(watchdog \(pid)) \(pid)
            old=$(number "$A_MOUNT")
            umount -l "$A_MOUNT" 2>/dev/null || fusermount3 -uz "$A_MOUNT"
            sed -i "s/^$old /$(number "$B_MOUNT") /" "$ROOT/a/mounts.served"
            refused 'was killed' timeout -s KILL 60 env UBIQUITYFS_STATE="$ROOT/a" ubiquityfs status
            echo text > "$B/other"
            same "$(cat "$B/other")" text
            freed
            on a mount "$CONTAINER" "$A_MOUNT"
            same "$(cat "$A/file")" first
            """)
      }
    }

    @Test("a daemon has one watchdog, which is started again when it ends and ends with the daemon")
    func watchdogLifeCycle() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          Self.prelude + """
            first=$(watchdog \(pid))
            same "$(wc -w <<<"$first")" 1
            kill -TERM $first; kill -HUP $first; kill -INT $first
            same "$(watchdog \(pid))" "$first"
            kill -9 $first
            another() { local now; now=$(watchdog \(pid)); [ -n "$now" ] && [ "$now" != "$first" ]; }
            until_true 20 another
            echo text > "$A/file"
            second=$(watchdog \(pid))
            kill -TERM \(pid)
            ended() { ! kill -0 \(pid) 2>/dev/null && ! kill -0 $second 2>/dev/null; }
            until_true 60 ended
            """)
      }
    }

    @Test("daemons that are killed under the load of two devices hang nothing")
    func killsUnderLoad() async throws {
      try await withAccount { account in
        try await account.script(
          """
          python3 "$SOURCES/Tests/soak/hangs" --binary "$(command -v ubiquityfs)" --kills 10 --seed 1
          """, timeout: 400)
      }
    }
  }
}
