import Testing

/// File times at the ends of ext4's range: 1901-12-13 20:45:52 to 2446-05-10 22:38:55 UTC.
extension EndToEnd {
  @Suite struct FileTimeTests {
    @Test("times from 1901 to 2446 are kept, after a remount and on another device too")
    func longTimesAreKept() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          export TZ=UTC
          set_times() (
            cd "$1"
            mkdir d
            for time in '1901-12-13 20:45:52' '1902-01-01' '1969-12-31 23:59:59.5' \\
              '2038-01-19 03:14:08' '2262-04-11 23:47:16.854775807' \\
              '2262-04-11 23:47:16.854775808' '2400-01-01 12:00:00.123456789' \\
              '2446-05-10 22:38:54.999999999' '2446-05-10 22:38:55'; do
              echo text > "d/$time"; touch -d "$time" "d/$time"
            done
            ln -s x d/link; touch -h -d '2400-01-02' d/link
            touch -d '2400-01-01' d
          )
          told() (cd "$1" && find d | sort | while read -r f; do stat -c '%n|%y|%Y' "$f"; done)
          accessed() (
            cd "$1" && find d -type f | sort | while read -r f; do stat -c '%n|%x' "$f"; done
          )
          set_times "$A"; set_times .
          told . > expected; accessed . > expected.accessed
          grep -q '2400-01-01 12:00:00.123456789' expected
          told "$A" | diff expected -; accessed "$A" | diff expected.accessed -
          # find, ls and rsync see the same order and no difference.
          older() (cd "$1"; find d -type f -newer 'd/2262-04-11 23:47:16.854775807' | sort)
          same "$(older "$A" | wc -l)" 4
          same "$(older "$A")" "$(older .)"
          listed() (cd "$1/d"; ls -t)
          same "$(listed "$A")" "$(listed .)"
          same "$(rsync -ani d/ "$A/d/")" ''
          rsync -a "$A/d/" copied/; same "$(rsync -ani "$A/d/" copied/)" ''
          on a unmount "$A_MOUNT"; on a mount "$CONTAINER" "$A_MOUNT"
          told "$A" | diff expected -; accessed "$A" | diff expected.accessed -
          synced a b
          told "$B" | grep -v '^d|' > actual; grep -v '^d|' expected | diff - actual
          same "$(older "$B")" "$(older .)"
          same "$(rsync -ani --omit-dir-times d/ "$B/d/")" ''
          # Times that the second device sets come back, and a query's predicate takes such times.
          late='d/2400-01-01 12:00:00.123456789'
          touch -d '1902-02-03' "$B/$late"; touch -d '2446-05-10' "$B/d/1902-01-01"
          synced b a
          same "$(stat -c %y "$A/$late")" '1902-02-03 00:00:00.000000000 +0000'
          same "$(stat -c %y "$A/d/1902-01-01")" '2446-05-10 00:00:00.000000000 +0000'
          same "$(on a query 'modified > "2446-05-09"' | grep -c 1902-01-01)" 1
          """)
      }
    }

    @Test("times beyond 1901 and 2446 become the nearest ones, as on ext4")
    func timesAreClamped() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          export TZ=UTC
          for time in '1901-12-13 20:45:51' '1901-12-13 20:45:52.5' '1800-01-01' \\
            '2446-05-10 22:38:55.5' '2446-05-10 22:38:56' '2500-01-01' '9999-12-31'; do
            echo text > "$A/$time"; touch -d "$time" "$A/$time"
          done
          first='1901-12-13 20:45:52.000000000 +0000'; last='2446-05-10 22:38:55.000000000 +0000'
          check() (
            cd "$1"
            for f in '1901-12-13 20:45:51' '1901-12-13 20:45:52.5' 1800-01-01; do
              same "$(stat -c %y "$f")" "$first"
            done
            for f in '2446-05-10 22:38:55.5' '2446-05-10 22:38:56' 2500-01-01 9999-12-31; do
              same "$(stat -c %y "$f")" "$last"
              same "$(stat -c %x "$f")" "$last"
            done
          )
          check "$A"
          on a unmount "$A_MOUNT"; on a mount "$CONTAINER" "$A_MOUNT"; check "$A"
          synced a b
          same "$(stat -c %y "$B/1800-01-01")" "$first"
          same "$(stat -c %y "$B/2500-01-01")" "$last"
          """)
      }
    }
  }
}
