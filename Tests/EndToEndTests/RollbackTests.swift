import Testing

/// A store that goes back to an earlier state, as when somebody restores a backup of it.
extension EndToEnd {
  @Suite struct RollbackTests {
    /// Objects never change in place: a copy is a tree of links.
    private static let helpers = """
      save() { rm -rf "$ROOT/saved"; cp -al "$CLOUD" "$ROOT/saved"; }
      set_back() {
        (cd "$CLOUD" && find . -type f ! -path './tmp/*') | LC_ALL=C sort -r | while read -r name; do
          [ -e "$ROOT/saved/$name" ] || rm -f "$CLOUD/$name"
        done
      }
      # ask EXPRESSION: of the JSON `answer` on standard input
      ask() { python3 -c "import json, sys; answer = json.load(sys.stdin); print($1)"; }
      ended() { ! kill -0 "$1" 2>/dev/null; }
      # end PID: ends a daemon
      end() { kill -TERM "$1"; until_true 60 ended "$1"; }
      requests() { on "$1" status --json | ask 'sum(answer["traffic"]["requests"].values())'; }

      """

    @Test("a device alone keeps what its store lost, says so, and recovers it")
    func aDeviceAloneRecovers() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            echo first > "$A/first"
            synced a
            save
            echo only > "$A/only"
            synced a
            same "$(attribute isUploaded "$A/only")" 1
            set_back
            not setfattr -n user.ubiquity.evict -v 1 "$A/only"
            exits 1 on a sync --wait --timeout 60
            refused 'store recover' on a sync --wait --timeout 60
            same "$(attribute isUploaded "$A/only")" 0
            exits 5 on a evict "$A/only"
            same "$(cat "$A/only")" only
            same "$(on a status --json | ask 'answer["containers"][0]["store"]')" rolledBack
            not on a doctor

            # Writing goes on, and nothing loops.
            before=$(requests a)
            for n in $(seq 20); do echo "$n" > "$A/new$n"; sleep 0.1; done
            [ $(($(requests a) - before)) -lt 20 ]

            on a store recover
            on a sync --wait --timeout 60
            same "$(on a status --json | ask 'answer["containers"][0]["errors"]')" '[]'
            same "$(attribute isUploaded "$A/only")" 1
            on a evict "$A/only"
            same "$(cat "$A/only")" only
            """, timeout: 240)
        try await account.device("b")
        try await account.script(
          """
          synced a b
          same "$(cat "$B/only")" only
          same "$(cat "$B/new20")" 20
          on a fsck; on b fsck
          """)
      }
    }

    @Test("three devices continue on one log after a recovery on any of them")
    func threeDevicesRecover() async throws {
      try await withAccount { account in
        for name in ["a", "b", "c"] { try await account.device(name) }
        try await account.script(
          Self.helpers + """
            echo common > "$A/common"
            synced a b c
            save
            echo of a > "$A/a"; synced a b c
            echo of b > "$B/b"; synced b a c
            echo edited > "$A/common"; synced a b c
            cat "$B/a" > /dev/null
            until_true 20 evicts "$A/a"
            set_back
            for device in a b c; do exits 1 on $device sync --wait --timeout 60; done
            log() { ls "$CLOUD"/containers/*/log | wc -l; }
            before=$(log)
            echo more > "$B/more"
            exits 1 on b sync --wait --timeout 60
            same "$(log)" "$before"

            same "$(on c store recover --json | ask 'answer["containers"][0]["recovered"]')" True
            synced a b c a b c
            for top in "$A" "$B" "$C"; do
              same "$(cat "$top/common" "$top/a" "$top/b" "$top/more")" \\
                "$(printf 'edited\\nof a\\nof b\\nmore')"
            done
            same "$(listing "$A" | grep '^\\./')" "$(listing "$B" | grep '^\\./')"
            same "$(listing "$A" | grep '^\\./')" "$(listing "$C" | grep '^\\./')"
            same "$(on c store recover --json "$CONTAINER" |
              ask 'answer["containers"][0]["missing"]')" '[]'
            """, timeout: 240)
        try await account.device("d")
        try await account.script(
          """
          synced d
          same "$(cat "$D/common" "$D/a")" "$(printf 'edited\\nof a')"
          """)
      }
    }

    @Test("`store recover` compares the store first after a daemon's start")
    func aDaemonThatJustStartedRecovers() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          Self.helpers + """
            echo first > "$A/first"
            synced a
            save
            echo only > "$A/only"
            synced a
            set_back
            end \(pid)
            on a mount "$CONTAINER" "$A_MOUNT"
            same "$(on a store recover --json | ask 'answer["containers"][0]["recovered"]')" True
            synced a
            same "$(attribute isUploaded "$A/only")" 1
            """, timeout: 240)
      }
    }

    @Test("doctor, status and the log say that the store went back, and what to do")
    func theRollbackIsReported() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            echo first > "$A/first"
            synced a
            on a doctor
            save
            echo only > "$A/only"
            synced a
            set_back
            exits 1 on a sync --wait --timeout 60
            what="the backend of \\"$CONTAINER\\" went back to an earlier state: "
            remedy="run \\`ubiquityfs store recover $CONTAINER\\`"
            # says FILE: a line has both
            says() {
              grep -F -- "$what" "$1" | grep -F -- "$remedy" > /dev/null && return
              cat "$1" >&2; return 1
            }
            exits 1 on a doctor > doctor 2>&1; says doctor
            grep "^failed *container $CONTAINER" doctor > /dev/null
            on a status > status; says status
            on a status --json | ask 'answer["containers"][0]["errors"][0]' > errors; says errors
            logged() { grep -cF -- "$what" "$ROOT/a/daemon.log"; }
            says "$ROOT/a/daemon.log"; same "$(logged)" 1
            # Later looks at the store log nothing more.
            for n in 1 2 3; do echo "$n" > "$A/$n"; exits 1 on a sync --wait --timeout 60; done
            same "$(logged)" 1

            on a store recover
            on a doctor > doctor; not grep -F 'store recover' doctor
            on a status > status; not grep -F 'store recover' status
            synced a
            """, timeout: 240)
      }
    }

    @Test("a daemon that is started after the rollback notices it when it connects")
    func theRollbackIsNoticedAtStart() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          Self.helpers + """
            echo first > "$A/first"
            synced a
            save
            echo only > "$A/only"
            synced a
            end \(pid)
            set_back
            objects() { find "$CLOUD/containers" -type f | LC_ALL=C sort; }
            objects > before
            # Nothing is written, read or asked for.
            on a mount "$CONTAINER" "$A_MOUNT"
            store() { on a status --json | ask 'answer["containers"][0].get("store")'; }
            is_noticed() { [ "$(store)" = rolledBack ]; }
            until_true 20 is_noticed
            same "$(grep -c 'went back to an earlier state' "$ROOT/a/daemon.log")" 1
            exits 5 on a evict "$A/only"
            same "$(cat "$A/only")" only
            objects | diff before -
            on a store recover
            synced a
            same "$(attribute isUploaded "$A/only")" 1
            """, timeout: 240)
      }
    }

    @Test("a budget evicts nothing while the store is set back")
    func aBudgetWaits() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          Self.helpers + """
            printf 'space: {limit: 4MiB}\\n' > "$ROOT/a.yaml"; export UBIQUITYFS_CONFIG=$ROOT/a.yaml
            on a account sign-in --device-name a
            mkdir "$ROOT/mount-a"; on a mount "$CONTAINER" "$ROOT/mount-a"
            put() { head -c 1048576 /dev/urandom > "source$1"; cp "source$1" "$A/$1"; }
            put 0; synced a; save
            put 1; put 2; synced a
            set_back
            put 3; put 4; put 5
            over() { [ "$(on a status --json | ask 'answer["space"]["overshoot"]')" -gt 0 ]; }
            store() { on a status --json | ask 'answer["containers"][0]["store"]'; }
            is_noticed() { [ "$(store)" = rolledBack ]; }
            until_true 60 over; until_true 60 is_noticed
            for n in 0 1 2 3 4 5; do
              same "$(attribute downloadingStatus "$A/$n")" current
              cmp "source$n" "$A/$n"
            done
            over
            on a store recover
            on a sync --wait --timeout 60
            fits() { not over; }
            until_true 60 fits
            for n in 0 1 2 3 4 5; do cmp "source$n" "$A/$n"; done
            """, timeout: 240)
      }
    }

    @Test("store recover lists by path the files whose content no device has uploaded again")
    func missingFilesAreListed() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        let pid = try await account.status("b").daemon.pid
        try await account.script(
          Self.helpers + """
            synced a b
            save
            mkdir "$B/d"
            echo 'only of b' > "$B/d/a file"; echo read > "$B/read"
            synced b a
            same "$(cat "$A/read")" read
            end \(pid)
            set_back
            exits 1 on a sync --wait --timeout 60
            on a store recover > recovered
            same "$(grep -A 9 'No device has uploaded' recovered | tail -n +2)" \\
              "$CONTAINER: Documents/d/a file"
            missing() {
              on "$1" store recover --json "$CONTAINER" | ask 'answer["containers"][0]["missing"]'
            }
            same "$(missing a)" "['Documents/d/a file']"
            # It stays by name.
            same "$(stat -c %s "$A/d/a file")" 10
            # The device that has it supplies it as soon as it is back.
            on b mount "$CONTAINER" "$B_MOUNT"
            synced b a
            same "$(missing a)" '[]'; same "$(missing b)" '[]'
            same "$(cat "$A/d/a file")" 'only of b'
            """, timeout: 240)
      }
    }

    @Test("a device that signs in after an emptied store was recovered joins the same account")
    func anEmptiedStoreIsJoined() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            echo text > "$A/file"
            synced a
            cp "$CLOUD/format" format
            # One object is lost. No device makes another account among those that are left.
            rm "$CLOUD/format"
            refused 'object "format".*store recover' on b account sign-in --device-name b
            [ ! -e "$CLOUD/format" ]
            exits 1 on a doctor > doctor 2>&1
            grep -F 'ubiquityfs store recover' doctor > /dev/null
            on a store recover > recovered
            grep 'Restored .* object "format"' recovered > /dev/null
            cmp format "$CLOUD/format"
            on a doctor
            # All objects are lost.
            find "$CLOUD" -type f ! -path "$CLOUD/tmp/*" -delete
            exits 1 on a sync --wait --timeout 60
            on a store recover
            cmp format "$CLOUD/format"
            synced a
            """, timeout: 240)
        try await account.device("b")
        try await account.script(
          Self.helpers + """
            synced b
            same "$(cat "$B/file")" text
            on b account devices --json > devices
            same "$(ask 'sorted(d["name"] for d in answer["devices"])' < devices)" "['a', 'b']"
            on a fsck; on b fsck
            """)
      }
    }

    @Test("store recover changes nothing in a store that holds another account by now")
    func anotherAccountIsLeftAlone() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            echo text > "$A/file"
            synced a
            on a offline on
            find "$CLOUD" -type f ! -path "$CLOUD/tmp/*" -delete
            # In an empty store a device makes a new account.
            on b account sign-in --device-name b
            on a offline off
            objects() { find "$CLOUD" -type f ! -path "$CLOUD/tmp/*" | LC_ALL=C sort; }
            exits 1 on a sync --wait --timeout 60
            objects > before
            exits 1 on a store recover
            refused 'another account' on a store recover "$CONTAINER"
            objects | diff before -
            same "$(cat "$A/file")" text
            """, timeout: 240)
      }
    }

    @Test("sync without --wait fails while the store is known to have gone back")
    func syncWithoutWaitingFails() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            echo first > "$A/first"
            synced a
            save
            echo only > "$A/only"
            synced a
            set_back
            exits 1 on a sync --wait --timeout 60
            what='went back to an earlier state.*ubiquityfs store recover'
            exits 1 on a sync
            refused "$what" on a sync
            refused "$what" on a sync "$A/only"
            on a store recover
            on a sync
            on a sync "$A/only"
            synced a
            """, timeout: 240)
      }
    }

    @Test("store recover goes on when one container cannot be recovered, and names the remedy")
    func oneContainerCannotBeRecovered() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            other=iCloud.org.example.other
            echo first > "$A/first"
            synced a
            save
            echo only > "$A/only"
            mkdir "$ROOT/other-a" "$ROOT/other-b"
            on a mount "$other" "$ROOT/other-a"
            echo text > "$ROOT/other-a/Documents/file"
            synced a
            set_back
            # The store has nothing of this container, and another device makes a new one.
            on b account sign-in --device-name b
            on b mount "$other" "$ROOT/other-b"
            exits 1 on a sync --wait --timeout 60
            status=0; on a store recover > recovered 2> errors || status=$?
            cat recovered errors >&2
            same "$status" 1
            what="$other was not recovered: another container has the name"
            grep "^ubiquityfs: $what" errors > /dev/null
            grep -F "ubiquityfs container set-aside add $other" errors > /dev/null
            grep -F "$CONTAINER: recovered" recovered > /dev/null
            on a sync --wait --timeout 60 "$A/only"
            same "$(attribute isUploaded "$A/only")" 1
            status=0; on a store recover --json > json 2> errors || status=$?
            same "$status" 1
            same "$(ask '[f["id"] for f in answer["failures"]]' < json)" "['$other']"
            exits 1 on a store recover "$other"

            # What the message says to do.
            on a unmount "$ROOT/other-a"
            on a container set-aside add "$other"
            on a container set-aside restore "$other" back
            same "$(cat back/Documents/file)" text
            on a mount "$other" "$ROOT/other-a"
            cp back/Documents/file "$ROOT/other-a/Documents/file"
            synced a b
            same "$(cat "$ROOT/other-b/Documents/file")" text
            on a store recover
            """, timeout: 240)
      }
    }
  }
}
