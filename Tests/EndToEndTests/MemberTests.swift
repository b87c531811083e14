import Testing

/// Devices that join by a code, are removed, and come from the first format.
extension EndToEnd {
  @Suite struct MemberTests {
    @Test("a new device joins by a code, and a wrong or mistyped code joins nothing")
    func pairing() async throws {
      try await withAccount { account in
        try await account.device("a")
        account.know("b")
        try await account.script(
          """
          echo hello > "$A/file"; synced a
          mkdir "$ROOT/mount-b"
          join() { on b account sign-in --backend "file://$CLOUD" --device-name b --code "$@"; }
          exits 2 join 0000-0000-0000-0000-1
          refused 'typing error' join 0000-0000-0000-0000-1
          not ls "$CLOUD/pairing"
          exits 3 join 0000-0000-0000-0000-0
          refused 'no device offers' join 0000-0000-0000-0000-0

          on a account pair --yes --json > pair & pair=$!
          until_true 20 test -s pair
          refused '2 tries are left' join 0000-0000-0000-0000-0
          code=$(sed -n 's/.*"code":"\\([^"]*\\)".*/\\1/p' pair)
          join "$code" > joined
          wait $pair
          words=$(sed -n 's/.*"words":\\[\\([^]]*\\)\\].*/\\1/p' pair | tr -d '"' | tr , ' ')
          same "$(echo $words | wc -w)" 4
          grep -F "$words" joined > /dev/null
          grep '"hasJoined":true' pair > /dev/null
          on b mount "$CONTAINER" "$B_MOUNT"; synced b
          same "$(cat "$B/file")" hello
          same "$(on b account secret)" "$(on a account secret)"
          nothing_left() { [ -z "$(find "$CLOUD/pairing" -type f 2> /dev/null)" ]; }
          until_true 10 nothing_left
          not grep -r "$(on a account secret)" "$CLOUD"
          # The code was used.
          on b unmount "$B_MOUNT"; on b account sign-out
          not join "$code"
          """)
      }
    }

    @Test("a refusal on the device that shows the code hands nothing over")
    func refusal() async throws {
      try await withAccount { account in
        try await account.device("a")
        account.know("b")
        try await account.script(
          """
          refused 'no terminal' on a account pair
          # With --json and without --yes nobody is there to say yes.
          on a account pair --json > pair & pair=$!
          until_true 20 test -s pair
          code=$(sed -n 's/.*"code":"\\([^"]*\\)".*/\\1/p' pair)
          exits 6 on b account sign-in --backend "file://$CLOUD" --code "$code"
          wait $pair || true
          same "$(on a account devices --json | grep -o '"name"' | wc -l)" 1
          """)
      }
    }

    @Test("a removed device stops, keeps its files, and changes nothing for the others")
    func removal() async throws {
      try await withAccount { account in
        for name in ["a", "b", "c"] { try await account.device(name) }
        try await account.script(
          """
          echo one > "$A/one"; synced a b c
          on a account secret > former
          same "$(cat "$C/one")" one
          exits 3 on a account devices remove nobody
          exits 2 on a account devices remove a
          on a account devices remove c > removed
          grep 'Removed "c"' removed > /dev/null
          knows() { on "$1" account status --json | grep '"removed":true' > /dev/null; }
          until_true 20 knows c
          on c account status | grep 'removed from the account' > /dev/null
          on c status --json | grep '"removed"' > /dev/null
          grep 'removed from the account' "$ROOT/c/daemon.log" > /dev/null
          # What it has stays, and is its own from here on.
          same "$(cat "$C/one")" one
          echo late > "$C/late"
          exits 6 on c sync --wait --timeout 10
          not on c evict "$C/one"
          echo two > "$A/two"; synced a b
          same "$(cat "$B/two")" two
          not ls "$B/late"
          not ls "$C/two"
          # Nor does the former secret open the account.
          not on d account sign-in --backend "file://$CLOUD" --secret-file former
          same "$(on b account secret)" "$(on a account secret)"
          not same "$(on a account secret)" "$(cat former)"
          on a account secret > present
          on d account sign-in --backend "file://$CLOUD" --secret-file present --device-name d
          mkdir "$ROOT/mount-d"; on d mount "$CONTAINER" "$ROOT/mount-d"; synced d
          same "$(cat "$ROOT/mount-d/Documents/one" "$ROOT/mount-d/Documents/two" | tr '\\n' ' ')" 'one two '
          # It comes back as another device, with all that it kept.
          on c unmount "$C_MOUNT"; on c account sign-out --force
          on c account sign-in --backend "file://$CLOUD" --secret-file present --device-name c
          on c mount "$CONTAINER" "$C_MOUNT"; synced c a
          same "$(cat "$C/two")" two
          same "$(cat "$A/late")" late
          """)
      }
    }

    @Test("a passphrase is changed by a rotation, and the key file beside the backend follows")
    func passphrase() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo one > "$A/one"; synced a
          echo 'correct horse battery' > phrase
          on a account rotate --secret-file phrase
          same "$(on a account secret)" 'correct horse battery'
          same "$(cat "$ROOT/ubiquityfs-cloud.key")" 'correct horse battery'
          exits 2 on a account rotate --secret-file phrase
          """)
        try await account.device("b")
        try await account.script(
          """
          synced b; same "$(cat "$B/one")" one
          echo two > "$B/two"; synced b a; same "$(cat "$A/two")" two
          # Also after a restart, without the backend.
          gone() { ! grep -F " $B_MOUNT " /proc/self/mounts > /dev/null; }
          kill $(cat "$ROOT/b/daemon.lock"); until_true 10 gone
          on b mount "$CONTAINER" "$B_MOUNT"; same "$(cat "$B/two")" two
          """)
      }
    }

    // Its catalog says that root owns the files.
    @Test(
      "a state directory and a backend of the first format go on, and get members",
      .enabled(if: TestAccount.isRoot))
    func upgrade() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          """
          tar -xJf "$SOURCES/Tests/upgrade/format-1.tar.xz" -C "$ROOT"
          sed -i "s|/ROOT|$ROOT|" "$ROOT/a/account.json"
          mkdir "$ROOT/mount-a"; on a mount "$CONTAINER" "$ROOT/mount-a"
          same "$(cat "$A/file")" 'written by the first format'
          same "$(stat -c %s "$A/dir/large")" 300000
          echo new > "$A/new"; synced a
          same "$(head -c 8 "$CLOUD/format" | od -An -c | tr -d ' ')" 'UBQF\\0\\0\\0002'
          """)
        try await account.device("b")
        try await account.script(
          """
          synced b
          same "$(cat "$B/file")" 'written by the first format'
          same "$(cat "$B/new")" new
          same "$(tr -d x < "$B/dir/large" | wc -c)" 0
          on a account devices remove b
          knows() { on "$1" account status --json | grep '"removed":true' > /dev/null; }
          until_true 20 knows b
          echo more > "$A/more"; synced a
          """)
        try await account.device("c")
        try await account.script(
          """
          synced c
          same "$(cat "$C/file" "$C/more" | tr '\\n' ' ')" 'written by the first format more '
          """)
      }
    }
  }
}
