import Testing

/// Backends and disks that fail: a clear message, nothing lost, nothing half done.
extension EndToEnd {
  @Suite struct FailureTests {
    @Test func aBackendThatGoesAwayComesBack() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo here > "$A/here"; echo away > "$A/away"
          synced a
          on a evict "$A/away"
          mv "$CLOUD" "$CLOUD.gone"; touch "$CLOUD"
          same "$(cat "$A/here")" here
          not timeout 30 cat "$A/away"
          same "$(stat -c '%s %b' "$A/away")" '5 1'
          echo written > "$A/new"
          not on a sync --wait --timeout 10
          same "$(cat "$A/new")" written
          rm "$CLOUD"; mv "$CLOUD.gone" "$CLOUD"
          synced a
          same "$(cat "$A/away")" away
          same "$(attribute isUploaded "$A/new")" 1
          """)
      }
    }

    @Test func signingInWithNoBackendSaysSo() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          """
          touch file
          refused 'file' on a account sign-in --backend "file://$WORK/file"
          refused 'file' on a account sign-in --backend "file://$WORK/file/below"
          exits 2 on a account sign-in --backend "gopher://example.org"
          exits 2 on a account sign-in --backend ''
          on a account status --json | grep '"signedIn" *: *false' > /dev/null
          """)
      }
    }

    @Test(.enabled(if: TestAccount.isRoot)) func aReadOnlyBackendKeepsChangesHere() async throws {
      try await withAccount { account in
        try await account.script("mkdir \"$CLOUD\"; mount -t tmpfs none \"$CLOUD\"")
        try await account.device("a")
        try await account.script(
          """
          echo before > "$A/before"
          synced a
          mount -o remount,ro "$CLOUD"
          echo after > "$A/after"
          refused 'read-only|not permitted|refuse' on a sync --wait --timeout 10
          same "$(cat "$A/before" "$A/after" | tr '\\n' ' ')" 'before after '
          same "$(attribute isUploaded "$A/after")" 0
          on a status --json | grep -Eiq 'read-only|not permitted|refuse'
          not on b account sign-in
          mount -o remount,rw "$CLOUD"
          synced a
          same "$(attribute isUploaded "$A/after")" 1
          """)
        try await account.device("b")
        try await account.script("synced b; same \"$(cat \"$B/after\")\" after")
      }
    }

    @Test func aDamagedSegmentStopsSyncAndDamagesNothing() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          echo one > "$A/one"
          synced a b
          cat "$B/one"
          on b offline on
          echo two > "$A/two"; echo changed > "$A/one"
          synced a
          newest() { find "$CLOUD" -path '*/log/*' -type f | LC_ALL=C sort | tail -1; }
          segment=$(newest)
          chmod u+w "$segment"
          cp "$segment" saved
          for damage in flip cut empty newer; do
            case $damage in
              flip) { head -c 60 saved; printf '\\377\\376\\375'; tail -c +64 saved; } > "$segment" ;;
              cut) head -c 50 saved > "$segment" ;;
              empty) : > "$segment" ;;
              newer) { head -c 4 saved; printf '\\0\\0\\0\\377'; tail -c +9 saved; } > "$segment" ;;
            esac
            on b offline off
            expected='damage'; [ $damage != newer ] || expected='newer'
            refused "$expected" on b sync --wait --timeout 10
            [ -n "$(cat "$B/one")" ]
            echo "written during $damage" > "$B/$damage"
            same "$(cat "$B/$damage")" "written during $damage"
            on b status --json | tr -d ' \\n' | grep -q '"errors":\\["'
            on b offline on
          done
          cat saved > "$segment"
          on b offline off
          synced b a
          same "$(cat "$B/two" "$B/one" | tr '\\n' ' ')" 'two changed '
          same "$(cat "$A/cut")" 'written during cut'
          same "$(listing "$A")" "$(listing "$B")"
          """)
      }
    }

    @Test func swappedSegmentsAreRefused() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          for n in 1 2 3 4; do echo $n > "$A/$n"; synced a; done
          segments=($(find "$CLOUD" -path '*/log/*' -type f | LC_ALL=C sort))
          [ "${#segments[@]}" -ge 4 ]
          chmod -R u+w "$CLOUD"
          cp "${segments[2]}" saved2; cp "${segments[3]}" saved3
          cat saved3 > "${segments[2]}"; cat saved2 > "${segments[3]}"
          on b account sign-in
          mkdir b
          on b mount "$CONTAINER" b || true
          not on b sync --wait --timeout 10
          cat saved2 > "${segments[2]}"; cat saved3 > "${segments[3]}"
          mountpoint -q b || on b mount "$CONTAINER" b
          synced b
          same "$(cat b/Documents/[1234] | tr '\\n' ' ')" '1 2 3 4 '
          """)
      }
    }

    @Test func aTruncatedPackIsNoContent() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          "head -c 3000000 /dev/urandom > file; cp file \"$A/file\"; synced a")
        try await account.device("b")
        try await account.script(
          """
          synced b
          find "$CLOUD" -path '*/packs/*' -type f > packs
          [ -s packs ]
          chmod -R u+w "$CLOUD"
          cp -a "$CLOUD" saved
          while read -r pack; do truncate -s $(($(stat -c %s "$pack") / 2)) "$pack"; done < packs
          refused 'input/output error' timeout 30 cat "$B/file"
          same "$(stat -c %s "$B/file")" 3000000
          same "$(attribute downloadingStatus "$B/file")" notDownloaded
          not on b download "$B/file"
          [ -n "$(attribute downloadingError "$B/file")" ]
          while read -r pack; do
            size=$(stat -c %s "saved/${pack#"$CLOUD"/}")
            head -c "$size" /dev/zero > "$pack"
          done < packs
          refused 'input/output error' timeout 30 cat "$B/file"
          while read -r pack; do rm -f "$pack"; done < packs
          refused 'input/output error' timeout 30 cat "$B/file"
          while read -r pack; do cat "saved/${pack#"$CLOUD"/}" > "$pack"; done < packs
          cmp file "$B/file"
          """)
      }
    }

    @Test(.enabled(if: TestAccount.isRoot)) func aFullDiskRefusesAWriteAndGoesOn() async throws {
      try await withAccount { account in
        try await account.script(
          """
          mkdir "$ROOT/small"; mount -t tmpfs -o size=24m none "$ROOT/small"
          """)
        account.know("a")
        try await account.script(
          """
          on a account sign-in --device-name a
          on a account secret > secret
          on small/state account sign-in --backend "file://$CLOUD" --secret-file secret \\
            --device-name small
          mkdir m
          on small/state mount "$CONTAINER" m
          echo first > m/Documents/first
          refused 'no space left' dd if=/dev/urandom of=m/Documents/big bs=65536 count=1000
          same "$(cat m/Documents/first)" first
          ls -l m/Documents
          rm m/Documents/big
          freed() { echo again > m/Documents/again; }
          until_true 60 freed
          same "$(cat m/Documents/again)" again
          on small/state sync --wait --timeout 60
          on small/state fsck
          """)
        // A download that does not fit leaves a placeholder.
        try await account.device("a")
        try await account.script(
          """
          head -c 40000000 /dev/urandom > "$A/big"
          synced a
          on small/state sync --wait --timeout 60
          refused 'no space left' cat m/Documents/big
          same "$(stat -c %s m/Documents/big)" 40000000
          same "$(attribute downloadingStatus m/Documents/big)" notDownloaded
          rm m/Documents/big
          same "$(cat m/Documents/again)" again
          """)
      }
    }

    @Test(.enabled(if: TestAccount.isRoot)) func aStateDirectoryOfAnotherUserIsRefused()
      async throws
    {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          """
          mkdir -m 700 "$ROOT/a"
          chown 65534:65534 "$ROOT/a"
          refused 'belongs|owned|owner|another user' on a account sign-in
          exits 6 on a account sign-in
          exits 6 on a status
          same "$(ls -A "$ROOT/a")" ''
          """)
      }
    }

    @Test func aDamagedCatalogIsNotOpened() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          echo text > "$A/file"; synced a
          kill -TERM \(pid)
          stopped() { ! kill -0 \(pid) 2>/dev/null; }
          until_true 60 stopped
          catalog="$ROOT/a/containers/$CONTAINER/catalog.sqlite"
          cp "$catalog" saved
          head -c 100000 /dev/urandom > "$catalog"
          sum=$(sha256sum < "$catalog")
          refused 'catalog|database|damaged' on a mount "$CONTAINER" "$A_MOUNT"
          same "$(sha256sum < "$catalog")" "$sum"
          rm -f "$catalog"-wal "$catalog"-shm
          cp saved "$catalog"
          on a mount "$CONTAINER" "$A_MOUNT"
          same "$(cat "$A/file")" text
          """)
      }
    }

    @Test("container list shows a container that cannot be opened with the reason, also offline")
    func aContainerThatCannotBeOpenedIsListed() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          echo text > "$A/file"; synced a
          kill -TERM \(pid)
          stopped() { ! kill -0 \(pid) 2>/dev/null; }
          until_true 60 stopped
          catalog="$ROOT/a/containers/$CONTAINER/catalog.sqlite"
          rm -f "$catalog"-wal "$catalog"-shm
          echo garbage > "$catalog"
          for mode in off on; do
            on a offline $mode
            on a container list > list
            grep "^$CONTAINER .*cannot be opened: " list > /dev/null
            on a container list --json > list
            grep '"error":"[^"]' list > /dev/null
          done
          on a offline off
          exits 1 on a sync
          refused "$CONTAINER" on a sync
          exits 1 on a sync --wait --timeout 60
          exits 1 on a store recover
          refused "$CONTAINER was not recovered" on a store recover
          """)
      }
    }
  }
}
