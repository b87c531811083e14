import Testing

/// Many programs at one file and one package, on two devices, with the sync between them.
extension EndToEnd {
  @Suite struct HalfWrittenTests {
    /// A writer writes a token in several steps, so that all in between is half done; a reader
    /// looks whether what it sees is of one token. `$1` is the device, `$2` the directory, `$3`
    /// seconds.
    private static let programs = #"""
      cat > "$ROOT/write" <<'END'
      #!/bin/bash
      # PATH TOKEN: one file, or three of a package
      set -e
      if [ -d "$1" ]; then
        for part in one two three; do echo "$2" > "$1/$part"; done
      else
        for step in 1 2 3 4; do
          [ $step = 1 ] && : > "$1"
          for line in 1 2 3 4 5; do echo "$2"; done >> "$1"
        done
      fi
      END
      cat > "$ROOT/read" <<'END'
      #!/bin/bash
      # PATH: fails at what is half written
      if [ -d "$1" ]; then content=$(cat "$1/one" "$1/two" "$1/three") lines=3
      else content=$(cat "$1") lines=20; fi
      [ "$(sort -u <<<"$content" | wc -l)" = 1 ] && [ "$(wc -l <<<"$content")" = $lines ] && exit 0
      { echo "torn: $1"; uniq -c <<<"$content"; } >> "$ROOT/torn"
      exit 9
      END
      cat > "$ROOT/worker" <<'END'
      #!/bin/bash
      # DEVICE read|write PATH NAME SECONDS
      export UBIQUITYFS_STATE="$ROOT/$1"
      end=$((SECONDS + $5)) count=0
      while [ $SECONDS -lt $end ]; do
        if [ "$2" = write ]; then ubiquityfs coordinate write "$3" --timeout 60 -- "$ROOT/write" "$3" "$4-$count"
        else ubiquityfs coordinate read "$3" --timeout 60 -- "$ROOT/read" "$3"; fi ||
          echo "$1 $2 $4: exit $?" >> "$ROOT/failures"
        count=$((count + 1))
      done
      echo "$2 $count" >> "$ROOT/counts"
      END
      chmod +x "$ROOT/write" "$ROOT/read" "$ROOT/worker"; export ROOT
      # A program that knows nothing of claims; it has the file open while it writes.
      plainly() {
        local end=$((SECONDS + $2)) count=0
        while [ $SECONDS -lt $end ]; do
          { for line in $(seq 20); do echo "plain-$count"; done; } > "$1"
          count=$((count + 1)); sleep 0.05
        done
        echo "plain $count" >> "$ROOT/counts"
      }

      """#

    private func nobodySeesAHalf(_ name: String, _ begin: String, plain: String = "") async throws {
      try await withAccount { account in
        try await account.device("a", mountOptions: "coordination=mandatory")
        try await account.device("b")
        let output = try await account.script(
          Self.programs + begin
            + #"""
              synced a b
              for device in a b; do
                declare -n documents=${device^^}
                for number in 1 2; do
                  "$ROOT/worker" $device write "$documents/NAME" "$device$number" 8 &
                  "$ROOT/worker" $device read "$documents/NAME" "$device$number" 8 &
                done
              done
              \#(plain)
              wait
              [ ! -e "$ROOT/torn" ] || { cat "$ROOT/torn" >&2; false; }
              [ ! -e "$ROOT/failures" ] || { cat "$ROOT/failures" >&2; false; }
              synced a b a b
              same "$(listing "$A")" "$(listing "$B")"
              "$ROOT/read" "$A/NAME"; "$ROOT/read" "$B/NAME"
              # What lost is whole as well.
              on a versions list "$A/NAME" --json > "$ROOT/versions"
              versions=0
              for version in $(grep -o '"id":"[0-9a-f]*"' "$ROOT/versions" | cut -d '"' -f 4); do
                on a versions cat "$A/NAME" $version > "$ROOT/version" || continue
                versions=$((versions + 1))
                [ -d "$A/NAME" ] || "$ROOT/read" "$ROOT/version"
              done
              [ ! -e "$ROOT/torn" ] || { cat "$ROOT/torn" >&2; false; }
              on a fsck >&2; on b fsck >&2
              awk '{ n[$1] += $2 } END { for (k in n) printf "%s %d, ", k, n[k] }' "$ROOT/counts"
              echo "versions $versions, 0 torn"
            """#.replacing("NAME", with: name), timeout: 300)
        print("turn-taking figures: \(name): \(output)")
      }
    }

    @Test func nobodySeesAHalfWrittenFile() async throws {
      try await nobodySeesAHalf(
        "file", "\"$ROOT/write\" \"$A/file\" first\n",
        plain: "plainly \"$A/file\" 8 &")
    }

    @Test func nobodySeesAHalfWrittenPackage() async throws {
      try await nobodySeesAHalf(
        "text.rtfd", "mkdir \"$A/text.rtfd\"; \"$ROOT/write\" \"$A/text.rtfd\" first\n")
    }
  }
}
