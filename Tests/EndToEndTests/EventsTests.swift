import Testing

/// Changes as they happen, as `ubiquityfs events` tells them. Source: CONTRACT, "Command line".
extension EndToEnd {
  @Suite struct EventsTests {
    /// `listening DEVICE ARGUMENT...`: events go into `$ROOT/events` from when it returns until
    /// `ended`; `told` gives them without the time and the path of a's documents.
    private static let listening = #"""
      listen() { # DEVICE ARGUMENT...
        : > "$ROOT/events"
        (UBIQUITYFS_STATE=$ROOT/$1; export UBIQUITYFS_STATE; shift; exec ubiquityfs events "$@") > "$ROOT/events" &
        listener=$!
      }
      heard() { touch "$1"; grep -q probe "$ROOT/events"; }
      listening() {
        listen "$@"
        until_true 20 heard "$A/probe.nosync"
        rm "$A/probe.nosync"; until_true 20 grep -q 'removed.*probe' "$ROOT/events"
      }
      # ended [narrow]: `narrow` if the listener does not hear of a probe in the documents
      ended() {
        local end probe="$A/probe-$RANDOM.nosync"
        # The event of a probe comes after all events of what was done before it.
        if [ "${1:-}" != narrow ]; then
          touch "$probe"; until_true 20 grep -qF "$probe" "$ROOT/events"
        fi
        # Nothing tells that more events do not happen.
        sleep 0.5
        kill "$listener"; wait "$listener" && end=0 || end=$?
        same "$end" 0
      }
      told() {
        sed "/probe/d; s/^[^ ]* //; s|$A/||g" "$ROOT/events"
      }

      """#

    @Test func whatIsDoneHereIsTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.listening + #"""
            listening a
            # A change is told when the kernel says that the file is closed, which is some time after close(2).
            mkdir "$A/d"; echo 1 > "$A/d/f"; until_true 10 grep -q 'changed.*/d/f' "$ROOT/events"
            mv "$A/d/f" "$A/g"; chmod 600 "$A/g"; setfattr -n user.x -v 1 "$A/g"
            echo 2 >> "$A/g"; until_true 10 grep -q 'changed.*/g' "$ROOT/events"
            ln -s g "$A/l"; ln "$A/g" "$A/h"; rm "$A/h"
            rmdir "$A/d"
            ended; same "$(told)" "created d
            created d/f
            changed d/f
            moved g from d/f
            attributes g
            attributes g
            changed g
            created l
            created h
            removed h
            removed d"
            synced a; listening a
            evicts "$A/g"; until_true 10 grep -q evicted "$ROOT/events"
            cat "$A/g" >&2; until_true 10 grep -q downloaded "$ROOT/events"
            ended; same "$(told)" "evicted g
            downloaded g"
            """#)
      }
    }

    @Test func whatAnotherDeviceDidIsTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.listening + #"""
            mkdir "$B/old"; echo 1 > "$B/old/f"; echo 1 > "$B/old/g"; echo 1 > "$B/top"; synced b a
            listening a
            mkdir "$B/new"; mv "$B/old/f" "$B/new/f"; rm -r "$B/old"; chmod 640 "$B/top"; synced b a
            ended; same "$(told | sort)" "attributes top remote b
            created new remote b
            moved new/f from old/f remote b
            removed old remote b
            removed old/g remote b"
            # One that is open here is one that changed.
            cat "$A/new/f" >&2
            listening a
            exec 5< "$A/new/f"
            echo 22 > "$B/new/f"; synced b a
            exec 5<&-
            ended; same "$(told)" 'changed new/f remote b'
            """#)
      }
    }

    @Test func versionsAreTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.listening + #"""
            echo base > "$A/f"; synced a b; cat "$B/f" >&2
            listening a
            on b offline on; echo b > "$B/f"; echo a > "$A/f"; synced a; sleep 0.1; on b offline off; synced b a
            until_true 20 grep -q versionGained "$ROOT/events"
            current=$(on b versions list "$B/f" --json | grep -o '"id":"[^"]*"' | head -n 1 | cut -d '"' -f 4)
            on b versions resolve "$B/f" --keep "$current"; synced b a
            until_true 20 grep -q versionsResolved "$ROOT/events"
            ended; told > "$ROOT/lines"
            same "$(grep version "$ROOT/lines")" "versionGained f remote b
            versionsResolved f remote b"
            """#)
      }
    }

    @Test func linesAreWhatTheContractSays() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.listening + #"""
            listening a --json
            mkdir "$A/d"; mv "$A/d" "$A/e"
            until_true 20 grep -q moved "$ROOT/events"
            # One change: touch(1) makes a file and then sets its times.
            mkdir "$B/f"; synced b a
            until_true 20 grep -q remote "$ROOT/events"
            kill $listener; wait $listener
            python3 - "$ROOT/events" "$A" <<'END'
            from json import loads; from re import fullmatch; from sys import argv
            events = [loads(line) for line in open(argv[1])]
            events = [event for event in events if 'probe' not in event['path']]
            place = argv[2]
            for event in events:
                assert fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z', event.pop('time')), event
            assert events == [
                {'event': 'created', 'origin': 'local', 'path': place + '/d'},
                {'event': 'moved', 'oldPath': place + '/d', 'origin': 'local', 'path': place + '/e'},
                {'device': 'b', 'event': 'created', 'origin': 'remote', 'path': place + '/f'},
            ], events
            END
            """#)
      }
    }

    @Test func aPathLimitsWhatIsTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.listening + #"""
            mkdir "$A/d"
            listen a "$A/d"; until_true 20 heard "$A/d/probe"
            touch "$A/x"; mkdir "$A/dd"; mv "$A/x" "$A/d/y"; mv "$A/d/y" "$A/z"; touch "$A/z"; mv "$A/d" "$A/q"
            until_true 10 grep -qF "moved $A/q from" "$ROOT/events"
            ended narrow; same "$(told)" "moved d/y from x
            moved z from d/y
            moved q from d"
            exits 3 on a events /tmp
            """#)
      }
    }

    /// However many at once: all come, or it is said that some do not.
    @Test func whatIsLostIsToldToBe() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.listening + #"""
            mkdir "$A/many.nosync"
            listening a
            kill -STOP $listener
            python3 - "$A/many.nosync" <<'END'
            from os import mkdir; from sys import argv
            for number in range(15000): mkdir(f'{argv[1]}/{"long" * 40}-{number}')
            END
            kill -CONT $listener
            until_true 60 grep -q overflow "$ROOT/events"
            touch "$A/after"; until_true 20 grep -q 'created .*after' "$ROOT/events"
            same "$(grep -c overflow "$ROOT/events")" 1
            # All before the gap, in order.
            grep -o 'long-[0-9]*' "$ROOT/events" | cut -d - -f 2 > "$ROOT/numbers"
            cmp "$ROOT/numbers" <(seq 0 $(($(wc -l < "$ROOT/numbers") - 1)))
            [ "$(wc -l < "$ROOT/numbers")" -ge 10000 ]
            """#, timeout: 240)
      }
    }

    @Test func itEndsWithTheDaemon() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.listening + #"""
            listening a 2> "$ROOT/said"
            on a unmount "$A_MOUNT"
            kill "$(on a status --json | grep -o '"pid":[0-9]*' | cut -d : -f 2)"
            wait $listener && status=0 || status=$?
            same $status 1
            grep -q 'daemon' "$ROOT/said"
            """#)
      }
    }
  }
}
