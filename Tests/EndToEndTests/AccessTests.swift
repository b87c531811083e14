import Testing

/// Who may see a mount, and that a waiting program can be killed.
extension EndToEnd {
  @Suite struct AccessTests {
    @Test(.enabled(if: TestAccount.isRoot)) func aMountIsItsOwnersAlone() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          chmod 755 "$ROOT"
          echo text > "$A/file"
          refused 'permission denied' setpriv --reuid 65534 --clear-groups cat "$A/file"
          refused 'permission denied' setpriv --reuid 65534 --clear-groups ls "$A_MOUNT"
          """)
      }
    }

    @Test(.enabled(if: TestAccount.isRoot)) func othersAreLetInWhenAsked() async throws {
      try await withAccount { account in
        try await account.device("a", mountOptions: "allow_other,default_permissions")
        try await account.script(
          """
          chmod 755 "$ROOT"
          other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
          echo text > "$A/open"; echo text > "$A/closed"; chmod 600 "$A/closed"
          same "$(other cat "$A/open")" text
          refused 'permission denied' other cat "$A/closed"
          refused 'permission denied' other touch "$A/new"
          mkdir "$A/drop"; chmod 1777 "$A/drop"
          other touch "$A/drop/theirs"
          same "$(stat -c %u:%g "$A/drop/theirs")" 65534:65534
          refused 'not permitted' other rm -f "$A/drop/../open" || refused 'permission denied' other rm -f "$A/open"
          """)
      }
    }

    @Test func listStatusListsTheAttributes() async throws {
      try await withAccount { account in
        try await account.device("a", mountOptions: "list_status")
        try await account.script(
          """
          echo text > "$A/file"
          getfattr --absolute-names -d -m - "$A/file" | grep -q '^user.ubiquity.downloadingStatus="current"'
          """)
      }
    }

    @Test func aReaderThatWaitsCanBeKilled() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          head -c 3000000 /dev/urandom > file
          cp file "$A/file"; synced a
          on a evict "$A/file"
          chmod -R u+w "$CLOUD"
          # Opening a pack now waits, as a store does that does not answer.
          find "$CLOUD" -path '*/packs/*' -type f > packs
          while read -r pack; do mv "$pack" "$pack.away"; mkfifo "$pack"; done < packs
          status=0
          timeout -s KILL 3 cat "$A/file" > /dev/null 2>&1 || status=$?
          [ $status != 0 ]
          ls "$A" > /dev/null
          while read -r pack; do
            timeout 1 dd if=/dev/null of="$pack" 2>/dev/null || true
            rm "$pack"; mv "$pack.away" "$pack"
          done < packs
          same_again() { cmp -s "$A/file" file; }
          until_true 60 same_again
          """)
      }
    }
  }
}
