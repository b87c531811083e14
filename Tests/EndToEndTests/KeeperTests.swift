import Foundation
import Testing

/// Mounts go on when their daemon dies or is replaced: programs see a pause and no error.
extension EndToEnd {
  @Suite struct KeeperTests {
    /// The kernel sends requests again since Linux 6.9, and forgets names on demand since Linux
    /// 6.16.
    private static let canKeep: Bool = {
      var name = utsname()
      guard uname(&name) == 0 else { return false }
      let release = withUnsafeBytes(of: name.release) { bytes in
        String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      let parts = release.split(whereSeparator: { !$0.isNumber }).prefix(2).compactMap { Int($0) }
      return parts.count == 2 && (parts[0], parts[1]) >= (6, 16)
    }()

    /// `daemon DEVICE`: its process. `other DEVICE PROCESS`: whether another one has come.
    private static let prelude = #"""
      export UBIQUITYFS_KEEPER=on
      daemon() { cat "$ROOT/$1/daemon.lock"; }
      other() { [ -n "$(daemon "$1")" ] && [ "$(daemon "$1")" != "$2" ]; }
      keepers() {
        local directory
        for directory in /proc/[0-9]*; do
          grep -qsx fuse-watchdog "$directory/comm" || continue
          grep -qs "^PPid:[[:space:]]*$1\$" "$directory/status" && echo "${directory#/proc/}"
        done
        return 0
      }
      gone() { [ ! -e "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; }

      """#

    @Test("programs see no error while daemons are killed and replaced", .enabled(if: canKeep))
    func killsAndReplacements() async throws {
      try await withAccount { account in
        try await account.script(
          #"""
          unset UBIQUITYFS_KEEPER
          TMPDIR=$ROOT python3 "$SOURCES/Tests/soak/replace" --binary "$(command -v ubiquityfs)" \
            --kills 4 --replacements 4 --seed 7 --pause 2 --limit 20
          """#, timeout: 300)
      }
    }

    /// Each operation that changes a name, and the point right after it: the daemon has done it and
    /// dies before the kernel has an answer.
    private static let changes: [(point: String, operation: String)] = [
      ("make.made", #"mkdir "$A/new" && [ -d "$A/new" ]"#),
      ("make.made", #"ln -s nowhere "$A/symbolic" && [ -L "$A/symbolic" ]"#),
      (
        "create.made", #"(set -C; echo text > "$A/exclusive") && same "$(cat "$A/exclusive")" text"#
      ),
      ("link.made", #"ln "$A/file" "$A/other" && same "$(stat -c %h "$A/file")" 2"#),
      ("remove.done", #"rm "$A/file" && [ ! -e "$A/file" ]"#),
      ("remove.done", #"rmdir "$A/directory" && [ ! -e "$A/directory" ]"#),
      ("rename.done", #"mv -n "$A/file" "$A/moved" && [ ! -e "$A/file" ] && [ -f "$A/moved" ]"#),
      ("rename.done", #"mv "$A/directory" "$A/renamed" && [ -d "$A/renamed" ]"#),
      ("attribute.set", #"setfattr -n user.new -v 1 "$A/file""#),
      ("attribute.removed", #"setfattr -x user.old "$A/file""#),
      ("open.recorded", #"same "$(cat "$A/large" | wc -c)" 200000"#),
      ("release.unrecorded", #"same "$(cat "$A/large" | wc -c)" 200000"#),
      ("write.done", #"echo more >> "$A/file" && same "$(cat "$A/file")" "first${nl}more""#),
    ]

    @Test("a change of a name is done once", .enabled(if: canKeep), arguments: changes.indices)
    func changeIsDoneOnce(_ index: Int) async throws {
      let (point, operation) = Self.changes[index]
      try await withAccount { account in
        try await account.device("a")
        let passthrough = point == "write.done" ? "-o passthrough=off" : ""
        try await account.script(
          Self.prelude
            + #"""
            nl=$'\n'
            echo first > "$A/file"; setfattr -n user.old -v 1 "$A/file"
            mkdir "$A/directory"; head -c 200000 /dev/zero > "$A/large"
            on a unmount "$A_MOUNT"
            kill $(daemon a); old=$(daemon a); until_true 30 gone $old
            # Mounting does none of what is counted.
            UBIQUITYFS_FAULT=POINT:1 on a mount "$CONTAINER" "$A_MOUNT" OPTIONS
            old=$(daemon a)
            OPERATION
            until_true 20 other a $old
            grep -q 'mounted at' "$ROOT/a/daemon.log"
            synced a
            same "$(on a fsck)" "Containers checked: 1. Problems: 0."
            """#.replacingOccurrences(of: "POINT", with: point)
            .replacingOccurrences(of: "OPTIONS", with: passthrough)
            .replacingOccurrences(of: "OPERATION", with: operation))
      }
    }

    @Test("an open version goes on, and its content is brought again", .enabled(if: canKeep))
    func openVersion() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude + #"""
            echo first > "$A/file"; synced a b; cat "$B/file" > /dev/null
            on a offline on; on b offline on
            head -c 3000000 /dev/urandom > "$A/file"; cp -p "$A/file" earlier
            sleep 0.02; echo later > "$B/file"
            on a offline off; on b offline off; synced a b a b
            loser=$(on b versions list "$B/file" | awk '$1 == "conflict" { print $2 }')
            on b unmount "$B_MOUNT"
            kill $(daemon b); until_true 30 gone $(daemon b)
            on b mount "$CONTAINER" "$B_MOUNT"
            exec 7< "$B_MOUNT/.ubiquity/versions/Documents/file/$loser"
            dd bs=1000 count=1 status=none <&7 > shown
            old=$(daemon b)
            kill -9 $old
            until_true 20 other b $old
            same "$(stat -L -c %s /dev/fd/7)" 3000000
            cat <&7 >> shown
            cmp shown earlier
            exec 7<&-
            """#)
      }
    }

    @Test("a mount is restored where its keeper was killed too", .enabled(if: canKeep))
    func killedKeeper() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            on a unmount "$A_MOUNT"
            kill $(daemon a); until_true 30 gone $(daemon a)
            on a mount "$CONTAINER" "$A_MOUNT"
            echo first > "$A/file"
            old=$(daemon a)
            kill -9 $(keepers $old) $old
            until_true 20 gone $old
            on a status > status
            grep -q "at $A_MOUNT" status
            same "$(cat "$A/file")" first
            # Who asks for it again has it, once.
            on a mount "$CONTAINER" "$A_MOUNT"
            exits 5 on a mount "$CONTAINER" "$A_MOUNT"
            """#)
      }
    }

    @Test("SIGUSR2 has the program as it is on the disk go on", .enabled(if: canKeep))
    func signalReplaces() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            on a unmount "$A_MOUNT"
            kill $(daemon a); until_true 30 gone $(daemon a)
            on a mount "$CONTAINER" "$A_MOUNT"
            exec 7> "$A/open"; echo one >&7
            old=$(daemon a)
            kill -USR2 $old
            echo two >&7
            until_true 20 other a $old
            exec 7>&-
            same "$(wc -l < "$A/open")" 2
            # The end of the daemon is the end of the mount, and of the keeper.
            new=$(daemon a); keeper=$(keepers $new)
            [ -n "$keeper" ]
            kill $new
            until_true 30 gone $new
            until_true 10 gone $keeper
            not grep -qF " $A_MOUNT fuse" /proc/self/mounts
            """#)
      }
    }

    @Test(
      "a daemon that a service manager starts takes over from one that came by itself",
      .enabled(if: canKeep))
    func managedDaemonTakesOver() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            on a unmount "$A_MOUNT"
            kill $(daemon a); until_true 30 gone $(daemon a)
            on a mount "$CONTAINER" "$A_MOUNT"
            exec 7> "$A/open"; echo one >&7
            old=$(daemon a)
            # Not from one that somebody started.
            exits 5 on a daemon
            kill -9 $old
            until_true 20 other a $old
            next=$(daemon a)
            (on a daemon > managed 2>&1 &)
            until_true 20 other a $next
            echo two >&7; exec 7>&-
            same "$(wc -l < "$A/open")" 2
            on a status > /dev/null
            same "$(on a status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["daemon"]["pid"])')" "$(daemon a)"
            """#)
      }
    }
  }
}
