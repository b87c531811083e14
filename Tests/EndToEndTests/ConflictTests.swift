import Testing

/// Two devices that did not see each other's change.
extension EndToEnd {
  @Suite struct ConflictTests {
    /// Two devices that agree on `file`, content local, then both offline.
    private func withTwoOffline(_ body: (TestAccount) async throws -> Void) async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          echo base > "$A/file"
          synced a b
          same "$(cat "$B/file")" base
          on a offline on; on b offline on
          """)
        try await body(account)
      }
    }

    private let meet = "on a offline off; on b offline off; synced a b a b\n"

    @Test func theLaterEditIsCurrentAndTheOtherIsKept() async throws {
      try await withTwoOffline { account in
        try await account.script(
          """
          echo 'the later one' > "$B/file"
          touch -d '2030-01-01' "$B/file"
          echo 'the earlier one' > "$A/file"
          \(meet)
          for file in "$A/file" "$B/file"; do
            same "$(cat "$file")" 'the later one'
            same "$(attribute hasUnresolvedConflicts "$file")" 1
          done
          same "$(ls -A "$A")" file
          """)
        for device in ["a", "b"] {
          let path = account.documents(device) + "/file"
          let answer = try await account.json(
            VersionsAnswer.self, device, "versions list '\(path)'")
          let current = answer.versions.filter(\.isCurrent)
          #expect(current.count == 1)
          let losers = answer.versions.filter { $0.isConflict && !$0.isResolved && !$0.isCurrent }
          let loser = try #require(losers.first)
          #expect(losers.count == 1)
          #expect(loser.device == "a")
          #expect(loser.size == 16)
          try await account.script(
            "same \"$(on \(device) versions cat '\(path)' \(loser.id))\" 'the earlier one'")
          #expect(try await account.status(device).containers.first?.conflicts == 1)
        }
      }
    }

    /// The list is longer than a message of the control socket.
    @Test("thousands of removed files are listed and come back")
    func manyRemovedFiles() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir "$A/many" "$A/kept"
          (cd "$A/kept"; seq 3500 | xargs touch)
          # Names of 200 letters.
          (cd "$A/many"; seq -f '%0200g' 3000 | xargs touch)
          synced a
          rm -r "$A/many"; synced a
          same "$(on a trash list | wc -l)" 3001
          same "$(on a trash list --json | grep -o '"expires"' | wc -l)" 3001
          # By identifier, so many that the answer has pages too; then the rest by its path.
          ids=$(on a trash list | grep -v 'many$' | cut -d ' ' -f 1 | sort -u | sed -n 1,2900p)
          same "$(wc -l <<<"$ids")" 2900
          on a trash restore $ids | grep -c '^Restored ' | grep -qx 2900
          same "$(ls "$A/many" | wc -l)" 2900
          same "$(on a trash list | wc -l)" 100
          # Within the hour it is more than half of the container.
          on a offline on; rm -r "$A/many"; on a offline off
          exits 5 on a sync --wait --timeout 60
          on a sync --wait --timeout 60 --confirm-deletions "$A"
          on a trash restore "$A/many"
          same "$(ls "$A/many" | wc -l)" 3000
          same "$(on a trash list)" ''
          """, timeout: 240)
      }
    }

    @Test func whatWasRemovedComesBack() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          mkdir -p "$A/album/inner"; echo one > "$A/album/inner/one"; echo note > "$A/note.txt"
          synced a b
          rm -r "$A/album" "$A/note.txt"
          synced a b
          [ ! -e "$B/album" ] && [ ! -e "$B/note.txt" ]
          on b trash list | grep -c 'Documents/' | grep -qx 4
          on b trash restore "$B/note.txt" "$B/album/"
          synced b a
          same "$(cat "$A/note.txt")" note; same "$(cat "$A/album/inner/one")" one
          same "$(cat "$B/album/inner/one")" one
          same "$(on a trash list)" ''
          exits 3 on a trash restore "$A/note.txt"
          rm "$A/note.txt"; synced a b
          exits 2 on b trash empty
          on b trash empty --yes; synced b a
          same "$(on a trash list)" ''
          """)
      }
    }

    @Test func resolvingKeepsWhatIsNamed() async throws {
      try await withTwoOffline { account in
        try await account.script(
          "echo one > \"$A/file\"; sleep 0.02; echo two > \"$B/file\"; \(meet)")
        let versions = try await account.json(
          VersionsAnswer.self, "a", "versions list \"$A/file\""
        ).versions
        let loser = try #require(versions.first { !$0.isCurrent })
        let current = try #require(versions.first { $0.isCurrent })
        try await account.script(
          """
          on a versions resolve "$A/file" --keep \(current.id) --keep \(loser.id)
          synced a b
          for directory in "$A" "$B"; do
            same "$(attribute hasUnresolvedConflicts "$directory/file")" 0
            same "$(ls -A "$directory" | wc -l)" 2
            same "$(cat "$directory"/* | sort | tr '\\n' ' ')" 'one two '
            same "$(cat "$directory/file")" two
          done
          """)
      }
    }

    @Test func resolvingForTheOtherVersionReplacesTheCurrent() async throws {
      try await withTwoOffline { account in
        try await account.script(
          "echo one > \"$A/file\"; sleep 0.02; echo two > \"$B/file\"; \(meet)")
        let versions = try await account.json(
          VersionsAnswer.self, "b", "versions list \"$B/file\""
        ).versions
        let loser = try #require(versions.first { !$0.isCurrent })
        try await account.script(
          """
          on b versions resolve "$B/file" --keep \(loser.id)
          synced b a
          for directory in "$A" "$B"; do
            same "$(attribute hasUnresolvedConflicts "$directory/file")" 0
            cat "$directory"/* | grep -q one
          done
          same "$(listing "$A")" "$(listing "$B")"
          """)
      }
    }

    @Test func twoNewFilesOfOneNameAreBothKept() async throws {
      try await withTwoOffline { account in
        try await account.script(
          """
          echo earlier > "$A/new.txt"; sleep 0.02; echo later > "$B/new.txt"
          \(meet)
          for directory in "$A" "$B"; do
            same "$(cat "$directory/new.txt")" earlier
            same "$(cat "$directory/new 2.txt")" later
          done
          same "$(listing "$A")" "$(listing "$B")"
          """)
      }
    }

    @Test func twoNewFilesOfOneNameWhenTheLaterIsUploadedFirst() async throws {
      try await withTwoOffline { account in
        try await account.script(
          """
          echo earlier > "$B/new.txt"; sleep 0.02; echo later > "$A/new.txt"
          on a offline off; synced a
          on b offline off; synced b a
          for directory in "$A" "$B"; do
            same "$(cat "$directory/new.txt")" earlier
            same "$(cat "$directory/new 2.txt")" later
          done
          same "$(listing "$A")" "$(listing "$B")"
          """)
      }
    }

    @Test func twoNewDirectoriesOfOneNameBecomeOne() async throws {
      try await withTwoOffline { account in
        try await account.script(
          """
          mkdir -p "$A/d/e"; echo a > "$A/d/e/a"; mkdir -p "$B/d/e"; echo b > "$B/d/e/b"
          \(meet)
          for directory in "$A" "$B"; do
            same "$(cat "$directory/d/e/a" "$directory/d/e/b" | tr '\\n' ' ')" 'a b '
            same "$(ls -A "$directory" | tr '\\n' ' ')" 'd file '
          done
          """)
      }
    }

    @Test func anEditOutlivesADeletion() async throws {
      try await withTwoOffline { account in
        try await account.script(
          """
          echo edited > "$A/file"; rm "$B/file"
          \(meet)
          same "$(cat "$A/file")" edited
          same "$(cat "$B/file")" edited
          """)
      }
      try await withTwoOffline { account in
        try await account.script(
          """
          rm "$A/file"; echo edited > "$B/file"
          \(meet)
          same "$(cat "$A/file")" edited
          same "$(cat "$B/file")" edited
          """)
      }
    }

    @Test func aFileMadeInADirectoryThatWasRemovedIsKept() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          mkdir -p "$A/d/e"; echo old > "$A/d/e/old"
          synced a b
          on a offline on; on b offline on
          echo new > "$A/d/e/new"; rm -r "$B/d"
          \(meet)
          same "$(find "$A" -name new -exec cat {} +)" new
          same "$(listing "$A")" "$(listing "$B")"
          same "$(find "$B" -name new -exec cat {} +)" new
          same "$(find "$B" -name old)" ''
          """)
      }
    }

    @Test func aRenameAndAnEditMerge() async throws {
      try await withTwoOffline { account in
        try await account.script(
          """
          mkdir "$A/d"; mv "$A/file" "$A/d/renamed"; echo edited > "$B/file"
          \(meet)
          for directory in "$A" "$B"; do
            same "$(cat "$directory/d/renamed")" edited
            [ ! -e "$directory/file" ]
            same "$(attribute hasUnresolvedConflicts "$directory/d/renamed")" 0
          done
          """)
      }
    }

    /// Editors and `sed -i` write a new file and rename it over the old one.
    @Test func editsBySavingAnewAreVersionsOfOneFile() async throws {
      try await withTwoOffline { account in
        try await account.script(
          """
          identity=$(attribute itemIdentifier "$A/file")
          for name in .file.swp .file.saving.nosync; do
            echo "$name" > "$A/$name"; mv "$A/$name" "$A/file"
          done
          sed -i 's/saving/save/' "$A/file"
          same "$(attribute itemIdentifier "$A/file")" "$identity"
          sleep 0.02
          echo 'the later one' > "$B/.file.swp"; sync "$B/.file.swp"; mv "$B/.file.swp" "$B/file"
          \(meet)
          for directory in "$A" "$B"; do
            same "$(ls -A "$directory")" file
            same "$(cat "$directory/file")" 'the later one'
            same "$(attribute hasUnresolvedConflicts "$directory/file")" 1
            same "$(attribute itemIdentifier "$directory/file")" "$identity"
          done
          other=$(on b versions list "$B/file" --json | python3 -c '
          for version in __import__("json").load(__import__("sys").stdin)["versions"]:
            if version["isConflict"] and not version["isCurrent"]: print(version["id"])')
          same "$(on b versions cat "$B/file" "$other")" .file.save.nosync
          # Saving once more keeps what waits to be resolved.
          echo again > "$A/.file.swp"; mv "$A/.file.swp" "$A/file"
          synced a b
          same "$(cat "$B/file")" again
          same "$(on b versions cat "$B/file" "$other")" .file.save.nosync
          """)
      }
    }

    @Test func movesIntoEachOtherMakeNoCycle() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          mkdir "$A/x" "$A/y"; echo x > "$A/x/fx"; echo y > "$A/y/fy"
          synced a b
          on a offline on; on b offline on
          mv "$A/x" "$A/y/x"; mv "$B/y" "$B/x/y"
          \(meet)
          same "$(listing "$A")" "$(listing "$B")"
          same "$(find "$A" -type f -exec cat {} + | sort | tr '\\n' ' ')" 'x y '
          same "$(find "$B" -type f -exec cat {} + | sort | tr '\\n' ' ')" 'x y '
          """)
      }
    }

    @Test func equalEditsAreNoConflict() async throws {
      try await withTwoOffline { account in
        try await account.script(
          """
          echo same > "$A/file"; echo same > "$B/file"
          \(meet)
          same "$(attribute hasUnresolvedConflicts "$A/file")" 0
          same "$(attribute hasUnresolvedConflicts "$B/file")" 0
          same "$(cat "$A/file" "$B/file" | tr '\\n' ' ')" 'same same '
          """)
      }
    }

    @Test func swappedNamesFollow() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          echo 1 > "$A/one"; echo 2 > "$A/two"; mkdir "$A/d1" "$A/d2"; echo 3 > "$A/d1/f"
          synced a b
          mv "$A/one" "$A/t"; mv "$A/two" "$A/one"; mv "$A/t" "$A/two"
          mv "$A/d1" "$A/t"; mv "$A/d2" "$A/d1"; mv "$A/t" "$A/d2"
          synced a b
          same "$(cat "$B/one" "$B/two" "$B/d2/f" | tr '\\n' ' ')" '2 1 3 '
          same "$(listing "$A")" "$(listing "$B")"
          """)
      }
    }
  }
}
