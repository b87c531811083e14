import Testing

/// A backend with foreign objects, and one that lost some.
extension EndToEnd {
  @Suite struct StoreTests {
    @Test("foreign files in every directory of the backend are ignored, and doctor names them")
    func foreignFiles() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo one > "$A/one"; synced a; echo two > "$A/two"; synced a
          find "$CLOUD" -type d ! -path "$CLOUD/tmp" | while read -r directory; do
            for name in 0z a.tmp desktop.ini .hidden \\
              00000000000000000003.sync-conflict-20260101-000000-ABCDEFG \\
              00000000000000000001.tmp FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF; do
              echo junk > "$directory/$name"
            done
          done
          mkdir "$CLOUD/devices/deep" "$CLOUD/names/deep"
          echo junk > "$CLOUD/devices/deep/junk"; echo junk > "$CLOUD/names/deep/junk"
          echo three > "$A/three"; synced a
          """)
        try await account.device("b")
        try await account.script(
          """
          synced b a
          same "$(cat "$B/one" "$B/two" "$B/three" | tr '\\n' ' ')" 'one two three '
          echo four > "$B/four"; synced b a
          same "$(cat "$A/four")" four
          same "$(on b account devices --json | grep -o '"name"' | wc -l)" 2
          on b container list | grep "$CONTAINER" >/dev/null
          on b doctor > found
          grep 'foreign files' found | grep 'did not write' >/dev/null
          same "$(find "$CLOUD" -name '*.sync-conflict-*' | wc -l)" "$(find "$CLOUD" -name 0z | wc -l)"
          """)
      }
    }

    @Test("doctor names foreign files at the top, and those whose names no object can have")
    func foreignNames() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir "$CLOUD/lost+found" "$CLOUD/.Trash-1000"; echo junk > "$CLOUD/tmp/other"
          on a doctor > found; not grep 'foreign files' found
          names=('format.sync-conflict-20260101' 'devices/~x.tmp' 'names/3 (conflicted copy).x')
          for name in "${names[@]}"; do echo junk > "$CLOUD/$name"; done
          on a doctor > found
          grep 'holds 3 files or directories' found > /dev/null
          for name in "${names[@]}"; do grep -F "$name" found > /dev/null; done
          """)
      }
    }

    @Test("foreign directories that cannot be read stop nothing, and doctor names them")
    func unreadableDirectories() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo one > "$A/one"; synced a
          find "$CLOUD" -type d ! -path "$CLOUD/tmp" > directories
          while read -r directory; do mkdir -m 0 "$directory/zz"; done < directories
          echo two > "$A/two"; synced a
          on a store verify
          """)
        try await account.device("b")
        try await account.script(
          """
          synced b a
          same "$(cat "$B/one" "$B/two" | tr '\\n' ' ')" 'one two '
          on b doctor > found
          grep 'foreign files' found | grep -F '"zz/"' > /dev/null
          """)
      }
    }

    @Test("store recover and store verify put a lost name of a container again")
    func lostName() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo kept > "$A/kept"; synced a
          name=$(ls "$CLOUD/names")
          rm "$CLOUD/names/$name"; on a store recover; [ -e "$CLOUD/names/$name" ]
          rm "$CLOUD/names/$name"; on a store verify; [ -e "$CLOUD/names/$name" ]
          # The log is not what the last look found.
          rm "$CLOUD"/containers/*/log/*1
          on a doctor > found || true
          grep 'went back to an earlier state' found > /dev/null
          """)
      }
    }

    @Test("store verify puts a lost entry of the member log again, and names a damaged one")
    func memberLog() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          echo kept > "$A/kept"; synced a b
          # Devices that have read the first entry do not read it again.
          entry=$(find "$CLOUD/account/members" -type f | sort | head -1)
          cp "$entry" saved; rm "$entry"
          on a store verify > repaired
          grep -q 'Repaired: 1' repaired
          cmp "$entry" saved
          rm "$entry"; echo other > "$entry"
          status=0; on a store verify > damaged || status=$?
          same "$status" 1
          same "$(grep -c '^damaged  account/members/' damaged)" 1
          rm "$entry"; on b store verify; cmp "$entry" saved
          # A new device needs all entries.
          rm "$CLOUD/format"; on b store verify; [ -e "$CLOUD/format" ]
          """)
        try await account.device("c")
        try await account.script("synced c; same \"$(cat \"$C/kept\")\" kept")
      }
    }

    @Test("store verify uploads again what the backend lost, and names what nobody here has")
    func verify() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          for n in 1 2 3; do head -c 100000 /dev/urandom > "$A/file $n"; done
          synced a b
          on a store verify --read-data
          on a store verify --json | tr -d ' \\n' | grep '"damaged":\\[\\],"missing":\\[\\]' >/dev/null
          # A share alone means that its bytes are read.
          on a store verify --sample 10
          on a store verify --read-data --sample 10
          exits 2 on a store verify --sample 0
          exits 2 on a store verify --sample 101
          exits 3 on a store verify iCloud.org.example.none
          find "$CLOUD" -path '*/packs/*' -type f -delete
          # This device has only the names.
          status=0; on b store verify > missing || status=$?
          same "$status" 1
          same "$(grep -c '^missing .*/Documents/file [123]$' missing)" 3
          on b store verify --json > report || true
          grep -q '"missing"' report
          on a store verify > repaired
          grep -q 'Repaired: 3' repaired
          synced a b
          for n in 1 2 3; do cmp "$A/file $n" "$B/file $n"; done
          on b store verify --sample 100
          # One bit of a pack that is there.
          pack=$(find "$CLOUD" -path '*/packs/*' -type f | head -1)
          chmod u+w "$pack"
          byte=$(od -An -tu1 -j 5000 -N 1 "$pack" | tr -d ' ')
          printf "\\\\$(printf %o $((byte ^ 1)))" |
            dd of="$pack" bs=1 seek=5000 conv=notrunc status=none
          on a store verify
          on a store verify --read-data > repaired
          same "$(grep -c 'Repaired: 0' repaired || true)" 0
          on a store verify --read-data
          """)
      }
    }
  }
}
