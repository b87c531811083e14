import Testing

/// How many files the daemon may have open, whatever the limits of the shell that started it.
extension EndToEnd {
  @Suite struct DescriptorLimitTests {
    /// `restart SOFT HARD`: a daemon that is started under these limits. `limits`: its own.
    private static let helpers = """
      daemon() { cat "$ROOT/a/daemon.lock"; }
      restart() {
        local former; former=$(daemon)
        kill -TERM $former
        stopped() { ! kill -0 $former 2>/dev/null; }
        until_true 60 stopped
        (ulimit -Sn $1; ulimit -Hn $2; on a mount --quiet "$CONTAINER" "$A_MOUNT")
      }
      limits() { awk '/^Max open files/ { print $4, $5 }' "/proc/$(daemon)/limits"; }

      """

    @Test("the daemon raises its descriptor limit to the hard limit")
    func softLimit() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            restart 256 2048
            read -r soft hard <<<"$(limits)"
            same $soft $hard
            [ $soft -ge 2048 ]
            # More files than the shell's limit are open at a time.
            for n in $(seq 400); do echo $n > "$A/$n"; done
            cat > hold.py <<'END'
            os, sys = map(__import__, ('os', 'sys'))
            files = [os.open(sys.argv[1] + '/%d' % n, os.O_RDWR) for n in range(1, 401)]
            assert [os.read(f, 9) for f in files] == [b'%d\\n' % n for n in range(1, 401)]
            END
            (ulimit -Sn 1024; python3 hold.py "$A")
            """)
      }
    }

    @Test("the daemon of root raises the hard limit, too", .enabled(if: TestAccount.isRoot))
    func hardLimit() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.helpers + """
            # Not so where root lacks CAP_SYS_RESOURCE, or the system has a lower limit.
            expected='1048576 1048576'
            (ulimit -n 2048; ulimit -n 1048576) 2> /dev/null || expected='2048 2048'
            restart 256 2048
            same "$(limits)" "$expected"
            """)
      }
    }
  }
}
