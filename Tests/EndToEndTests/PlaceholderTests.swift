import Testing

/// Evicting, downloading, pinning, and reading a part.
extension EndToEnd {
  @Suite struct PlaceholderTests {
    /// Two devices that share `$A/big` of 128 MiB, a placeholder on the second.
    private func withBigFile(_ body: (TestAccount) async throws -> Void) async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          "head -c 134217728 /dev/urandom > big; cp big \"$A/big\"; synced a", timeout: 240)
        try await account.device("b")
        try await account.script("synced b; same \"$(stat -c '%s %b' \"$B/big\")\" '134217728 1'")
        try await body(account)
      }
    }

    /// An empty file is no exception: not here until it is opened, and evicted like any other.
    @Test func emptyFilesArePlaceholdersToo() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          : > "$A/empty"
          synced a b
          same "$(attribute downloadingStatus "$B/empty")" notDownloaded
          cat "$B/empty"
          same "$(attribute downloadingStatus "$B/empty")" current
          until_true 60 evicts "$B/empty"
          same "$(attribute downloadingStatus "$B/empty")" notDownloaded
          on b download "$B/empty"
          same "$(attribute downloadingStatus "$B/empty")" current
          on b evict "$B/empty"
          echo text > "$B/empty"
          synced b a
          same "$(cat "$A/empty")" text
          same "$(cat "$B/empty")" text
          """)
      }
    }

    @Test func readingAPartFetchesThatPart() async throws {
      try await withBigFile { account in
        let start = try await account.status("b").traffic.bytesDownloaded
        try await account.script(
          """
          head -c 4096 "$B/big" | cmp - <(head -c 4096 big)
          [ "$(stat -c %b "$B/big")" -gt 1 ]
          synced b
          """)
        let head = try await account.status("b").traffic.bytesDownloaded
        #expect(head - start <= 4 << 20)
        try await account.script(
          """
          dd if="$B/big" bs=4096 skip=16384 count=1 status=none |
            cmp - <(dd if=big bs=4096 skip=16384 count=1 status=none)
          synced b
          same "$(attribute downloadingStatus "$B/big")" notDownloaded
          blocks=$(stat -c %b "$B/big")
          [ "$blocks" -gt 1 ]
          [ "$blocks" -lt 16384 ]
          """)
        let middle = try await account.status("b").traffic.bytesDownloaded
        #expect(middle - head <= 4 << 20)
      }
    }

    @Test func aSmallChangeUploadsLittle() async throws {
      try await withBigFile { account in
        let start = try await account.status("a").traffic.bytesUploaded
        try await account.script(
          """
          printf X | dd of="$A/big" bs=1 seek=67108864 conv=notrunc status=none
          synced a
          """)
        let changed = try await account.status("a").traffic.bytesUploaded
        #expect(changed - start <= 4 << 20)
        try await account.script("synced b; cmp \"$A/big\" \"$B/big\"", timeout: 240)
        try await account.script(
          """
          { printf 0123456789; cat "$A/big"; } > "$A/.new"
          mv "$A/.new" "$A/big"
          synced a
          """, timeout: 240)
        let inserted = try await account.status("a").traffic.bytesUploaded
        #expect(inserted - changed <= 8 << 20)
        try await account.script(
          """
          synced b
          same "$(stat -c %s "$B/big")" 134217738
          cmp "$A/big" "$B/big"
          """, timeout: 240)
      }
    }

    @Test func evictingFreesTheBlocks() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          head -c 3000000 /dev/urandom > keep
          cp keep "$A/file"
          synced a
          same "$(attribute isUploaded "$A/file")" 1
          before=$(stat -c '%i %s %Y %a' "$A/file")
          setfattr -n user.ubiquity.evict -v 1 "$A/file"
          same "$(stat -c %b "$A/file")" 1
          same "$(stat -c '%i %s %Y %a' "$A/file")" "$before"
          same "$(attribute downloadingStatus "$A/file")" notDownloaded
          same "$(attribute percentDownloaded "$A/file")" 0
          is_small() { [ "$(du -s --block-size=1 "$ROOT/a/containers/$CONTAINER/content" | cut -f1)" -lt 3000000 ]; }
          until_true 60 is_small
          setfattr -n user.ubiquity.download -v 1 "$A/file"
          is_current() { [ "$(attribute downloadingStatus "$A/file")" = current ]; }
          until_true 60 is_current
          same "$(attribute percentDownloaded "$A/file")" 100
          [ "$(stat -c %b "$A/file")" -gt 5000 ]
          on a offline on
          cmp keep "$A/file"
          on a offline off
          until_true 60 on a evict "$A/file"
          same "$(stat -c %b "$A/file")" 1
          on a download "$A/file"
          is_current
          cmp keep "$A/file"
          """)
      }
    }

    @Test func evictionIsRefusedWhereItWouldLose() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo one > "$A/open"; echo two > "$A/pinned"; mkdir "$A/x.nosync"; echo 3 > "$A/x.nosync/in"
          synced a
          exec 3< "$A/open"
          refused 'busy' setfattr -n user.ubiquity.evict -v 1 "$A/open"
          exits 5 on a evict "$A/open"
          exec 3<&-
          until_true 60 evicts "$A/open"
          same "$(cat "$A/open")" one

          on a pin "$A/pinned"
          same "$(attribute isPinned "$A/pinned")" 1
          refused 'busy' setfattr -n user.ubiquity.evict -v 1 "$A/pinned"
          on a unpin "$A/pinned"
          setfattr -n user.ubiquity.evict -v 1 "$A/pinned"

          refused 'not permitted' setfattr -n user.ubiquity.evict -v 1 "$A/x.nosync/in"

          on a offline on
          echo changed > "$A/dirty"
          refused 'busy' setfattr -n user.ubiquity.evict -v 1 "$A/dirty"
          same "$(cat "$A/dirty")" changed
          exits 3 on a evict "$A/missing"
          exits 3 on a evict "$WORK"
          """)
      }
    }

    @Test func directoriesEvictAndDownloadRecursively() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir -p "$A/d/e/cache.nosync"
          for n in 1 2 3; do head -c 100000 /dev/urandom > "$A/d/$n"; cp "$A/d/$n" "$A/d/e/$n"; done
          echo private > "$A/d/e/cache.nosync/kept"
          cp -a "$A/d" copy
          synced a
          setfattr -n user.ubiquity.evict -v 1 "$A/d"
          same "$(find "$A/d" -type f -name '[123]' -exec stat -c %b {} + | sort -u)" 1
          [ "$(stat -c %b "$A/d/e/cache.nosync/kept")" -gt 0 ]
          same "$(cat "$A/d/e/cache.nosync/kept")" private
          on a download "$A/d"
          on a offline on
          diff -r copy "$A/d"
          """)
      }
    }

    @Test func lookingDownloadsNothing() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          "source_tree tree; cp -a tree \"$A/tree\"; synced a; on a evict \"$A/tree\"", timeout: 240
        )
        try await account.script(
          """
          before=$(downloads_of a)
          ls -lR "$A" > /dev/null
          find "$A" -size +1 -newer "$WORK/tree" > /dev/null
          du -s "$A"
          find "$A" -type f -exec stat {} + > /dev/null
          find "$A" -type f -exec getfattr --absolute-names -n user.ubiquity.status {} + > /dev/null
          find "$A" ! -type l -exec getfattr --absolute-names -d -m - {} + > /dev/null
          on a status "$A/tree/src/main.c" > /dev/null
          same "$(downloads_of a)" "$before"
          same "$(find "$A" -type f -size +0 -exec stat -c %b {} + | sort -u)" 1
          # Such a line comes from reading one.
          cat "$A/tree/src/main.c" > /dev/null
          not same "$(downloads_of a)" "$before"
          """)
      }
    }

    @Test func statusAttributesAreNotCarriedAlong() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo text > "$A/file"
          setfattr -n user.mine -v mine "$A/file"
          same "$(getfattr --absolute-names -d -m - "$A/file" | grep -c .)" 2
          cp -a "$A/file" "$ROOT/work/copy"
          same "$(getfattr -d -m - copy | grep -c ubiquity || true)" 0
          cp -a --preserve=xattr "$A/file" "$A/copy"
          same "$(getfattr --absolute-names --only-values -n user.mine "$A/copy")" mine
          for name in isDownloading isUploading isUploaded hasUnresolvedConflicts isExcludedFromSync isPinned isPackage; do
            [[ $(attribute $name "$A/file") = [01] ]]
          done
          same "$(attribute container "$A/file")" "$CONTAINER"
          [ -n "$(attribute itemIdentifier "$A/file")" ]
          refused 'no such attribute' attribute downloadingError "$A/file"
          refused 'not permitted' setfattr -n user.ubiquity.isUploaded -v 1 "$A/file"
          refused 'not supported' setfattr -n user.ubiquity.unheardOf -v 1 "$A/file"
          refused 'no such attribute' attribute unheardOf "$A/file"
          synced a
          [ -n "$(attribute version "$A/file")" ]
          attribute status "$A/file" | grep -q '"downloadingStatus":"current"'
          """)
      }
    }

    /// Copiers look for holes, which what is not here is none of.
    @Test func copiesAreWholeWhateverIsHere() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          head -c 9000000 /dev/urandom > big; cp big "$A/big"; cp big "$A/moved"; cp big "$A/part"
          synced a; evicts "$A/big" "$A/moved" "$A/part"
          cp "$A/big" copy; cmp big copy
          evicts "$A/big"; install "$A/big" copy2; cmp big copy2
          # Of this one some of the middle is here.
          dd if="$A/part" of=/dev/null bs=4096 skip=1000 count=1 2> /dev/null
          cp --sparse=always "$A/part" copy3; cmp big copy3
          on a download "$A/part"; evicts "$A/part"; dd if="$A/part" of=/dev/null bs=4096 skip=1000 count=1 2> /dev/null
          tar -cSf part.tar -C "$A" part; tar -xOf part.tar | cmp - big
          # Into another file system: what was moved is nowhere else.
          mv "$A/moved" moved; cmp big moved; not test -e "$A/moved"
          # And within it.
          evicts "$A/big"; cp "$A/big" "$A/again"; cmp big "$A/again"
          """)
      }
    }

    @Test("SEEK_DATA and SEEK_HOLE report missing ranges as data")
    func missingRangesAreData() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          head -c 16777216 /dev/urandom > big
          cp big "$A/big"
          synced a
          on a evict "$A/big"
          cat > seek.c <<'EOF'
          #define _GNU_SOURCE
          #include <fcntl.h>
          #include <stdio.h>
          #include <unistd.h>
          int main(int count, char **arguments) {
            int file = open(arguments[1], O_RDONLY);
            printf("%ld %ld\\n", (long)lseek(file, 0, SEEK_DATA), (long)lseek(file, 0, SEEK_HOLE));
            return 0;
          }
          EOF
          cc -o seek seek.c
          same "$(./seek "$A/big")" '0 16777216'
          dd if="$A/big" of=/dev/null bs=4096 skip=100 count=1 status=none
          same "$(./seek "$A/big")" '0 16777216'
          on a download "$A/big"
          same "$(./seek "$A/big")" '0 16777216'
          cmp big "$A/big"
          """)
      }
    }
  }
}
