import Testing

/// Daemons that stop, are killed, come back; mounts that come and go.
extension EndToEnd {
  @Suite struct LifeCycleTests {
    @Test func aKilledDaemonLosesNothingThatWasClosed() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          touch killed
          source_tree tree
          copy_all() {
            cd "$WORK/tree"
            find . -type d -exec mkdir -p "$A/tree/{}" \\;
            find . -type f -print0 | while IFS= read -r -d '' file; do
              cp -a "$file" "$A/tree/$file" 2>/dev/null || break
              printf '%s\\0' "$file" >> "$WORK/done"
            done
          }
          mkdir "$A/tree"; : > done
          copy_all & copy=$!
          enough() { [ "$(tr -cd '\\0' < done | wc -c)" -ge 400 ]; }
          until_true 60 enough
          kill -9 \(pid)
          wait $copy || true
          on a unmount "$A_MOUNT"
          on a mount "$CONTAINER" "$A_MOUNT"
          count=$(tr -cd '\\0' < done | wc -c)
          [ "$count" -ge 400 ]
          [ "$count" -lt 1100 ]
          while IFS= read -r -d '' file; do
            cmp "tree/$file" "$A/tree/$file"
            same "$(stat -c '%s %a' "$A/tree/$file")" "$(stat -c '%s %a' "tree/$file")"
          done < done
          on a fsck
          synced a
          """, timeout: 300)
        try await account.device("b")
        try await account.script(
          """
          synced b
          while IFS= read -r -d '' file; do cmp "tree/$file" "$B/tree/$file"; done < done
          same "$(listing "$A")" "$(listing "$B")"
          """)
      }
    }

    @Test func syncedBytesSurviveAKillAtOnce() async throws {
      try await withAccount { account in
        try await account.device("a")
        for round in 1...3 {
          let pid = try await account.status("a").daemon.pid
          try await account.script(
            """
            touch killed
            dd if=/dev/urandom of=block\(round) bs=65536 count=20 status=none
            exec 3> "$A/open\(round)"
            dd if=block\(round) bs=65536 of=/dev/fd/3 conv=fsync status=none
            cp block\(round) "$A/closed\(round)"
            mv "$A/closed\(round)" "$A/renamed\(round)"
            kill -9 \(pid)
            exec 3>&- || true
            on a unmount "$A_MOUNT"
            on a mount "$CONTAINER" "$A_MOUNT"
            for n in $(seq \(round)); do
              cmp block$n "$A/open$n"
              # A rename is kept or not made; it has not been synced. The content is whole.
              closed=$(ls "$A"/closed$n "$A"/renamed$n 2>/dev/null) || true
              cmp block$n "$closed"
            done
            on a fsck
            """)
        }
      }
    }

    @Test func aCleanStopAndAStartChangeNothing() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          mkdir "$A/d"; echo text > "$A/d/file"; ln "$A/d/file" "$A/hard"
          (cd "$A_MOUNT" && find . -printf '%p %i %s %m %T@ %n\\n' | sort) > before
          kill -TERM \(pid)
          stopped() { ! kill -0 \(pid) 2>/dev/null; }
          until_true 60 stopped
          not mountpoint -q "$A_MOUNT"
          same "$(ls -A "$A_MOUNT")" ''
          on a mount "$CONTAINER" "$A_MOUNT"
          (cd "$A_MOUNT" && find . -printf '%p %i %s %m %T@ %n\\n' | sort) > after
          diff before after
          same "$(cat "$A/hard")" text
          on a fsck
          """)
      }
    }

    @Test func unmountWritesEverythingOut() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          head -c 5000000 /dev/urandom > file
          cp file "$A/file"
          on a unmount "$A_MOUNT"
          not mountpoint -q "$A_MOUNT"
          on a mount "$CONTAINER" "$A_MOUNT"
          cmp file "$A/file"
          on a umount "$A_MOUNT"
          exits 3 on a unmount "$A_MOUNT"
          on a mount "$CONTAINER" "$A_MOUNT"
          """)
      }
    }

    @Test func onlyOneDaemonServesAStateDirectory() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          echo text > "$A/file"
          refused 'already|running|another' on a daemon
          exits 5 on a daemon
          same "$(cat "$A/file")" text
          # ten commands at once that each need the daemon start one
          kill -TERM \(pid)
          stopped() { ! kill -0 \(pid) 2>/dev/null; }
          until_true 60 stopped
          for n in $(seq 10); do on a status --json > "status$n" & done
          wait
          for n in $(seq 10); do grep -o '"pid" *: *[0-9]*' "status$n"; done | sort -u > pids
          same "$(wc -l < pids)" 1
          """)
      }
    }

    @Test func foregroundMountsEndWithTheMount() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          on a unmount "$A_MOUNT"
          UBIQUITYFS_STATE=$ROOT/a ubiquityfs mount "$CONTAINER" "$A_MOUNT" --foreground & child=$!
          until_true 60 mountpoint -q "$A_MOUNT"
          echo text > "$A/file"
          on a unmount "$A_MOUNT"
          wait $child
          """)
      }
    }

    @Test func allContainersAreMountedTogether() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          on a container create iCloud.org.example.second
          mkdir all
          on a unmount "$A_MOUNT"
          on a mount --all all
          echo one > "all/$CONTAINER/Documents/file"
          echo two > all/iCloud.org.example.second/Documents/file
          same "$(ls all | tr '\\n' ' ')" 'iCloud.org.example.second iCloud.org.example.test '
          same "$(ls -A all/iCloud.org.example.second)" Documents
          synced a
          """)
        let containers = try await account.json(ContainersAnswer.self, "a", "container list")
        #expect(
          containers.containers.map(\.id).sorted()
            == ["iCloud.org.example.second", TestAccount.container])
        try await account.script(
          """
          exits 2 on a container delete iCloud.org.example.second
          exits 5 on a container delete iCloud.org.example.second --yes
          on a unmount all/iCloud.org.example.second
          on a container delete iCloud.org.example.second --yes
          exits 3 on a container delete iCloud.org.example.second --yes
          same "$(cat "all/$CONTAINER/Documents/file")" one
          """)
      }
    }
  }
}
