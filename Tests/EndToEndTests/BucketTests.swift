import Foundation
import Testing

extension EndToEnd {
  /// Devices that share a bucket of a real Ceph.
  @Suite(.enabled(if: ProcessInfo.processInfo.environment["UBIQUITYFS_TEST_S3"] != nil))
  struct BucketTests {
    /// `keys COMMAND`: with access keys. `joins NAME`: signs in, and mounts. Each test has a
    /// prefix.
    private static let bucket = #"""
      S3=$UBIQUITYFS_TEST_S3
      URL="s3://ubiquityfs/$(basename "$ROOT" | tr -dc 'A-Za-z0-9-')?endpoint=$S3"
      keys() { AWS_ACCESS_KEY_ID=testkey AWS_SECRET_ACCESS_KEY=testsecret no_proxy='*' "$@"; }
      joins() {
        if [ -e secret ]; then
          keys on "$1" account sign-in --backend "$URL" --device-name "$1" --secret-file secret
        else
          keys on "$1" account sign-in --backend "$URL" --device-name "$1"
          (umask 077; on "$1" account secret > secret)
        fi
        mkdir "$ROOT/mount-$1"; on "$1" mount "$CONTAINER" "$ROOT/mount-$1"
      }

      """#

    private func withBucket(_ script: String) async throws {
      try await withAccount { account in
        account.know("a")
        account.know("b")
        try await account.script(Self.bucket + script, timeout: 240)
      }
    }

    @Test func devicesShareIt() async throws {
      try await withBucket(
        #"""
        joins a; joins b
        mkdir "$A/dir"; echo hello > "$A/dir/file.txt"
        head -c 3000000 /dev/urandom > "$A/large.bin"
        synced a b
        same "$(attribute downloadingStatus "$B/large.bin")" notDownloaded
        cmp "$A/large.bin" "$B/large.bin"; same "$(cat "$B/dir/file.txt")" hello
        # What one does the other is told of, though a bucket tells nobody.
        echo more >> "$B/dir/file.txt"
        until_true 60 grep -q more "$A/dir/file.txt"
        evicts "$A/large.bin"; cmp "$A/large.bin" "$B/large.bin"
        rm -r "$B/dir"; synced b a; not test -e "$A/dir"
        """#)
    }

    /// The daemon of later has no keys in its environment.
    @Test func theKeysOfTheSignInAreKept() async throws {
      try await withBucket(
        #"""
        joins a; echo 1 > "$A/file"; synced a
        same "$(stat -c %a "$ROOT/a/account.json")" 600
        on a unmount "$A_MOUNT"
        kill "$(on a status --json | grep -o '"pid":[0-9]*' | cut -d : -f 2)"
        until_true 30 not test -e "$ROOT/a/control.sock"
        on a mount "$CONTAINER" "$A_MOUNT"
        echo 2 > "$A/file"; synced a
        # Others take their place without signing out.
        AWS_ACCESS_KEY_ID=testkey AWS_SECRET_ACCESS_KEY=wrong no_proxy='*' \
          on a account sign-in --backend "$URL"
        echo 3 > "$A/file"; not on a sync --wait --timeout 3
        keys on a account sign-in --backend "$URL"
        synced a
        """#)
    }

    @Test func whatIsWrongIsSaid() async throws {
      try await withBucket(
        #"""
        says() { # STATUS TEXT COMMAND...
          local status=$1 text=$2 found=0; shift 2
          "$@" > said 2>&1 || found=$?
          same "$found" "$status"; grep -q -- "$text" said || { cat said >&2; return 1; }
        }
        says 6 'no access keys' env -u AWS_PROFILE AWS_EC2_METADATA_DISABLED=true bash -c \
          'ubiquityfs --state "$ROOT/a" account sign-in --backend "$1"' - "$URL" || true
        AWS_ACCESS_KEY_ID=nobody AWS_SECRET_ACCESS_KEY=x says 6 'does not know the access key' \
          on a account sign-in --backend "$URL"
        AWS_ACCESS_KEY_ID=testkey AWS_SECRET_ACCESS_KEY=x says 6 'secret key or the region' \
          on a account sign-in --backend "$URL"
        says 1 'does not exist' keys on a account sign-in --backend "s3://no-such-bucket?endpoint=$S3"
        says 2 'known are' keys on a account sign-in --backend "$URL&nonsense=1"
        says 1 'cannot reach' keys on a account sign-in --backend 's3://ubiquityfs?endpoint=http://127.0.0.1:9'
        # Another account under the prefix.
        joins a
        says 6 '--secret-file' keys on b account sign-in --backend "$URL"
        echo another > wrong; chmod 600 wrong
        says 6 'secret' keys on b account sign-in --backend "$URL" --secret-file wrong
        echo 1 > "$A/file"; synced a
        """#)
    }
  }
}
