import Testing

/// `.nosync` and airplane mode.
extension EndToEnd {
  @Suite struct ExclusionTests {
    @Test func excludedItemsNeverLeave() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          mkdir -p "$A/project/cache.nosync/deep"
          echo secret > "$A/project/cache.nosync/deep/file"
          echo secret > "$A/project/notes.nosync.txt"
          echo shared > "$A/project/shared"
          echo shared > "$A/project/not.nosyncing"
          synced a b
          same "$(ls -A "$B/project" | tr '\\n' ' ')" 'not.nosyncing shared '
          same "$(attribute isExcludedFromSync "$A/project/cache.nosync/deep/file")" 1
          same "$(attribute isExcludedFromSync "$A/project/notes.nosync.txt")" 1
          same "$(attribute isExcludedFromSync "$A/project/shared")" 0
          on a evict "$A/project"
          same "$(cat "$A/project/cache.nosync/deep/file")" secret
          [ "$(stat -c %b "$A/project/cache.nosync/deep/file")" -gt 0 ]
          """)
        // Root, Documents, project and its two files: what the second device folded from the log.
        let items = try await account.status("b").containers.first?.items
        #expect(items == 5)
      }
    }

    @Test func renamingIntoAndOutOfExclusion() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          mkdir "$A/d"; echo text > "$A/d/file"
          synced a b
          same "$(cat "$B/d/file")" text
          mv "$A/d" "$A/d.nosync"
          synced a b
          same "$(ls -A "$B")" ''
          same "$(cat "$A/d.nosync/file")" text
          mv "$A/d.nosync" "$A/back"
          synced a b
          same "$(cat "$B/back/file")" text
          """)
      }
    }

    @Test func aDirectoryRemovedElsewhereIsKeptForExcludedContent() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          mkdir -p "$A/d/x.nosync"; echo private > "$A/d/x.nosync/file"; echo public > "$A/d/public"
          synced a b
          rm -r "$B/d"
          synced b a
          same "$(cat "$A/d/x.nosync/file")" private
          [ ! -e "$A/d/public" ]
          synced a b
          [ ! -e "$B/d" ]
          """)
      }
    }

    @Test func offlineReadsFailAtOnce() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo here > "$A/here"; echo away > "$A/away"
          synced a
          on a evict "$A/away"
          on a offline on
          same "$(cat "$A/here")" here
          refused 'network is down' timeout 5 cat "$A/away"
          same "$(stat -c '%s %b' "$A/away")" '5 1'
          exits 4 on a download "$A/away"
          exits 4 on a sync --wait
          echo written > "$A/while offline"
          on a offline off
          same "$(cat "$A/away")" away
          synced a
          """)
        let offline = try await account.status("a").offline
        #expect(!offline)
      }
    }

    @Test func offlineMakesNoTraffic() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script("synced a; on a offline on")
        let before = try await account.status("a")
        #expect(before.offline)
        try await account.script("for n in $(seq 50); do echo $n > \"$A/$n\"; done; sync \"$A\"")
        let after = try await account.status("a").traffic
        #expect(after.bytesUploaded == before.traffic.bytesUploaded)
        #expect(after.requests.put == before.traffic.requests.put)
        #expect(after.requests.get == before.traffic.requests.get)
        #expect(after.requests.list == before.traffic.requests.list)
      }
    }

    @Test func editsMadeOfflineMeet() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          mkdir -p "$A/d/sub"
          for n in 1 2 3 4 5 6; do echo "base $n" > "$A/d/$n"; done
          synced a b
          cat "$B"/d/* > /dev/null 2>&1 || true
          on a offline on; on b offline on
          echo 'by a' > "$A/d/1"; mv "$A/d/2" "$A/d/sub/two"; rm "$A/d/3"; mkdir "$A/new"; echo a > "$A/new/a"
          echo 'by b' > "$B/d/4"; chmod 600 "$B/d/5"; mkdir "$B/new"; echo b > "$B/new/b"
          echo 'a on six' > "$A/d/6"; sleep 0.02; echo 'b on six' > "$B/d/6"
          on a offline off; on b offline off
          synced a b a
          same "$(listing "$A")" "$(listing "$B")"
          same "$(cat "$B/d/1" "$A/d/4" "$B/d/sub/two" "$B/new/a" "$A/new/b" | tr '\\n' '|')" 'by a|by b|base 2|a|b|'
          [ ! -e "$B/d/3" ]
          same "$(stat -c %a "$A/d/5")" 600
          same "$(cat "$A/d/6")" 'b on six'
          same "$(attribute hasUnresolvedConflicts "$B/d/6")" 1
          """)
        let versions = try await account.json(
          VersionsAnswer.self, "a", "versions list \"$A/d/6\""
        ).versions
        #expect(versions.count == 2)
        let loser = try #require(versions.first { $0.isConflict && !$0.isCurrent })
        try await account.script(
          "same \"$(on b versions cat \"$B/d/6\" \(loser.id))\" 'a on six'")
      }
    }
  }
}
