import Testing

extension EndToEnd {
  /// Devices that share a directory of a server. OpenSSH's own SFTP server speaks over a pipe here;
  /// only the connection of `ssh` is missing.
  @Suite struct ServerTests {
    private static let server = #"""
      export UBIQUITYFS_SFTP_COMMAND=/usr/lib/openssh/sftp-server
      URL="sftp://nas.example.org$ROOT/nas/data"
      joins() {
        if [ -e secret ]; then
          on "$1" account sign-in --backend "$URL" --device-name "$1" --secret-file secret
        else
          on "$1" account sign-in --backend "$URL" --device-name "$1"
          (umask 077; on "$1" account secret > secret)
        fi
        mkdir "$ROOT/mount-$1"; on "$1" mount "$CONTAINER" "$ROOT/mount-$1"
      }
      servers() { pgrep -u "$(id -u)" -f "^$UBIQUITYFS_SFTP_COMMAND" || true; }

      """#

    private func withServer(_ script: String) async throws {
      try await withAccount { account in
        account.know("a")
        account.know("b")
        try await account.script(Self.server + script, timeout: 240)
      }
    }

    @Test("two devices share an SFTP server, evict and download")
    func sharing() async throws {
      try await withServer(
        #"""
        joins a; joins b
        mkdir "$A/dir"; echo hello > "$A/dir/file.txt"
        head -c 3000000 /dev/urandom > "$A/large.bin"
        synced a b
        same "$(attribute downloadingStatus "$B/large.bin")" notDownloaded
        cmp "$A/large.bin" "$B/large.bin"; same "$(cat "$B/dir/file.txt")" hello
        # SFTP has no notifications: the other device polls.
        echo more >> "$B/dir/file.txt"
        until_true 60 grep -q more "$A/dir/file.txt"
        evicts "$A/large.bin"; cmp "$A/large.bin" "$B/large.bin"
        rm -r "$B/dir"; synced b a; not test -e "$A/dir"
        on a store verify --read-data
        """#)
    }

    @Test("sync survives servers that are killed at any time, and loses nothing")
    func killedServers() async throws {
      try await withServer(
        #"""
        joins a; joins b
        (while [ -d "$ROOT" ] && [ ! -e done ]; do
          for process in $(servers); do
            # Only those of this test.
            grep -qzF "$ROOT" "/proc/$process/environ" && kill -9 "$process"
          done 2>/dev/null
          sleep 0.2
        done) & killer=$!
        for number in $(seq 40); do
          head -c 100000 /dev/urandom > "$A/a$number"; echo "$number" > "$B/b$number"
        done
        sleep 5; touch done; wait $killer
        synced a b; synced a
        diff -r "$A" "$B"
        for number in $(seq 40); do same "$(cat "$A/b$number")" "$number"; done
        on a fsck; on b fsck
        """#)
    }

    @Test("a server that cannot be reached is told, and files stay local until it is back")
    func unreachableServers() async throws {
      try await withServer(
        #"""
        joins a
        mv "$ROOT/nas/data" "$ROOT/nas/unmounted"; mkdir "$ROOT/nas/data"
        echo kept > "$A/file"; not on a sync --wait --timeout 3
        on a status | grep -q 'mount its disk'
        rmdir "$ROOT/nas/data"; mv "$ROOT/nas/unmounted" "$ROOT/nas/data"
        synced a
        # A program that ends at once, as `ssh` does when it may not log in.
        UBIQUITYFS_SFTP_COMMAND=/bin/false exits 1 on b account sign-in --backend "$URL"
        exits 2 on b account sign-in --backend "sftp://-oProxyCommand=x/data"
        """#)
    }
  }
}
