import Testing

/// Files that programs keep open for writing, on two devices.
extension EndToEnd {
  @Suite struct OpenFilesTests {
    private static let helpers = """
      has() { [ -e "$1" ]; }
      # reads PATH TEXT: once it is uploaded, since what is only announced would be waited for
      reads() { [ "$(attribute isUploaded "$1" 2>/dev/null)" = 1 ] && [ "$(timeout 5 cat "$1")" = "$2" ]; }

      """

    /// Two devices on which a file is quiet after four seconds.
    private func withQuietAccount(_ body: (TestAccount) async throws -> Void) async throws {
      try await withAccount { account in
        try await account.script(
          """
          mkdir -p "$XDG_CONFIG_HOME/ubiquityfs"
          printf 'sync:\\n  snapshotAfter: 4\\n' > "$XDG_CONFIG_HOME/ubiquityfs/config.yaml"
          """)
        try await account.device("a")
        try await account.device("b")
        try await body(account)
      }
    }

    @Test("an open file is elsewhere by name at once, and by content when its program pauses")
    func aLogThatIsAppendedToForHoursArrives() async throws {
      try await withQuietAccount { account in
        try await account.script(
          Self.helpers + """
            synced a b
            exec 7> "$A/log"
            echo one >&7
            until_true 10 has "$B/log"
            on a status | grep 'waits for Documents/log.*bash' > /dev/null
            on a status --json | tr -d ' \\n' > "$ROOT/status"
            grep '"openFiles":\\[{' "$ROOT/status" | grep '"path":"Documents/log"' > /dev/null
            grep '"name":"bash"' "$ROOT/status" | grep '"pid":'$$ > /dev/null
            exits 7 on a sync --wait --timeout 1 2> "$ROOT/late"
            grep 'Documents/log.*open for writing by bash' "$ROOT/late" > /dev/null
            until_true 30 reads "$B/log" one
            echo two >&7
            until_true 30 reads "$B/log" "$(printf 'one\\ntwo')"
            # All that was written is uploaded, so nothing is waited for.
            on a sync --wait --timeout 30
            exec 7>&-
            synced a b
            same "$(cat "$B/log")" "$(printf 'one\\ntwo')"
            """)
      }
    }

    @Test("the files of a database that a program has open stay on the device")
    func aDatabaseInUseIsLeftAlone() async throws {
      try await withQuietAccount { account in
        try await account.script(
          Self.helpers + """
            synced a b
            mkfifo "$ROOT/go"
            python3 - "$A/data.db" "$ROOT/go" <<'END' &
            from sqlite3 import connect
            from sys import argv
            base = connect(argv[1])
            base.execute("pragma journal_mode=wal")
            base.execute("create table t (x)")
            base.execute("insert into t values (1)")
            base.commit()
            open(argv[2]).read()
            base.close()
            END
            program=$!
            until_true 20 has "$A/data.db-shm"
            # Longer than the pause after which another file is uploaded.
            exec 7> "$A/beside"; echo text >&7
            until_true 30 reads "$B/beside" text
            # Nothing tells that the upload of the database does not happen.
            sleep 1
            not has "$B/data.db-wal"
            not has "$B/data.db-shm"
            # Its name may have gone when nothing was locked yet.
            not has "$B/data.db" || same "$(attribute isUploaded "$B/data.db")" 0
            echo > "$ROOT/go"; wait $program; exec 7>&-
            synced a b
            same "$(sqlite3 "$B/data.db" 'select x from t')" 1
            """)
      }
    }
  }
}
