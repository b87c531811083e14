import Foundation
import Testing

/// An account moves to another backend.
extension EndToEnd {
  @Suite struct MoveTests {
    private static let prelude = #"""
      uses() { on "$1" account status --json | grep -F "\"backend\":\"$2\"" > /dev/null; }

      """#

    @Test(
      "all devices switch to the new backend and keep local files", arguments: ["on", "off"])
    func directory(keeper: String) async throws {
      try await withAccount { account in
        try await account.script("echo 'export UBIQUITYFS_KEEPER=\(keeper)' > keeper")
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude
            + #"""
            . ./keeper
            for name in a b; do
              on $name unmount "$ROOT/mount-$name"; kill $(cat "$ROOT/$name/daemon.lock")
            done
            on a mount "$CONTAINER" "$A_MOUNT"; on b mount "$CONTAINER" "$B_MOUNT"
            echo one > "$A/one"; head -c 3000000 /dev/urandom > "$A/large"
            mkdir "$A/kept.nosync"; echo mine > "$A/kept.nosync/file"
            synced a b
            same "$(cat "$B/one")" one
            on b evict "$B/large"
            [ $UBIQUITYFS_KEEPER = off ] || exec 7>> "$A/open"
            on a account move-backend "file://$ROOT/moved" > told
            grep -F "The account is at file://$ROOT/moved now" told > /dev/null
            uses a "file://$ROOT/moved"
            until_true 30 uses b "file://$ROOT/moved"
            # Without a keeper the mounts are taken away and made again.
            for mount in "$A_MOUNT" "$B_MOUNT"; do until_true 10 mountpoint -q "$mount"; done
            # Nothing of the former backend is needed any more.
            mv "$CLOUD" "$ROOT/former"
            if [ $UBIQUITYFS_KEEPER = on ]; then
              echo later >&7; exec 7>&-
              synced a b
              same "$(cat "$B/open")" later
            fi
            cmp "$A/large" "$B/large"
            echo two > "$B/two"; synced b a
            same "$(cat "$A/two")" two
            same "$(cat "$A/kept.nosync/file")" mine
            same "$(on a fsck)" "Containers checked: 1. Problems: 0."
            on a store verify > /dev/null
            # The former one is no place to go back to, and none to sign in at.
            mv "$ROOT/former" "$CLOUD"
            refused 'choose an empty place' on a account move-backend "file://$CLOUD"
            refused 'already at' on a account move-backend "file://$ROOT/moved"
            on a account secret > secret
            refused 'moves from this backend' \
              on c account sign-in --backend "file://$CLOUD" --secret-file secret
            on c account sign-in --backend "file://$ROOT/moved" --secret-file secret --device-name c
            mkdir "$ROOT/mount-c"; on c mount "$CONTAINER" "$ROOT/mount-c"; synced c
            same "$(cat "$ROOT/mount-c/Documents/two")" two
            """#, timeout: 180)
      }
    }

    @Test("a device that cannot use the URL says so, and switches by its own command")
    func otherName() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude
            + #"""
            echo one > "$A/one"; synced a b
            on b offline on
            on a account move-backend "file://$ROOT/only-a/moved"
            until_true 30 uses a "file://$ROOT/only-a/moved"
            echo two > "$A/two"; synced a
            on a unmount "$A_MOUNT"; kill $(cat "$ROOT/a/daemon.lock")
            mv "$ROOT/only-a" "$ROOT/of-b"
            echo three > "$B/three"
            on b offline off
            says() { on b account status | grep 'move-backend' > /dev/null; }
            until_true 30 says
            not on b sync --wait --timeout 5
            same "$(cat "$B/one")" one
            refused 'cannot reach' on b account move-backend "file://$ROOT/third"
            on b account move-backend "file://$ROOT/of-b/moved"
            until_true 30 uses b "file://$ROOT/of-b/moved"
            synced b
            same "$(cat "$B/two" "$B/three" | tr '\n' ' ')" 'two three '
            """#, timeout: 120)
      }
    }
  }
}
