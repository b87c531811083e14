import Testing

/// Access keys of a bucket, from the sign-in on. The bucket is one in memory.
extension EndToEnd {
  @Suite struct AccessKeyTests {
    /// `signs_in NAME=VALUE...`: a sign-in in a shell with these variables alone. `kept NAME`: the
    /// value that the account keeps of that variable.
    private static let bucket = #"""
      echo id-1 > keys
      python3 "$SOURCES/Tests/services/bucket.py" keys > url & bucket=$!
      trap 'kill $bucket' EXIT
      until_true 20 test -s url
      URL="s3://bucket/test?endpoint=$(cat url)&region=us-east-1"
      unset ${!AWS_*} http_proxy https_proxy all_proxy no_proxy
      unset HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
      signs_in() { env "$@" ubiquityfs --state "$ROOT/a" account sign-in --backend "$URL"; }
      kept() {
        python3 -c 'import json, sys
      print(json.load(open(sys.argv[1])).get("environment", {}).get(sys.argv[2]))' \
          "$ROOT/a/account.json" "$1"
      }
      begin() {
        signs_in AWS_ACCESS_KEY_ID=id-1 AWS_SECRET_ACCESS_KEY=secret-1
        mkdir "$A_MOUNT"
        on a mount "$CONTAINER" "$A_MOUNT"
        echo text > "$A/file"
        synced a
      }

      """#

    @Test("a sign-in from a shell that has only a proxy set keeps the stored access keys")
    func proxyKeepsKeys() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          Self.bucket + #"""
            begin
            signs_in https_proxy=http://proxy.example:3128
            same "$(kept AWS_ACCESS_KEY_ID) $(kept AWS_SECRET_ACCESS_KEY)" 'id-1 secret-1'
            same "$(kept https_proxy)" http://proxy.example:3128
            echo more > "$A/more"; synced a
            # Half a pair of keys is none.
            signs_in AWS_ACCESS_KEY_ID=other AWS_REGION=us-east-1
            same "$(kept AWS_ACCESS_KEY_ID) $(kept AWS_SECRET_ACCESS_KEY)" 'id-1 secret-1'
            # The next daemon has the keys from the account alone.
            daemon=$(cat "$ROOT/a/daemon.lock")
            kill -TERM $daemon
            stopped() { ! kill -0 $daemon 2>/dev/null; }
            until_true 60 stopped
            on a mount "$CONTAINER" "$A_MOUNT"
            until_true 20 evicts "$A/file"
            same "$(cat "$A/file")" text
            # Other keys take their place, and the proxy stays.
            signs_in AWS_ACCESS_KEY_ID=id-2 AWS_SECRET_ACCESS_KEY=secret-2
            same "$(kept AWS_ACCESS_KEY_ID) $(kept AWS_SECRET_ACCESS_KEY)" 'id-2 secret-2'
            same "$(kept https_proxy)" http://proxy.example:3128
            """#)
      }
    }

    @Test("reading with keys that the bucket refuses fails with EACCES until others are given")
    func refusedKeys() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          Self.bucket + #"""
            begin
            until_true 20 evicts "$A/file"
            echo id-2 > keys
            refused 'permission denied' timeout 60 cat "$A/file"
            attribute downloadingError "$A/file" | grep 'refuses the access keys' > /dev/null
            echo new > "$A/new"
            refused 'does not know the access key' on a sync --wait --timeout 60
            exits 6 on a sync --wait --timeout 60
            exits 1 on a doctor 2> doctor
            grep '^failed *backend .*does not know the access key' doctor > /dev/null
            signs_in AWS_ACCESS_KEY_ID=id-2 AWS_SECRET_ACCESS_KEY=secret-2
            same "$(timeout 60 cat "$A/file")" text
            synced a
            """#)
      }
    }
  }
}
