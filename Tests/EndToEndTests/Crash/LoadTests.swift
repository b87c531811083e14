import Testing

/// Real programs that trust the file system, all at once, while the engine uploads what they write
/// and another device's changes arrive.
extension EndToEnd {
  @Suite struct LoadTests {
    @Test func programsUnderLoadLoseNothing() async throws {
      try await withAccount { account in
        let bench = try await CrashBench(account)
        try await account.device("a")
        try await account.device("b")
        try await bench.script(
          #"""
          mkdir "$A/wal" "$A/rollback" "$A/git" "$A/saved" "$A/mapped" "$A/others"
          synced a b

          # A database: 20 transactions from two connections, each of which is to be there.
          database() {
            local file=$1/db mode=$2 n
            sqlite3 "$file" "PRAGMA journal_mode=$mode; CREATE TABLE t (n INTEGER PRIMARY KEY, x)" \
              >/dev/null
            for n in $(seq 20); do
              sqlite3 -cmd '.timeout 20000' "$file" "BEGIN IMMEDIATE; INSERT INTO t (x)
                SELECT randomblob(500) FROM generate_series(1, 20); COMMIT"
            done & local first=$!
            for n in $(seq 20); do
              sqlite3 -cmd '.timeout 20000' "$file" 'SELECT COUNT(*) % 20 FROM t' |
                grep -qx 0 || { echo "half a transaction in $mode" >&2; return 1; }
            done
            wait $first
            same "$(sqlite3 "$file" 'PRAGMA integrity_check; SELECT COUNT(*) FROM t' | tr '\n' ' ')" \
              'ok 400 '
          }
          # A repository that is worked in, packed and checked, and cloned.
          repository() {
            cd "$A/git"
            git init -q one; cd one
            for n in $(seq 8); do
              head -c 20000 /dev/urandom | base64 > "file$n"; echo "$n" >> log
              git add -A; git commit -qm "$n"
              same "$(git status --porcelain)" ''
            done
            git gc -q; git fsck --strict >&2
            git clone -q . ../two; git -C ../two fsck --strict >&2
          }
          # As an office program saves: beside the file, synchronised, then in its place.
          saving() {
            local n
            for n in $(seq 25); do
              head -c $((1000 * n)) /dev/zero | tr '\0' "\\$(printf '%o' $((64 + n)))" \
                > "$A/saved/.~lock"
              sync "$A/saved/.~lock"
              mv "$A/saved/.~lock" "$A/saved/document"
              same "$(stat -c %s "$A/saved/document")" $((1000 * n))
            done
          }
          mapping() {
            { echo 'create 1 file'; echo 'cut 1 65536'
              for n in $(seq 0 15); do echo "map 1 $((n * 4096)) 4096 m"; done; echo 'close 1'
            } > "$WORK/map.lines"
            : > "$WORK/map.report"
            driver run "$WORK/map.lines" "$A/mapped" "$WORK/map.report"
            not grep -qv ' 0$' "$WORK/map.report"
          }
          elsewhere() {
            local n
            for n in $(seq 15); do
              echo "$n" > "$B/others/file$((n % 4))"; mkdir "$B/others/dir$n"
              mv "$B/others/dir$n" "$B/others/was$n"
              on b sync >&2
            done
          }
          uploading() { while [ -e "$WORK/busy" ]; do on a sync >&2 || true; sleep 0.05; done; }

          touch busy
          uploading & engine=$!
          jobs=()
          (database "$A/wal" wal) & jobs+=($!)
          (database "$A/rollback" delete) & jobs+=($!)
          (repository) & jobs+=($!)
          (saving) & jobs+=($!)
          (mapping) & jobs+=($!)
          (elsewhere) & jobs+=($!)
          failed=0
          for job in "${jobs[@]}"; do wait "$job" || failed=1; done
          rm busy; wait $engine
          [ $failed = 0 ]

          synced a b a
          listing "$A" > shown.a; listing "$B" > shown.b
          diff shown.a shown.b >&2
          for side in "$A" "$B"; do
            for mode in wal rollback; do
              same "$(sqlite3 "$side/$mode/db" 'PRAGMA integrity_check; SELECT COUNT(*) FROM t' |
                tr '\n' ' ')" 'ok 400 '
            done
            git -C "$side/git/one" fsck --strict >&2
            same "$(git -C "$side/git/two" log --oneline | wc -l)" 8
            same "$(stat -c %s "$side/saved/document")" 25000
            same "$(cat "$side/others/file3")" 15
            same "$(driver show "$side/mapped" | grep -o 'm65536')" m65536
          done
          synced a b
          on a fsck; on b fsck
          """#, timeout: 240)
      }
    }
  }
}
