import Testing

/// A source tree on one device and on another: the tools that people use, and what moves.
extension EndToEnd {
  @Suite struct WorkingTreeTests {
    @Test func toolsWorkInACopiedTree() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          source_tree tree
          [ "$(find tree -type f | wc -l)" -ge 1000 ]
          cp -a tree "$A/tree"
          diff -r --no-dereference tree "$A/tree"
          same "$(listing "$A/tree" | grep -v '^[.] ')" "$(cd tree && find . -type d -printf '%p 4096 %m %T@ %l\\n' \
            -o -printf '%p %s %m %T@ %l\\n' | sort | grep -v '^[.] ')"
          cd "$A/tree"
          sha256sum --quiet -c SHA256SUMS
          tools/build
          same "$(./program)" 820
          rm -f program src/*.o
          tar cf "$WORK/tree.tar" .
          mkdir "$A/unpacked"
          tar xf "$WORK/tree.tar" -C "$A/unpacked"
          diff -r --no-dereference "$WORK/tree" "$A/unpacked"
          rsync -a --checksum --delete "$WORK/tree/" "$A/rsynced/"
          same "$(rsync -a --checksum --delete --itemize-changes "$WORK/tree/" "$A/rsynced/")" ''
          """, timeout: 240)
      }
    }

    @Test func gitWorksInATree() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          source_tree tree
          cp -a tree "$A/tree"
          cd "$A/tree"
          git init -q .
          git add -A
          git commit -q -m first
          same "$(git status --porcelain)" ''
          echo changed >> src/main.c
          rm src/part9.c
          same "$(git status --porcelain)" ' M src/main.c
           D src/part9.c'
          git checkout -q -b other
          git commit -q -a -m second
          git checkout -q -
          [ -e src/part9.c ]
          git fsck --strict
          git gc -q
          git clone -q . "$A/clone"
          cd "$A/clone"
          same "$(git status --porcelain)" ''
          """, timeout: 240)
      }
    }

    @Test func secondDeviceShowsPlaceholders() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script("source_tree tree; cp -a tree \"$A/tree\"; synced a", timeout: 240)
        try await account.device("b")
        try await account.script(
          """
          synced b a
          same "$(listing "$B")" "$(listing "$A")"
          [ "$(du -s --block-size=1 "$B" | cut -f1)" -lt 1000000 ]
          [ "$(find "$B" -type f -size +0 | wc -l)" -ge 1000 ]
          same "$(find "$B" -type f -size +0 -exec stat -c %b {} + | sort -u)" 1
          find "$B" -type f -size +0 -exec getfattr --absolute-names --only-values \
            -n user.ubiquity.downloadingStatus {} + > statuses
          same "$(sed 's/notDownloaded//g' statuses)" ''
          """)
        let before = try await account.status("b")
        // The log alone: names and manifests of a thousand files, not their twenty megabytes.
        #expect(before.traffic.bytesDownloaded < 1 << 20)
        #expect(before.containers.first?.localBytes == 0)
        try await account.script(
          """
          cd "$B/tree"
          sha256sum --quiet -c SHA256SUMS
          is_here() { [ "$(attribute downloadingStatus src/main.c)" = current ]; }
          until_true 60 is_here
          [ "$(stat -c %b src/main.c)" -gt 0 ]
          diff -r --no-dereference "$A/tree" "$B/tree"
          """)
        let after = try await account.status("b")
        #expect(after.traffic.bytesDownloaded > 10_000_000)
      }
    }

    @Test func greedyPolicyDownloadsEverything() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          "for n in $(seq 20); do head -c 300000 /dev/urandom > \"$A/$n\"; done; synced a")
        try await account.device("b", mountOptions: "policy=greedy")
        try await account.script(
          """
          synced b
          all_local() { [ "$(find "$B" -type f -exec stat -c %b {} + | sort -n | head -1)" -gt 1 ]; }
          until_true 60 all_local
          on b offline on
          diff -r "$A" "$B"
          echo new > "$A/later"
          synced a
          on b offline off
          synced b
          until_true 60 all_local
          """)
      }
    }

    @Test func renamingADirectoryMovesNoContent() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir "$A/many"
          for n in $(seq 1000); do echo "content of $n" > "$A/many/$n"; done
          synced a
          """)
        try await account.device("b")
        try await account.script("synced b")
        let before = try await account.status("a").traffic.bytesUploaded
        try await account.script("mv \"$A/many\" \"$A/renamed\"; synced a")
        let after = try await account.status("a").traffic.bytesUploaded
        #expect(after - before < 64 << 10)
        try await account.script(
          """
          synced b
          [ ! -e "$B/many" ]
          same "$(listing "$B")" "$(listing "$A")"
          """)
      }
    }

    @Test func nothingIsInTheClear() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir "$A/recognisable-directory"
          for n in $(seq 50); do echo 'recognisable content of a file'; done > "$A/recognisable-directory/recognisable-name.txt"
          ln -s recognisable-target "$A/recognisable-link"
          setfattr -n user.recognisable -v recognisable-value "$A/recognisable-directory"
          synced a
          [ "$(find "$CLOUD" -type f | wc -l)" -gt 1 ]
          not grep -rqi recognisable "$CLOUD"
          not grep -qi recognisable <(find "$CLOUD")
          """)
      }
    }
  }
}
