import Testing

/// The log in the backend kept short, by real daemons.
extension EndToEnd {
  @Suite struct CompactionTests {
    /// Devices that look three times a second whether something is due, and keep nothing old.
    private static let configuration = #"""
      mkdir -p "$XDG_CONFIG_HOME/ubiquityfs"
      cat > "$XDG_CONFIG_HOME/ubiquityfs/config.yaml" <<'END'
      compaction: {minutes: 0.005, segments: 10, keepSegments: 0, keepDays: 0.00001, graceDays: 0}
      END

      """#

    @Test func devicesFollowALogThatIsRemovedBehindThem() async throws {
      try await withAccount { account in
        try await account.script(Self.configuration)
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          #"""
            segments() { find "$CLOUD" -path '*/log/*' -type f | wc -l; }
            oldest() { find "$CLOUD" -path '*/log/*' -type f -printf '%f\n' | sort | head -n 1 | sed 's/^0*//'; }
            is_past() { [ "$(oldest)" -gt "$1" ]; }
            is_short() { [ "$(segments)" -lt 20 ]; }
            # Away for longer than the log will reach, with changes of its own.
            mkdir "$A/kept"; echo old > "$A/kept/both"; synced a b; cat "$B/kept/both"
            on b offline on
            echo of b > "$B/kept/b"; echo changed > "$B/kept/both"; mv "$B/kept" "$B/moved"
            for number in $(seq 40); do echo $number > "$A/file$number"; on a sync --wait --timeout 60; done
            until_true 60 is_past 12
            until_true 60 is_short
            find "$CLOUD" -path '*/snapshots/*' -name index | grep -q .
            on b offline off; synced b a b a
            same "$(cat "$A/moved/b" "$A/moved/both")" "$(printf 'of b\nchanged')"
            same "$(cat "$B"/file* | sort -n | tail -n 1)" 40
            same "$(listing "$A")" "$(listing "$B")"
            on a fsck >&2; on b fsck >&2
          """#, timeout: 300)
        // One that is new reads a snapshot.
        try await account.device("c")
        try await account.script(
          #"""
            synced c
            same "$(listing "$C")" "$(listing "$A")"
            same "$(cat "$C"/file* | sort -n | tail -n 1)" 40
          """#)
      }
    }
  }
}
