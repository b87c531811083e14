import Testing

/// Commands that drop contents or bring them back.
extension EndToEnd {
  @Suite struct KeptVersionCommandTests {
    @Test("versions resolve refuses a list that is out of date, and what it drops is in the trash")
    func resolvingByAnOldListIsRefused() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          echo base > "$A/file"
          synced a b
          same "$(cat "$B/file")" base
          on a offline on; on b offline on
          echo loser > "$A/file"; sleep 0.02; echo winner > "$B/file"
          on a offline off; on b offline off
          synced a b a b
          ids() { on "$1" versions list "$2/file" | awk -v kind="$3" '$1 == kind { print $2 }'; }
          loser=$(ids a "$A" conflict)
          # An edit arrives after the list was shown.
          echo edited > "$B/file"
          synced b a
          exits 5 on a versions resolve "$A/file" --keep "$loser"
          refused 'current version.*versions list.*--current' \\
            on a versions resolve "$A/file" --keep "$loser"
          exits 5 on a versions resolve "$A/file" --keep "$loser" --current "$loser"
          exits 2 on a versions resolve "$A/file" --keep
          same "$(cat "$A/file")" edited
          same "$(on a trash list | grep -c file || true)" 0
          # The list is shown again, or the version is named.
          current=$(ids a "$A" current)
          on a versions resolve "$A/file" --keep "$loser" --current "$current"
          synced a b
          for directory in "$A" "$B"; do same "$(cat "$directory/file")" loser; done
          same "$(on b trash list | grep -c file)" 1
          on b trash restore "$B/file"
          synced b a
          for directory in "$A" "$B"; do
            same "$(cat "$directory/file")" loser
            same "$(cat "$directory/file 2")" edited
          done
          same "$(on a trash list | grep -c file || true)" 0
          """)
      }
    }

    @Test("versions resolve replaces no current version that was not listed since the daemon began")
    func resolvingWithoutAListIsRefused() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          echo base > "$A/file"
          synced a b
          same "$(cat "$B/file")" base
          on a offline on; on b offline on
          echo loser > "$A/file"; sleep 0.02; echo winner > "$B/file"
          on a offline off; on b offline off
          synced a b a b
          ids() { on a versions list "$A/file" | awk -v kind="$1" '$1 == kind { print $2 }'; }
          loser=$(ids conflict); current=$(ids current)
          kill -TERM \(pid)
          ended() { ! kill -0 \(pid) 2>/dev/null; }
          until_true 60 ended
          on a mount "$CONTAINER" "$A_MOUNT"
          exits 5 on a versions resolve "$A/file" --keep "$loser"
          refused "current version $current.*versions list .*/file.*--current $current" \\
            on a versions resolve "$A/file" --keep "$loser"
          same "$(cat "$A/file")" winner
          same "$(attribute hasUnresolvedConflicts "$A/file")" 1
          same "$(ids current)" "$current"
          on a versions resolve "$A/file" --keep "$loser"
          synced a b
          for directory in "$A" "$B"; do
            same "$(cat "$directory/file")" loser
            same "$(attribute hasUnresolvedConflicts "$directory/file")" 0
          done
          """)
      }
    }

    @Test("a sparse file stays sparse over an eviction, on both devices and through every mount")
    func sparseFilesStaySparse() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          truncate -s 64M "$A/sparse"
          printf data | dd of="$A/sparse" bs=1 seek=1000000 conv=notrunc status=none
          synced a b
          blocks=$(stat -c %b "$A/sparse")
          [ "$blocks" -le 64 ]
          sum=$(sha256sum < "$A/sparse")
          # A part of it, then all.
          same "$(dd if="$B/sparse" bs=1 skip=1000000 count=4 status=none)" data
          same "$(head -c 4096 "$B/sparse" | tr -d '\\0' | wc -c)" 0
          same "$(sha256sum < "$B/sparse")" "$sum"
          on b download "$B/sparse"
          [ "$(stat -c %b "$B/sparse")" -le 64 ]
          on a evict "$A/sparse"
          on a download "$A/sparse"
          [ "$(stat -c %b "$A/sparse")" -le 64 ]
          same "$(sha256sum < "$A/sparse")" "$sum"
          # What is local is read and written like any file.
          printf more | dd of="$B/sparse" bs=1 seek=50000000 conv=notrunc status=none
          synced b a
          on a download "$A/sparse"
          cmp "$A/sparse" "$B/sparse"
          [ "$(stat -c %b "$A/sparse")" -le 96 ]
          """)
      }
    }
  }
}
