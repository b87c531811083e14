import Testing

/// Metadata queries. Source: CONTRACT, "Command line"; `docs/queries.md`.
extension EndToEnd {
  @Suite struct QueryTests {
    /// `found DEVICE ARGUMENT...`: what it prints, sorted, without the path of a's mount.
    /// `watch DEVICE ARGUMENT...`: into `$ROOT/lines`, until `unwatch`; `seen LINE` waits for one.
    static let queries = #"""
      found() { local device=$1; shift; on "$device" query "$@" | sed "s|$A_MOUNT/||" | LC_ALL=C sort; }
      watch() {
        : > "$ROOT/lines"
        (UBIQUITYFS_STATE=$ROOT/$1; export UBIQUITYFS_STATE; shift; exec ubiquityfs query --watch "$@") > "$ROOT/lines" &
        watcher=$!
      }
      lines() { sed "s|$A_MOUNT/||" "$ROOT/lines"; }
      has() { lines | grep -Fxq -- "$1"; }
      seen() { until_true 30 has "$1" || { lines >&2; return 1; }; }
      unwatch() { local end; kill "$watcher"; wait "$watcher" && end=0 || end=$?; same "$end" 0; }

      """#

    @Test func whatFitsIsFound() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.queries + #"""
            mkdir -p "$A/sub/deep" "$A_MOUNT/data" "$A/Doc.pages/inner"
            echo 1 > "$A/a.txt"; echo 22 > "$A/sub/b.txt"; echo 333 > "$A/sub/deep/C.TXT"; echo x > "$A/x.md"
            echo d > "$A_MOUNT/data/d.txt"; echo p > "$A/Doc.pages/inner/p.txt"; ln -s a.txt "$A/l.txt"
            ln "$A/x.md" "$A/hard.md"; echo 'it' > "$A/it's.md"
            same "$(found a '*.txt')" "Documents/a.txt
            Documents/l.txt
            Documents/sub/b.txt
            data/d.txt"
            same "$(found a --scope documents "NSMetadataItemFSNameKey == '*.txt' AND kind == file")" "Documents/a.txt
            Documents/sub/b.txt"
            same "$(found a --scope data '*')" "data
            data/d.txt"
            same "$(found a 'name LIKE[c] "*.txt" AND kind == file AND size BETWEEN {3, 5}')" "Documents/sub/b.txt
            Documents/sub/deep/C.TXT"
            same "$(found a '*.md AND NOT "it'"'"'s*"')" "Documents/hard.md
            Documents/x.md"
            same "$(found a 'isPackage == 1')" "Documents/Doc.pages"
            same "$(found a --within "$A/sub" '*')" "Documents/sub/b.txt
            Documents/sub/deep
            Documents/sub/deep/C.TXT"
            same "$(found a 'modified < "2001-01-01"')" ""
            synced a
            same "$(found a --scope documents 'isUploaded == 0 OR downloadingStatus != current')" ""
            setfattr -n user.ubiquity.pin -v 1 "$A/sub"
            same "$(found a 'isPinned == TRUE AND kind == file')" "Documents/sub/b.txt
            Documents/sub/deep/C.TXT"
            until_true 20 evicts "$A/a.txt"
            same "$(found a 'downloadingStatus == notDownloaded')" "Documents/a.txt"
            same "$(found a 'NSMetadataUbiquitousItemPercentDownloadedKey < 100')" "Documents/a.txt"
            """#)
      }
    }

    @Test func linesAreWhatStatusTells() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.queries + #"""
            echo 1 > "$A/grün.txt"; mkdir "$A/d"; synced a
            on a query --json '*' > "$ROOT/lines"; on a status --json "$A/grün.txt" "$A/d" > "$ROOT/status"
            python3 - "$ROOT/lines" "$ROOT/status" <<'END'
            from json import loads; from re import fullmatch; from sys import argv
            lines = sorted(map(loads, open(argv[1])), key=lambda item: item['path'])
            told = sorted(loads(open(argv[2]).read())['items'], key=lambda item: item['path'])
            assert len(lines) == len(told) == 2, lines
            for line, item in zip(lines, told):
                del item['nameCollision']
                item.pop('policy', None)  # of a directory; a query does not tell it
                item.pop('localBytes', None)  # nor this
                assert fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z', line['modified']), line
                assert {key: line[key] for key in item} == item, (line, item)
            assert lines[1]['name'] == 'grün.txt', lines
            END
            """#)
      }
    }

    @Test func whatIsWrongIsSaidAndIsTwo() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.queries + #"""
            exits 2 on a query 'size >'
            refused 'character 7.*expected a value' on a query 'size >'
            { on a query 'size > x' 2>&1 || true; } | tail -n 1 | grep -q '^ *^$'
            refused 'no attribute' on a query 'sise > 1'
            refused 'not a scope' on a query --scope all x
            exits 3 on a query --within /tmp x
            """#)
      }
    }

    @Test func whatHappensHereIsSeen() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.queries + #"""
            mkdir "$A/d"; echo 1 > "$A/old.txt"; echo 1 > "$A/d/in.txt"; synced a
            watch a --scope documents '*.txt'
            seen '+ Documents/old.txt'; seen '+ Documents/d/in.txt'
            echo 1 > "$A/new.txt"; seen '+ Documents/new.txt'
            echo 22 >> "$A/old.txt"; seen '~ Documents/old.txt'
            mv "$A/new.txt" "$A/other.txt"; seen '~ Documents/other.txt'
            mv "$A/other.txt" "$A/other.md"; seen '- Documents/other.txt'
            rm "$A/old.txt"; seen '- Documents/old.txt'
            mv "$A/d" "$A/e"; seen '~ Documents/e/in.txt'
            mv "$A/e" "$A_MOUNT/e"; seen '- Documents/e/in.txt'
            mv "$A_MOUNT/e" "$A/f.pages"; echo 1 > "$A/last.txt"; seen '+ Documents/last.txt'
            not has '+ Documents/f.pages/in.txt'
            mv "$A/f.pages" "$A/f"; seen '+ Documents/f/in.txt'
            on a unmount "$A_MOUNT"; seen '- Documents/f/in.txt'; seen '- Documents/last.txt'
            on a mount "$CONTAINER" "$A_MOUNT"; again() { [ "$(lines | grep -Fxc '+ Documents/last.txt')" = 2 ]; }
            until_true 30 again
            unwatch
            """#)
      }
    }

    @Test func transfersAndOtherDevicesAreSeen() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.queries + #"""
            head -c 6000000 /dev/urandom > "$A/big"; on a offline on; echo 1 > "$A/mine.txt"
            watch a 'isUploaded == 0 AND kind == file'
            seen '+ Documents/mine.txt'; on a offline off; seen '- Documents/mine.txt'; unwatch
            synced a b
            watch a 'downloadingStatus == notDownloaded'
            until_true 20 evicts "$A/big"; seen '+ Documents/big'
            echo 1 > "$B/theirs.txt"; synced b; seen '+ Documents/theirs.txt'
            on a download "$A/big"; seen '- Documents/big'; unwatch
            watch a --json '*.txt'
            # What happens before it has looked is no change to it.
            until_true 20 grep -q theirs.txt "$ROOT/lines"; until_true 20 grep -q mine.txt "$ROOT/lines"
            echo 222 > "$B/theirs.txt"; sleep 0.04; mv "$B/theirs.txt" "$B/moved.txt"; rm "$B/mine.txt"; synced b a
            told() { until_true 20 grep -q "$1" "$ROOT/lines" || { cat "$ROOT/lines" >&2; return 1; }; }
            told '"change":"changed".*moved.txt'; told '"change":"removed".*mine.txt'
            unwatch
            # A conflict.
            cat "$A/moved.txt" >&2
            watch a 'hasUnresolvedConflicts == 1'
            on b offline on; echo b > "$B/moved.txt"; echo a > "$A/moved.txt"; synced a; on b offline off; synced b a
            seen '+ Documents/moved.txt'; unwatch
            """#)
      }
    }

    /// What happens while it gathers and faster than it tells comes to the right end.
    @Test func nothingIsMissed() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.queries + #"""
            python3 -c "
            from os import mkdir
            for d in range(20):
                mkdir('$A/d%d.nosync' % d)
                for n in range(200): open('$A/d%d.nosync/%d.txt' % (d, n), 'w').close()"
            watch a --json '*.txt'
            kill -STOP $watcher
            python3 -c "
            from os import remove, rename
            for d in range(20):
                p = '$A/d%d.nosync/' % d
                for n in range(0, 200, 2): rename(p + '%d.txt' % n, p + 'r%d.txt' % n)
                for n in range(1, 200, 4): remove(p + '%d.txt' % n)
                for n in range(300): open(p + 'n%d.txt' % n, 'w').close()
                if d % 3 == 0: rename(p, '$A/e%d.nosync' % d)"
            kill -CONT $watcher
            cat > "$ROOT/check.py" <<'END'
            from json import loads; from os import walk; from sys import argv, exit
            there = {f'{d}/{f}' for d, _, fs in walk(argv[1]) for f in fs}
            places = {}
            for line in open(argv[2]):
                if not line.endswith('\n'): exit(1)
                event = loads(line)
                if event['change'] == 'removed':
                    places = {item: path for item, path in places.items() if path != event['path']}
                else: places[event['itemIdentifier']] = event['path']
            exit(set(places.values()) != there)
            END
            until_true 60 python3 "$ROOT/check.py" "$A" "$ROOT/lines"
            unwatch
            """#, timeout: 240)
      }
    }

    @Test func itEndsWithTheDaemon() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.queries + #"""
            echo 1 > "$A/a.txt"; watch a '*.txt'; seen '+ Documents/a.txt'
            on a unmount "$A_MOUNT"; seen '- Documents/a.txt'
            kill "$(on a status --json | grep -o '"pid":[0-9]*' | cut -d : -f 2)"
            wait $watcher && status=0 || status=$?
            same $status 1
            """#)
      }
    }

    // MARK: Programs on UbiquityKit

    /// `program NAME`: a scenario of `KitScenarios` into `$ROOT/lines`, until `finish`.
    static let programs =
      queries + #"""
        program() {
          : > "$ROOT/lines"; rm -f "$ROOT/end"
          UBIQUITYFS_STATE=$ROOT/a KitScenarios "$1" "$ROOT/end" > "$ROOT/lines" 2> "$ROOT/said" &
          scenario=$!
        }
        finish() {
          touch "$ROOT/end"; wait "$scenario" || { cat "$ROOT/said" >&2; return 1; }
        }

        """#

    @Test func aProgramHearsOfDocuments() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.programs + #"""
            echo 1 > "$A/a.txt"; echo 1 > "$A/b.txt"; echo 1 > "$A/c.md"; echo 1 > "$A_MOUNT/d.txt"; synced a b
            program query-notes
            seen 'started 0 '; seen 'finished 2 a.txt b.txt'
            echo 1 > "$B/theirs.txt"; synced b; seen '+ theirs.txt'
            # One update may tell of the other, whose attributes change when it is there, as well.
            changed() { lines | grep -Eq "^~ (.* )?$1( |\$)"; }
            mv "$B/a.txt" "$B/z.txt"; synced b; until_true 30 changed z.txt
            rm "$A/b.txt"; seen '- b.txt'
            finish; not has 'not on the main queue'
            """#)
      }
    }

    @Test func aListShowsWhatIsNotHere() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.programs + #"""
            echo 1 > "$A/b"; echo 1 > "$A/a"; synced a
            program query-list
            seen 'shown a b'
            echo 1 > "$B/aa"; synced b; seen 'shown a aa(cloud) b'
            cat "$A/aa" >&2; seen 'shown a aa b'
            until_true 20 evicts "$A/b"; seen 'shown a aa b(cloud)'
            finish
            """#)
      }
    }

    @Test func aProgramOutlivesTheDaemon() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.programs + #"""
            echo 1 > "$A/a.txt"; echo 1 > "$A/b.txt"; synced a
            program query-stream
            gathered() { has 'gathered + a.txt new' || has 'gathering + a.txt new'; }
            until_true 30 gathered; seen 'count 2'
            on a unmount "$A_MOUNT"; seen 'count 0'
            kill "$(on a status --json | grep -o '"pid":[0-9]*' | cut -d : -f 2)"
            on a mount "$CONTAINER" "$A_MOUNT"
            seen 'update + a.txt new'; until_true 20 eval '[ "$(lines | tail -n 1)" = "count 2" ]'
            mv "$A/a.txt" "$A/c.txt"; seen 'update ~ c.txt known'
            finish
            """#)
      }
    }

    @Test func attributesAreOfAppleTypes() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir "$A/d"; printf 123456 > "$A/d/a b.txt"; synced a
          UBIQUITYFS_STATE=$ROOT/a KitScenarios query-values "$A/d"
          """)
      }
    }

    @Test func resultsStayWhileUpdatesAreDisabled() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo 1 > "$A/before.txt"; UBIQUITYFS_STATE=$ROOT/a KitScenarios query-paused "$A"
          """)
      }
    }
  }
}
