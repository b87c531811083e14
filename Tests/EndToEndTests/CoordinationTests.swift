import Testing

/// Programs and the sync engine take turns. Source: CONTRACT, "Command line"; Apple's documentation
/// of `NSFileCoordinator`.
extension EndToEnd {
  @Suite struct CoordinationTests {
    /// `holding WHAT PATH...`: a claim in the background, held until `release`; returns when it is
    /// held.
    private static let holding = #"""
      holding() {
        rm -f "$ROOT/held" "$ROOT/go"
        on a coordinate "$@" -- sh -c '
          touch "$ROOT/held"; while [ -d "$ROOT" ] && [ ! -e "$ROOT/go" ]; do sleep 0.02; done' &
        holder=$!
        until_true 20 test -e "$ROOT/held"
      }
      release() { touch "$ROOT/go"; wait "$holder"; }

      """#

    @Test func readersShareAndWritersExclude() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.holding + #"""
              # Programs among themselves: the sync takes its turn elsewhere.
              on a offline on
              export ROOT; echo 1 > "$A/file"; mkdir "$A/dir"; echo 2 > "$A/dir/inner"
              holding read "$A/file"
              same "$(on a coordinate read "$A/file" --no-wait -- cat "$A/file")" 1
              exits 5 on a coordinate write "$A/file" --no-wait -- true
              exits 7 on a coordinate write "$A/file" --timeout 0.2 -- true
              on a coordinate write "$A/dir/inner" --no-wait -- true
              release
              holding write "$A/dir"
              exits 5 on a coordinate read "$A/dir/inner" --no-wait -- true
              exits 5 on a coordinate write "$A/dir/new" --no-wait -- true
              exits 5 on a coordinate read "$A" --no-wait -- true
              on a coordinate write "$A/file" "$A/not-there-yet" --no-wait -- true
              release
              on a coordinate write "$A/dir" --no-wait -- true
            """#)
      }
    }

    @Test func theCommandsStatusIsGivenAndWrongUseIsRefused() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          #"""
            echo 1 > "$A/file"
            exits 9 on a coordinate read "$A/file" -- sh -c 'exit 9'
            exits 143 on a coordinate read "$A/file" -- sh -c 'kill -TERM $$'
            exits 127 on a coordinate read "$A/file" -- no-such-program
            exits 3 on a coordinate read "$A/missing" -- true
            exits 3 on a coordinate write "$A/missing/file" -- true
            exits 2 on a coordinate read "$A/file"
            exits 2 on a coordinate write "$A/file" --for eating -- true
            exits 2 on a coordinate -- true
            on a coordinate write "$A/file" --for deleting,moving -- rm "$A/file"
            not test -e "$A/file"
            # What the command is given is what it gets.
            same "$(on a coordinate read "$A" -- printf '%s|' 'a b' '' "$(printf 'x\377')")" "$(printf 'a b||x\377|')"
          """#)
      }
    }

    @Test func oneWithinAnotherHasPartInItsClaim() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          #"""
            echo 1 > "$A/file"
            same "$(on a coordinate write "$A/file" -- ubiquityfs coordinate read "$A/file" --no-wait -- cat "$A/file")" 1
          """#)
      }
    }

    /// Two that each hold what the other wants: the one that would close the circle is told so.
    @Test func aDeadlockIsRefused() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          #"""
            export ROOT A; echo 1 > "$A/one"; echo 2 > "$A/two"
            nested() { # OWN OTHER NAME
              on a coordinate write "$A/$1" -- sh -c '
                touch "$ROOT/has-$1"
                while [ -d "$ROOT" ] && [ ! -e "$ROOT/has-$2" ]; do sleep 0.02; done
                ubiquityfs coordinate write "$A/$2" -- true' sh "$1" "$2" 2> "$ROOT/said-$1"
            }
            export -f on
            nested one two & first=$!
            nested two one & second=$!
            wait $first && one=0 || one=$?
            wait $second && two=0 || two=$?
            statuses="$one $two"
            case "$statuses" in '0 5' | '5 0') ;; *) echo "$statuses" >&2; cat "$ROOT"/said-* >&2; false ;; esac
            grep -q 'waits for' "$ROOT"/said-*
          """#)
      }
    }

    /// An open for writing through the mount is a claim: whoever asks waits for its end.
    @Test func aProgramThatWritesIsWaitedFor() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          #"""
            echo 1 > "$A/file"
            exec 7>> "$A/file"
            exits 5 on a coordinate read "$A/file" --no-wait -- true
            exits 5 on a coordinate write "$A" --no-wait -- true
            on a coordinate read "$A/file" --timeout 20 -- cat "$A/file" > "$ROOT/read" 7>&- & reader=$!
            # Nothing tells when the claim waits. What is read is the same before that.
            sleep 0.3; echo 2 >&7; exec 7>&-
            wait $reader
            same "$(cat "$ROOT/read")" "$(printf '1\n2')"
            # The claimant's own programs are not waited for.
            on a coordinate write "$A/file" -- sh -c 'exec 8>> "$1"
              UBIQUITYFS_CLAIM= ubiquityfs coordinate read "$1.other" --no-wait -- true || [ $? = 3 ]; echo 3 >&8' sh "$A/file"
            same "$(tail -n 1 "$A/file")" 3
          """#)
      }
    }

    /// What a program has claimed is neither changed under it nor sent half done.
    @Test func theSyncTakesItsTurn() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.holding + #"""
              export ROOT; echo 1 > "$A/file"; synced a b; cat "$B/file" > /dev/null
              # A change elsewhere waits for who reads.
              holding read "$A/file"
              echo 2 > "$B/file"; rm -f "$B/other"; echo x > "$B/unclaimed"; synced b
              exits 7 on a sync --wait --timeout 1
              same "$(cat "$A/file")" 1
              same "$(cat "$A/unclaimed")" x
              release
              synced a; same "$(cat "$A/file")" 2
              # What is written under a claim goes when the claim is over.
              holding write "$A/file"
              echo half > "$A/file"
              exits 7 on a sync --wait --timeout 1
              synced b; same "$(cat "$B/file")" 2
              echo whole > "$A/file"
              release
              synced a b; same "$(cat "$B/file")" whole
              # So does a removal.
              holding write "$A/file"
              rm "$B/file"; synced b
              exits 7 on a sync --wait --timeout 1
              same "$(cat "$A/file")" whole
              release
              synced a; not test -e "$A/file"
            """#)
      }
    }

    /// What is renamed while it is claimed has its old name in the log until the claim is over.
    /// Something new of that name is not renamed for it.
    @Test func whatTakesTheNameOfWhatIsClaimedWaitsWithIt() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.holding + #"""
              export ROOT; echo 1 > "$A/file"; mkdir "$A/t.rtfd" "$A/dir"; echo 1 > "$A/t.rtfd/one"
              echo 1 > "$A/dir/one"; synced a b
              for name in file t.rtfd/one dir/one; do
                top=${name%%/*}
                holding write "$A/$name"
                mv "$A/$top" "$A/moved $top"
                case $name in */*) mkdir "$A/$top" ;; esac
                echo new > "$A/$name"
                exits 7 on a sync --wait --timeout 1
                echo late > "$A/unclaimed"
                exits 7 on a sync --wait --timeout 1
                release; synced a b
                same "$(cat "$B/$name")" new
                same "$(cat "$B/moved $name")" 1
              done
              same "$(cat "$B/unclaimed")" late
              same "$(cd "$A"; find . | sort)" "$(cd "$B"; find . | sort)"
              same "$(ls "$B" | grep -c ' 2')" 0
            """#)
      }
    }

    /// All of a package, and of a directory, is claimed with any of it.
    @Test func packagesAndDirectoriesAreClaimedAsWholes() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.holding + #"""
              export ROOT; mkdir "$A/text.rtfd" "$A/dir"; echo 1 > "$A/text.rtfd/one"; echo 1 > "$A/text.rtfd/two"
              echo 1 > "$A/dir/one"; synced a b
              holding write "$A/text.rtfd/one"
              exits 5 on a coordinate read "$A/text.rtfd/two" --no-wait -- true
              echo 2 > "$A/text.rtfd/one"; exits 7 on a sync --wait --timeout 1
              synced b; same "$(cat "$B/text.rtfd/one")" 1
              echo 2 > "$A/text.rtfd/two"; release
              synced a b; same "$(cat "$B/text.rtfd/one" "$B/text.rtfd/two")" "$(printf '2\n2')"
              holding read "$A/dir"
              echo 2 > "$B/dir/one"; echo new > "$B/dir/new"; synced b
              exits 7 on a sync --wait --timeout 1
              same "$(cat "$A/dir/one")" 1; not test -e "$A/dir/new"
              release
              synced a; same "$(cat "$A/dir/one" "$A/dir/new")" "$(printf '2\nnew')"
            """#)
      }
    }

    /// Source: CONTRACT, "Command line" (mount options); `docs/coordination.md`.
    @Test func mandatoryClaimsMakePlainOpensWait() async throws {
      try await withAccount { account in
        try await account.device("a", mountOptions: "coordination=mandatory")
        try await account.script(
          Self.holding + #"""
              export ROOT A; echo 1 > "$A/file"; echo 1 > "$A/free"
              holding write "$A/file"
              cat "$A/free" > /dev/null; stat "$A/file" > /dev/null; cat < /dev/null > "$A/new"
              exits 124 timeout 0.5 cat "$A/file"
              refused 'temporarily unavailable' python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)' "$A/file"
              cat "$A/file" > "$ROOT/read" & reader=$!
              # Nothing tells that the read does not happen.
              sleep 0.5; same "$(stat -c %s "$ROOT/read")" 0
              release; wait $reader; same "$(cat "$ROOT/read")" 1
              # Each for itself: among themselves plain readers and writers are as on any file system.
              holding write "$A/file"
              sh -c 'echo 2 > "$1"' sh "$A/file" & writer=$!
              # Nothing tells that the write does not happen.
              sleep 0.5; same "$(stat -c %s "$A/file")" 2; release; wait $writer
              same "$(cat "$A/file")" 2
              # Who holds the claim, and what it runs, opens as it likes; readers read beside a reader.
              same "$(on a coordinate write "$A/file" -- sh -c 'echo 3 > "$A/file"; cat "$A/file"')" 3
              holding read "$A/file"
              same "$(timeout 5 cat "$A/file")" 3
              exits 124 timeout 0.5 sh -c 'echo 4 >> "$1"' sh "$A/file"
              release
              same "$(cat "$A/file")" 3
              on a sync --wait
            """#)
      }
    }

    @Test func claimsGoAlongWithDirectories() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.holding + #"""
              on a offline on
              export ROOT; mkdir -p "$A/one/two"; echo 1 > "$A/one/two/file"; mkdir "$A/other"
              holding write "$A/one/two/file"
              mv "$A/one" "$A/moved"
              exits 5 on a coordinate read "$A/moved/two/file" --no-wait -- true
              exits 5 on a coordinate read "$A/moved" --no-wait -- true
              mkdir -p "$A/one/two"; echo 2 > "$A/one/two/file"
              # The kernel says that a file is closed some time after close(2) has returned.
              until_true 10 on a coordinate write "$A/one/two/file" --no-wait -- true
              mv "$A/moved/two" "$A/other/three"
              exits 5 on a coordinate read "$A/other/three/file" --no-wait -- true
              on a coordinate write "$A/moved" --no-wait -- true
              release
              on a coordinate write "$A/other" --no-wait -- true
            """#)
      }
    }

    @Test func aClaimEndsWithItsProgram() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.holding + #"""
              export ROOT; echo 1 > "$A/file"
              holding write "$A/file"
              kill -9 "$(pgrep -f "coordinate write $A/file" | head -n 1)"
              on a coordinate write "$A/file" --timeout 10 -- true
              touch "$ROOT/go"
            """#)
      }
    }
  }
}
