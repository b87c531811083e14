import Testing

/// How local files are read and written: by the kernel where it can, else by the daemon.
extension EndToEnd {
  @Suite struct LocalIOTests {
    @Test func statusSaysHowFilesAreRead() async throws {
      try await withAccount { account in
        try await account.device("a")
        let mount = try #require(try await account.status("a").mounts.first)
        #expect(mount.passthrough == (mount.io.mode == "passthrough"))
        #expect((mount.io.reason == nil) == mount.passthrough)
        #expect(mount.passthroughReason == mount.io.reason)
        try await account.device("b", mountOptions: "passthrough=off")
        let off = try #require(try await account.status("b").mounts.first)
        #expect(off.io.mode == "daemon")
        #expect(off.io.reason == "it is switched off by the option passthrough=off")
      }
    }

    @Test func aMappingThatOutlivesItsDescriptorKeepsItsFileHere() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          head -c 1048576 /dev/urandom > f; cp f "$A/f"; synced a b
          cat > map.py <<'END'
          ctypes, os, sys, time = map(__import__, ('ctypes', 'os', 'sys', 'time'))
          libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p
          libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
          f = os.open(sys.argv[1], os.O_RDWR)
          m = libc.mmap(None, 1 << 20, 3, 1, f, 0); assert m != 2**64 - 1
          os.close(f)
          open('mapped', 'w').close()
          while not os.path.exists('store'): time.sleep(0.02)
          ctypes.memmove(m, b'first', 5)
          open('stored', 'w').close()
          while not os.path.exists('leave'): time.sleep(0.02)
          ctypes.memmove(m + 8192, b'last', 4)
          END
          python3 map.py "$A/f" & program=$!
          until_true 20 test -e mapped
          ! setfattr -n user.ubiquity.evict -v 1 "$A/f" 2> refusal
          grep -q 'busy' refusal
          touch store; until_true 20 test -e stored
          ! on a evict "$A/f" 2> /dev/null
          touch leave; wait $program
          synced a b
          same "$(head -c 5 "$B/f")" first
          same "$(tail -c +8193 "$B/f" | head -c 4)" last
          cmp "$A/f" "$B/f"
          on a evict "$A/f"
          cmp "$A/f" "$B/f"
          """)
      }
    }

    @Test func aFileThatBecomesLocalWhileItIsOpenIsReadByAll() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          head -c 3000000 /dev/urandom > f; cp f "$A/f"; synced a b
          exec 3< "$B/f"
          head -c 1000 <&3 | cmp - <(head -c 1000 f)
          on b download "$B/f"
          same "$(attribute downloadingStatus "$B/f")" current
          cmp f "$B/f"
          exec 4<> "$B/f"
          printf changed >&4
          same "$(head -c 7 "$B/f")" changed
          exec 3<&- 4>&-
          cmp <(tail -c +8 f) <(tail -c +8 "$B/f")
          printf again | dd of="$B/f" conv=notrunc status=none
          same "$(head -c 7 "$B/f")" agained
          synced b a
          cmp "$A/f" "$B/f"
          """)
      }
    }
  }
}
