import Testing

/// What an open program and a watching one see of a change that comes from elsewhere.
extension EndToEnd {
  @Suite struct LiveChangeTests {
    @Test func syncWaitIsExact() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          for n in $(seq 15); do
            echo "round $n" > "$A/file"
            mkdir "$A/d$n"; head -c $((n * 50000)) /dev/urandom > "$A/d$n/data"
            [ $n -lt 3 ] || rm -r "$A/d$((n - 2))"
            synced a
            same "$(attribute isUploaded "$A/file")" 1
            synced b
            same "$(cat "$B/file")" "round $n"
            same "$(listing "$A")" "$(listing "$B")"
            cmp "$A/d$n/data" "$B/d$n/data"
          done
          """, timeout: 240)
        for device in ["a", "b"] {
          let container = try #require(try await account.status(device).containers.first)
          #expect(container.pendingUploads == 0)
          #expect(container.errors.isEmpty)
        }
      }
    }

    @Test func changesArriveByThemselves() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          ls "$B"
          echo hello > "$A/news"
          there() { [ "$(cat "$B/news" 2>/dev/null)" = hello ]; }
          until_true 60 there
          rm "$A/news"
          gone() { [ ! -e "$B/news" ]; }
          until_true 60 gone
          """)
      }
    }

    @Test func anOpenFileKeepsItsContent() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          head -c 2000000 /dev/urandom > old; head -c 2500000 /dev/urandom > new
          cp old "$A/file"; cp old "$A/doomed"
          synced a b
          cat "$B/file" "$B/doomed" > /dev/null
          exec 3< "$B/file" 4< "$B/doomed"
          head -c 10 <&3 > head
          cp new "$A/file"; rm "$A/doomed"
          synced a b
          cat <&3 >> head
          cmp head old
          cmp old - <&4
          cmp new "$B/file"
          [ ! -e "$B/doomed" ]
          [ "$(stat -c %i "$B/file")" != "$(stat -L -c %i /proc/$$/fd/3)" ]
          exec 3<&- 4<&-
          """)
      }
    }

    @Test func aPlaceholderOpenWhileItsContentChangesReadsOneVersion() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          head -c 20000000 /dev/urandom > old; head -c 20000000 /dev/urandom > new
          cp old "$A/file"
          synced a b
          exec 3< "$B/file"
          head -c 100 <&3 > head
          cp new "$A/file"
          synced a b
          cat <&3 >> head
          cmp head old
          cmp new "$B/file"
          """)
      }
    }

    @Test func theKernelForgetsWhatChanged() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          mkdir "$A/d"; echo 1 > "$A/d/file"; ln -s one "$A/d/link"
          synced a b
          for n in 2 3 4; do
            ls -l "$B/d" > /dev/null; cat "$B/d/file" > /dev/null; readlink "$B/d/link" > /dev/null
            [ ! -e "$B/d/new$n" ]
            echo "$n" > "$A/d/file"; touch "$A/d/new$n"; ln -sf "to$n" "$A/d/link"; chmod 6$n$n "$A/d/file"
            rm -f "$A/d/new$((n - 1))"
            synced a b
            same "$(cat "$B/d/file")" $n
            same "$(readlink "$B/d/link")" to$n
            same "$(stat -c %a "$B/d/file")" 6$n$n
            [ -e "$B/d/new$n" ]
            same "$(listing "$A/d")" "$(listing "$B/d")"
          done
          """)
      }
    }

    @Test func aWriterHoldsBackARemoteChange() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          echo base > "$A/file"
          synced a b
          cat "$B/file"
          exec 3>> "$B/file"
          echo 'first half' >&3
          on a offline on
          echo 'from a' > "$A/file"
          on a offline off
          synced a
          echo 'second half' >&3
          exec 3>&-
          synced b a b
          same "$(listing "$A")" "$(listing "$B")"
          { cat "$B/file"; on b versions list "$B/file"; } >&2
          """)
        let versions = try await account.json(
          VersionsAnswer.self, "b", "versions list \"$B/file\""
        ).versions
        #expect(versions.count == 2)
        var contents: [String] = []
        for version in versions {
          contents.append(
            try await account.script("on b versions cat \"$B/file\" \(version.id)"))
        }
        #expect(contents.sorted() == ["base\nfirst half\nsecond half\n", "from a\n"])
      }
    }
  }
}
