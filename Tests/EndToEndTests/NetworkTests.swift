import Testing

/// Networks and backends that come and go, are narrow, or cost money.
extension EndToEnd {
  @Suite struct NetworkTests {
    private static let helpers = """
      # of status: field NAME DEVICE, of the network
      field() { on "$2" status --json | tr -d ' \\n' | sed 's/.*"network"/"network"/' | grep -o "\\"$1\\":[^,}]*" | head -1; }
      is() { [ "$(field "$1" "$2")" = "\\"$1\\":$3" ]; }
      uploaded() { [ "$(attribute isUploaded "$1")" = 1 ]; }
      has() { [ -e "$1" ]; }

      """

    @Test func anUnreachableBackendIsFoundAndLeftByItself() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            echo here > "$A/here"; echo away > "$A/away"
            synced a
            on a evict "$A/away"
            is reachable a true
            mv "$CLOUD" "$CLOUD.gone"
            echo written > "$A/new"
            until_true 30 is reachable a false
            refused 'network is down' timeout 5 cat "$A/away"
            refused 'network is down' timeout 5 cat "$A/away"
            same "$(stat -c '%s %b' "$A/away")" '5 1'
            same "$(cat "$A/here" "$A/new" | tr '\\n' ' ')" 'here written '
            field reason a | grep -q 'nobackenddirectoryisat'
            field since a | grep -Eq '[0-9]{4}-[0-9]{2}-[0-9]{2}T'
            on a status | grep 'not connected since' > /dev/null
            exits 4 on a sync --wait --timeout 10
            exits 4 on a download "$A/away"
            attribute downloadingError "$A/away" | grep -q 'cannot be reached'
            mv "$CLOUD.gone" "$CLOUD"
            until_true 30 uploaded "$A/new"
            is reachable a true
            same "$(cat "$A/away")" away
            same "$(grep -c 'backend cannot be reached' "$ROOT/a/daemon.log")" 1
            same "$(grep -c 'backend can be reached again' "$ROOT/a/daemon.log")" 1
            same "$(on a status --json | tr -d ' \\n' | grep -c '"errors":\\[\\]')" 1
            """)
      }
    }

    @Test func whoAsksByNameFindsABackendThatIsBack() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            echo away > "$A/away"
            synced a
            on a evict "$A/away"
            mv "$CLOUD" "$CLOUD.gone"
            not on a sync --wait --timeout 10
            is reachable a false
            mv "$CLOUD.gone" "$CLOUD"
            on a sync --wait --timeout 30
            is reachable a true
            same "$(cat "$A/away")" away
            """)
      }
    }

    @Test func aBackendThatIsAwayIsHardlyAsked() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            for n in $(seq 20); do echo $n > "$A/$n"; done
            synced a
            on a evict "$A"
            mv "$CLOUD" "$CLOUD.gone"
            not on a sync --wait --timeout 10
            requests() { on a status --json | tr -d ' \\n' | sed 's/.*"traffic"//' | grep -o '"\\(get\\|put\\|list\\|delete\\)":[0-9]*' | cut -d: -f2 | awk '{ n += $1 } END { print n }'; }
            before=$(requests); start=$SECONDS
            for n in $(seq 20); do not cat "$A/$n" 2>/dev/null; echo new > "$A/new $n"; done
            used=$(($(requests) - before)); took=$((SECONDS - start))
            # One a second at most, while it was away.
            [ $used -le $((took + 3)) ] || { echo "$used requests in $took s" >&2; false; }
            mv "$CLOUD.gone" "$CLOUD"
            synced a
            same "$(cat "$A/7" "$A/new 7" | tr '\\n' ' ')" '7 new '
            """)
      }
    }

    @Test func limitsAreSetShownAndKept() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            on a limit | grep 'Upload: no limit; download: no limit' > /dev/null
            on a limit --up 2MB/s --down 64KiB/s
            is uploadLimit a 2000000
            is downloadLimit a 65536
            same "$(on a limit --json | tr -d ' \\n')" '{"downloadLimit":65536,"uploadLimit":2000000}'
            exits 2 on a limit --up fast
            exits 2 on a limit --down 1
            on a limit --up off
            not is uploadLimit a 2000000
            pid=$(on a status --json | tr -d ' \\n' | grep -o '"pid":[0-9]*' | cut -d: -f2)
            kill -TERM $pid
            gone() { ! kill -0 $pid 2>/dev/null; }
            until_true 60 gone
            is downloadLimit a 65536
            on a limit --down off --quiet
            not is downloadLimit a 65536
            """)
      }
    }

    @Test func limitsAreObeyed() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            head -c 6000000 /dev/urandom > file; cp file "$A/file"; echo small > "$A/small"
            synced a
            on a evict "$A/file" "$A/small"
            down() { on a status --json | tr -d ' \\n' | sed 's/.*"traffic"//' | grep -o '"bytesDownloaded":[0-9]*' | cut -d: -f2; }
            up() { on a status --json | tr -d ' \\n' | sed 's/.*"traffic"//' | grep -o '"bytesUploaded":[0-9]*' | cut -d: -f2; }
            rate=300000
            on a limit --down $rate --up $rate
            before=$(down); start=$SECONDS
            on a download --no-wait "$A/file"
            # What somebody waits for comes meanwhile.
            same "$(timeout 60 cat "$A/small")" small
            same "$(attribute downloadingStatus "$A/file")" notDownloaded
            for n in 1 2 3 4 5 6; do
              sleep 0.5
              came=$(($(down) - before)); took=$((SECONDS - start + 1))
              # A second's worth beforehand, and one on credit.
              [ $came -le $((rate * (took + 2))) ] || { echo "$came bytes in $took s" >&2; exit 1; }
            done
            on a limit --down off
            timeout 60 cmp file "$A/file"
            head -c 3000000 /dev/urandom > "$A/up"
            before=$(up); start=$SECONDS
            for n in 1 2 3 4; do
              sleep 0.5
              went=$(($(up) - before)); took=$((SECONDS - start + 1))
              [ $went -le $((rate * (took + 2))) ] || { echo "$went bytes in $took s" >&2; exit 1; }
            done
            on a limit --up off
            synced a
            """)
      }
    }

    @Test func trafficIsCountedByContainer() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          head -c 300000 /dev/urandom > "$A/file"
          synced a
          on a container create iCloud.org.example.other
          """)
        let status = try await account.status("a")
        let container = try #require(
          status.containers.first { $0.id == TestAccount.container }?.traffic)
        #expect(container.bytesUploaded >= 300_000)
        #expect(container.bytesUploaded <= status.traffic.bytesUploaded)
        #expect(container.requests.put >= 2)
        #expect(container.requests.put < status.traffic.requests.put)
        #expect(status.traffic.retries == 0)
      }
    }

    @Test func whileBytesCostMoneyOnlyWhatIsAskedForMoves() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b", mountOptions: "policy=greedy")
        try await account.script(
          Self.helpers + """
            on a metered | grep 'auto' > /dev/null
            on a metered on | grep '^Metered' > /dev/null
            on a status | grep metered > /dev/null
            is isMetered a true
            exits 2 on a metered perhaps
            head -c 100000 /dev/urandom > file; cp file "$A/file"
            # Its name goes, its content does not.
            until_true 30 has "$B/file"
            same "$(attribute isUploaded "$A/file")" 0
            same "$(find "$CLOUD" -path '*/packs/*' -type f | wc -l)" 0
            on b metered on
            on a sync --wait --timeout 30
            same "$(attribute isUploaded "$A/file")" 1
            echo read > "$A/read"
            on a sync --wait --timeout 30
            on b sync --wait --timeout 30
            same "$(attribute downloadingStatus "$B/file")" notDownloaded
            same "$(cat "$B/read")" read
            same "$(attribute downloadingStatus "$B/file")" notDownloaded
            on b metered off
            current() { [ "$(attribute downloadingStatus "$B/file")" = current ]; }
            until_true 30 current
            cmp file "$B/file"
            head -c 100000 /dev/urandom > "$A/later"
            until_true 30 has "$B/later"
            same "$(attribute isUploaded "$A/later")" 0
            on a metered off
            until_true 30 uploaded "$A/later"
            """)
      }
    }
  }
}
