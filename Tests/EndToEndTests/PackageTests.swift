import Testing

/// Directories that are one document, on real mounts.
extension EndToEnd {
  @Suite struct PackageTests {
    /// `Tests/packages` has what edits a package of 200 files, in which every file says the number
    /// of the edit, and what samples it all the while.
    private static let tools = #"""
      uploaded() { on "$1" status --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["traffic"]["bytesUploaded"])'; }
      downloaded() { on "$1" status --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["traffic"]["bytesDownloaded"])'; }
      shows() { grep -q "edit 00000*$2 " "$1/file001" 2>/dev/null; }

      """#

    @Test func aPackageIsNeverSeenMixed() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b", mountOptions: "policy=greedy")
        let output = try await account.script(
          Self.tools + #"""
            mkdir -p "$A/p.pages/media"; python3 "$SOURCES/Tests/packages/edit.py" "$A/p.pages" 0 0
            synced a b
            python3 "$SOURCES/Tests/packages/sample.py" "$B/p.pages" stop > samples 2>&1 & sampler=$!
            before=$(uploaded a); start=$(downloaded b)
            for number in 1 2 3; do
              # Longer than the pause that lets other changes go, with pauses in it.
              python3 "$SOURCES/Tests/packages/edit.py" "$A/p.pages" $number 0.5
              until_true 60 shows "$B/p.pages" $number
            done
            up=$(($(uploaded a) - before)); down=$(($(downloaded b) - start))
            # Nothing tells that a mixture does not happen.
            sleep 1; touch stop; wait $sampler || { cat samples >&2; exit 1; }
            # And back, so that the package is edited on two devices.
            python3 "$SOURCES/Tests/packages/sample.py" "$A/p.pages" stop-a > samples-a 2>&1 & other=$!
            for number in 4 5; do
              python3 "$SOURCES/Tests/packages/edit.py" "$B/p.pages" $number 0.2
              until_true 60 shows "$A/p.pages" $number
            done
            # Nothing tells that a mixture does not happen.
            sleep 1; touch stop-a
            wait $other || { cat samples-a >&2; exit 1; }
            tail -n 1 samples samples-a
            echo "3 edits of 180 files of 2 KB: $up bytes sent, $down bytes received"
            # One file of 200.
            before=$(uploaded a); start=$(downloaded b)
            head -c 100000 /dev/urandom > "$A/p.pages/file009"; synced a b
            cmp "$A/p.pages/file009" "$B/p.pages/file009"
            up=$(($(uploaded a) - before)); down=$(($(downloaded b) - start))
            echo "100,000 random bytes in one file: $up bytes sent, $down bytes received"
            [ $up -lt 160000 ]; [ $down -lt 160000 ]
            """#, timeout: 300)
        print(output)
      }
    }

    @Test func aPackageIsNeverSeenMixedWhenDaemonsAreKilled() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b", mountOptions: "policy=greedy")
        let output = try await account.script(
          Self.tools + #"""
            touch killed
            pid() { on "$1" status --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["daemon"]["pid"])'; }
            again() {
              local device=$1 mount=$2
              on "$device" unmount "$mount" 2>/dev/null || umount -l "$mount" 2>/dev/null || true
              on "$device" mount "$CONTAINER" "$mount" ${3:-}
            }
            mkdir -p "$A/p.pages/media"; python3 "$SOURCES/Tests/packages/edit.py" "$A/p.pages" 0 0
            synced a b
            python3 "$SOURCES/Tests/packages/sample.py" "$B/p.pages" stop > samples 2>&1 & sampler=$!
            for number in 1 2 3 4 5 6; do
              python3 "$SOURCES/Tests/packages/edit.py" "$A/p.pages" $number 0
              # Some time between the close of the last file and the last thing that is applied.
              sleep "$(python3 -c "print(1.6 + 0.25 * $number)")"
              if [ $((number % 2)) = 0 ]; then
                kill -9 "$(pid a)"; again a "$A_MOUNT"
              else
                kill -9 "$(pid b)"; again b "$B_MOUNT" "-o policy=greedy"
              fi
              until_true 60 shows "$B/p.pages" $number
            done
            # Nothing tells that a mixture does not happen.
            sleep 1; touch stop
            wait $sampler || { cat samples >&2; exit 1; }
            tail -n 1 samples
            synced a b
            diff -r "$A/p.pages" "$B/p.pages"
            same "$(on a versions list "$A/p.pages" | grep -c current)" 1
            not grep conflict <<<"$(on a versions list "$A/p.pages")"
            on a fsck; on b fsck
            """#, timeout: 400)
        print(output)
      }
    }

    @Test func editsMadeApartAreAConflictOfTheWholePackage() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b", mountOptions: "policy=greedy")
        try await account.script(
          Self.tools + #"""
            mkdir -p "$A/p.pages/media"; python3 "$SOURCES/Tests/packages/edit.py" "$A/p.pages" 0 0
            synced a b
            on a offline on; on b offline on
            echo "by a" > "$A/p.pages/file001"; echo "new by a" > "$A/p.pages/new"
            rm "$A/p.pages/file004"; setfattr -n user.note -v a "$A/p.pages/file002"
            ln -s file001 "$A/p.pages/link"
            cp -a "$A/p.pages" kept
            sleep 0.1
            echo "by b" > "$B/p.pages/file002"; cp -a "$B/p.pages" current
            on a offline off; on b offline off; synced a b a b
            for documents in "$A" "$B"; do
              diff -r "$documents/p.pages" current
              same "$(attribute hasUnresolvedConflicts "$documents/p.pages")" 1
              same "$(attribute hasUnresolvedConflicts "$documents/p.pages/file001")" 0
              same "$(ls "$documents")" p.pages
            done
            loser=$(on b versions list --json "$B/p.pages" |
              python3 -c 'import json,sys; print([v["id"] for v in json.load(sys.stdin)["versions"] if v["isConflict"]][0])')
            # What a tar program finds in the version is what a had.
            mkdir unpacked; on b versions cat "$B/p.pages" $loser | tar -x --xattrs --xattrs-include='user.*' -C unpacked
            diff -r unpacked kept
            same "$(getfattr --only-values -n user.note unpacked/file002)" a
            same "$(cd unpacked && find . -type f -printf '%p %m %T@\n' | sort)" \
              "$(cd kept && find . -type f -printf '%p %m %T@\n' | sort)"
            current=$(on b versions list --json "$B/p.pages" |
              python3 -c 'import json,sys; print([v["id"] for v in json.load(sys.stdin)["versions"] if v["isCurrent"]][0])')
            before=$(uploaded b)
            on b versions resolve "$B/p.pages" --keep $current $loser
            [ $(($(uploaded b) - before)) -lt 65536 ]
            synced a b
            for documents in "$A" "$B"; do
              diff -r "$documents/p.pages" current; diff -r "$documents/p 2.pages" kept
              same "$(attribute hasUnresolvedConflicts "$documents/p.pages")" 0
            done
            on a fsck; on b fsck
            """#, timeout: 300)
      }
    }

    @Test("localBytes of a package is the sum of what is local of its files")
    func localBytesOfAPackage() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          #"""
          mkdir -p "$A/p.pages/media"
          head -c 3000000 /dev/urandom > "$A/p.pages/media/film"
          head -c 500000 /dev/urandom > "$A/p.pages/text"
          : > "$A/p.pages/empty"
          synced a b
          same "$(attribute localBytes "$A/p.pages")" 3500000
          same "$(attribute localBytes "$B/p.pages")" 0
          head -c 4096 "$B/p.pages/media/film" > /dev/null
          is_quiet() { [ "$(attribute isDownloading "$B/p.pages/media/film")" = 0 ]; }
          until_true 20 is_quiet
          part=$(attribute localBytes "$B/p.pages/media/film")
          [ "$part" -ge 4096 ]; [ "$part" -lt 3000000 ]
          same "$(attribute localBytes "$B/p.pages")" "$part"
          cat "$B/p.pages/text" > /dev/null
          both=$((part + 500000))
          same "$(attribute localBytes "$B/p.pages")" $both
          attribute status "$B/p.pages" | grep "\"localBytes\":$both[,}]" > /dev/null
          on b status --json "$B/p.pages" | tr -d ' \n' | grep "\"localBytes\":$both[,}]" > /dev/null
          on b download "$B/p.pages"
          same "$(attribute localBytes "$B/p.pages")" 3500000
          until_true 20 evicts "$B/p.pages"
          same "$(attribute localBytes "$B/p.pages")" 0
          # A directory that is no package has none.
          refused 'no such attribute' attribute localBytes "$B/p.pages/media"
          """#)
      }
    }

    @Test("evicting a package frees what is local of a file that was downloaded in part")
    func evictingAPartlyLocalPackage() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          #"""
          mkdir "$A/p.pages"
          head -c 3000000 /dev/urandom > "$A/p.pages/film"
          echo text > "$A/p.pages/text"
          synced a b
          head -c 4096 "$B/p.pages/film" > /dev/null; cat "$B/p.pages/text" > /dev/null
          [ "$(attribute localBytes "$B/p.pages/film")" -ge 4096 ]
          until_true 20 evicts "$B/p.pages"
          same "$(attribute localBytes "$B/p.pages/text")" 0
          same "$(attribute localBytes "$B/p.pages/film")" 0
          same "$(stat -c %b "$B/p.pages/film")" 1
          cmp "$A/p.pages/film" "$B/p.pages/film"
          """#)
      }
    }
  }
}
