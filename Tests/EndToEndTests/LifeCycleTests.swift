import Testing

/// Daemons that stop, are killed, come back; mounts that come and go.
extension EndToEnd {
  @Suite struct LifeCycleTests {
    @Test func aKilledDaemonLosesNothingThatWasClosed() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          touch killed
          source_tree tree
          copy_all() {
            cd "$WORK/tree"
            find . -type d -exec mkdir -p "$A/tree/{}" \\;
            find . -type f -print0 | while IFS= read -r -d '' file; do
              cp -a "$file" "$A/tree/$file" 2>/dev/null || break
              printf '%s\\0' "$file" >> "$WORK/done"
            done
          }
          mkdir "$A/tree"; : > done
          copy_all & copy=$!
          enough() { [ "$(tr -cd '\\0' < done | wc -c)" -ge 400 ]; }
          until_true 60 enough
          kill -9 \(pid)
          wait $copy || true
          on a unmount "$A_MOUNT"
          on a mount "$CONTAINER" "$A_MOUNT"
          count=$(tr -cd '\\0' < done | wc -c)
          [ "$count" -ge 400 ]
          [ "$count" -lt 1100 ]
          while IFS= read -r -d '' file; do
            cmp "tree/$file" "$A/tree/$file"
            same "$(stat -c '%s %a' "$A/tree/$file")" "$(stat -c '%s %a' "tree/$file")"
          done < done
          on a fsck
          synced a
          """, timeout: 300)
        try await account.device("b")
        try await account.script(
          """
          synced b
          while IFS= read -r -d '' file; do cmp "tree/$file" "$B/tree/$file"; done < done
          same "$(listing "$A")" "$(listing "$B")"
          """)
      }
    }

    @Test func syncedBytesSurviveAKillAtOnce() async throws {
      try await withAccount { account in
        try await account.device("a")
        for round in 1...3 {
          let pid = try await account.status("a").daemon.pid
          try await account.script(
            """
            touch killed
            dd if=/dev/urandom of=block\(round) bs=65536 count=20 status=none
            exec 3> "$A/open\(round)"
            dd if=block\(round) bs=65536 of=/dev/fd/3 conv=fsync status=none
            cp block\(round) "$A/closed\(round)"
            mv "$A/closed\(round)" "$A/renamed\(round)"
            kill -9 \(pid)
            exec 3>&- || true
            on a unmount "$A_MOUNT"
            on a mount "$CONTAINER" "$A_MOUNT"
            for n in $(seq \(round)); do
              cmp block$n "$A/open$n"
              # A rename is kept or not made; it has not been synced. The content is whole.
              closed=$(ls "$A"/closed$n "$A"/renamed$n 2>/dev/null) || true
              cmp block$n "$closed"
            done
            on a fsck
            """)
        }
      }
    }

    @Test func aCleanStopAndAStartChangeNothing() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          mkdir "$A/d"; echo text > "$A/d/file"; ln "$A/d/file" "$A/hard"
          (cd "$A_MOUNT" && find . -printf '%p %i %s %m %T@ %n\\n' | sort) > before
          kill -TERM \(pid)
          stopped() { ! kill -0 \(pid) 2>/dev/null; }
          until_true 60 stopped
          not mountpoint -q "$A_MOUNT"
          same "$(ls -A "$A_MOUNT")" ''
          on a mount "$CONTAINER" "$A_MOUNT"
          (cd "$A_MOUNT" && find . -printf '%p %i %s %m %T@ %n\\n' | sort) > after
          diff before after
          same "$(cat "$A/hard")" text
          on a fsck
          """)
      }
    }

    @Test func unmountWritesEverythingOut() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          head -c 5000000 /dev/urandom > file
          cp file "$A/file"
          on a unmount "$A_MOUNT"
          not mountpoint -q "$A_MOUNT"
          on a mount "$CONTAINER" "$A_MOUNT"
          cmp file "$A/file"
          on a umount "$A_MOUNT"
          exits 3 on a unmount "$A_MOUNT"
          on a mount "$CONTAINER" "$A_MOUNT"
          """)
      }
    }

    @Test("a container can be mounted again right after the kernel unmounted it")
    func mountAfterKernelUnmount() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          kernel_umount() { if [ "$(id -u)" = 0 ]; then umount "$1"; else fusermount3 -u "$1"; fi; }
          for n in $(seq 40); do
            echo $n > "$A/file"
            kernel_umount "$A_MOUNT"
            on a mount "$CONTAINER" "$A_MOUNT"
            same "$(cat "$A/file")" $n
          done
          # The connection ends when the last program has left the mount, so the daemon hears of it later.
          (cd "$A" && exec sleep 2) & sleeper=$!
          in_mount() { [ "$(readlink "/proc/$sleeper/cwd")" = "$A" ]; }
          until_true 20 in_mount
          umount -l "$A_MOUNT" 2>/dev/null || fusermount3 -uz "$A_MOUNT"
          on a mount "$CONTAINER" "$A_MOUNT"
          same "$(cat "$A/file")" 40
          wait $sleeper
          kernel_umount "$A_MOUNT"
          exits 3 on a unmount "$A_MOUNT"
          """)
      }
    }

    @Test(
      "a container can be mounted again though another mount namespace has a copy of the mount",
      .enabled(if: TestAccount.isRoot))
    func mountBesideCopiedMount() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo text > "$A/file"
          unshare -m --propagation private sh -c 'touch copied; exec sleep 1000' & copy=$!
          trap 'kill $copy' EXIT
          until_true 20 test -e copied
          umount "$A_MOUNT"
          on a mount "$CONTAINER" "$A_MOUNT"
          same "$(cat "$A/file")" text
          """)
      }
    }

    @Test(
      "SIGTERM ends a daemon whose mount was copied into another mount namespace",
      .enabled(if: TestAccount.isRoot))
    func stopWithCopiedMount() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          unshare -m --propagation private sh -c 'touch copied; exec sleep 1000' & copy=$!
          trap 'kill $copy' EXIT
          until_true 20 test -e copied
          kill -TERM \(pid)
          stopped() { ! kill -0 \(pid) 2>/dev/null; }
          until_true 60 stopped
          not mountpoint -q "$A_MOUNT"
          """)
      }
    }

    @Test(
      "unmounting ends a copy of the mount in another mount namespace, unless files are open",
      .enabled(if: TestAccount.isRoot))
    func unmountWithCopiedMount() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo text > "$A/file"
          as_a() { timeout 60 env UBIQUITYFS_STATE="$ROOT/a" ubiquityfs "$@"; }
          until_closed="until [ -e close ]; do sleep 0.1; done"
          inside="exec 3< '$A/file'; touch copied; $until_closed; exec 3<&-; exec sleep 1000"
          unshare -m --propagation private sh -c "$inside" & copy=$!
          trap 'kill $copy' EXIT
          until_true 20 test -e copied
          refused "namespace.*process $copy" as_a unmount "$A_MOUNT"
          same "$(cat "$A/file")" text
          touch close
          until_true 30 as_a unmount "$A_MOUNT"
          not mountpoint -q "$A_MOUNT"
          as_a status > /dev/null
          on a mount "$CONTAINER" "$A_MOUNT"
          same "$(cat "$A/file")" text
          mkdir bind; mount --bind "$A" bind
          refused 'also mounted at' as_a unmount "$A_MOUNT"
          umount bind
          as_a unmount "$A_MOUNT"
          """)
      }
    }

    @Test(
      "unmounting also unmounts the copies that mount propagation made of the mount",
      .enabled(if: TestAccount.isRoot))
    func unmountWithPropagatedMount() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo text > "$A/file"; synced a
          on a unmount "$A_MOUNT"
          base=$WORK/base; mkdir "$base"
          # The trees below the base are unmounted with it, whatever stops the script.
          trap 'umount -R -l "$base" 2> /dev/null || true' EXIT
          mount -t tmpfs tmpfs "$base"; mount --make-shared "$base"
          mkdir -p "$base/tree/notes" "$base/other" "$base/bound"
          mount --bind "$base/tree" "$base/other"
          mounts() {
            awk -v at="$base/" 'index($2, at) == 1 && $3 == "fuse.ubiquityfs"' /proc/self/mounts
          }
          as_a() { timeout 60 env UBIQUITYFS_STATE="$ROOT/a" ubiquityfs "$@"; }
          on a mount "$CONTAINER" "$base/tree/notes"
          same "$(mounts | wc -l)" 2
          same "$(cat "$base/other/notes/Documents/file")" text
          mount --bind "$base/tree/notes" "$base/bound"
          refused "also mounted at .$base/bound" as_a unmount "$base/tree/notes"
          umount "$base/bound"
          as_a unmount "$base/tree/notes"
          same "$(mounts)" ''
          as_a status > /dev/null
          umount "$base/other"; umount "$base"
          on a mount "$CONTAINER" "$A_MOUNT"
          same "$(cat "$A/file")" text
          """)
      }
    }

    @Test func onlyOneDaemonServesAStateDirectory() async throws {
      try await withAccount { account in
        try await account.device("a")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          """
          echo text > "$A/file"
          refused 'already|running|another' on a daemon
          exits 5 on a daemon
          same "$(cat "$A/file")" text
          # ten commands at once that each need the daemon start one
          kill -TERM \(pid)
          stopped() { ! kill -0 \(pid) 2>/dev/null; }
          until_true 60 stopped
          for n in $(seq 10); do on a status --json > "status$n" & done
          wait
          for n in $(seq 10); do grep -o '"pid" *: *[0-9]*' "status$n"; done | sort -u > pids
          same "$(wc -l < pids)" 1
          """)
      }
    }

    @Test func foregroundMountsEndWithTheMount() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          on a unmount "$A_MOUNT"
          UBIQUITYFS_STATE=$ROOT/a ubiquityfs mount "$CONTAINER" "$A_MOUNT" --foreground & child=$!
          until_true 60 mountpoint -q "$A_MOUNT"
          echo text > "$A/file"
          on a unmount "$A_MOUNT"
          wait $child
          """)
      }
    }

    @Test func allContainersAreMountedTogether() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          on a container create iCloud.org.example.second
          mkdir all
          on a unmount "$A_MOUNT"
          on a mount --all all
          echo one > "all/$CONTAINER/Documents/file"
          echo two > all/iCloud.org.example.second/Documents/file
          same "$(ls all | tr '\\n' ' ')" 'iCloud.org.example.second iCloud.org.example.test '
          same "$(ls -A all/iCloud.org.example.second)" Documents
          synced a
          """)
        let containers = try await account.json(ContainersAnswer.self, "a", "container list")
        #expect(
          containers.containers.map(\.id).sorted()
            == ["iCloud.org.example.second", TestAccount.container])
        try await account.script(
          """
          exits 2 on a container delete iCloud.org.example.second
          exits 5 on a container delete iCloud.org.example.second --yes
          on a unmount all/iCloud.org.example.second
          on a container delete iCloud.org.example.second --yes
          exits 3 on a container delete iCloud.org.example.second --yes
          same "$(cat "all/$CONTAINER/Documents/file")" one
          """)
      }
    }

    /// What a program holds open for writing in the mount, as its first argument.
    private static let writer = """
      cat > writer.py <<'END'
      ctypes, os, sys, time = map(__import__, ('ctypes', 'os', 'sys', 'time'))
      def wait(name):
        while not os.path.exists(name): time.sleep(0.01)
      def tell(name): open(name, 'w').close()
      path, name, mode = sys.argv[1:4]
      f = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
      if mode == 'mapped':
        libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
        m = libc.mmap(None, 1 << 16, 3, 1, f, 0); assert m != 2**64 - 1; os.close(f)
      elif mode == 'new': os.write(f, b'before ')
      tell(name + '.opened')
      for step in ('one', 'two'):
        wait(step)
        if mode == 'mapped': ctypes.memmove(m + 4096, step.encode(), 3)
        elif mode == 'new': os.write(f, step.encode())
        else: os.pwrite(f, step.encode(), 10)
        tell(name + '.' + step)
      try:
        if mode != 'mapped': os.close(f)
      except OSError: pass  # ENOTCONN: the close is told to a daemon that has ended.
      END
      stopped() { ! kill -0 $PID 2>/dev/null; }
      start() {
        head -c 65536 /dev/urandom > kept; cp kept "$A/kept"; cp kept "$A/mapped"; synced a b
        for mode in new kept mapped; do python3 writer.py "$A/$mode" $mode $mode & done
        for mode in new kept mapped; do until_true 20 test -e $mode.opened; done
      }
      step() { touch $1; for mode in new kept mapped; do until_true 20 test -e $mode.$1; done; }
      three() { dd if="$1" bs=1 skip=${2:-10} count=3 status=none; }

      """

    // Writes outlive the daemon through passthrough only, which the kernel gives to root alone.
    @Test(
      "bytes written after the daemon's end are shown by the next mount and uploaded",
      .enabled(if: TestAccount.isRoot))
    func writesAfterTheEndAreUploaded() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          Self.writer + """
            PID=\(pid); start
            kill -TERM $PID
            until_true 60 stopped
            grep -q '"Documents/new" is open for writing by python3 (process [0-9]*)' "$ROOT/a/daemon.log"
            step one; step two; wait
            on a mount "$CONTAINER" "$A_MOUNT"
            same "$(cat "$A/new")" 'before onetwo'
            same "$(three "$A/kept")" two
            same "$(three "$A/mapped" 4096)" two
            synced a b
            same "$(cat "$B/new")" 'before onetwo'
            cmp "$A/kept" "$B/kept"; cmp "$A/mapped" "$B/mapped"
            on a fsck
            """)
      }
    }

    @Test(
      "a writer that outlives the daemon is followed by the next one",
      .enabled(if: TestAccount.isRoot), arguments: ["TERM", "KILL"])
    func writersOfAnEarlierDaemonAreFollowed(signal: String) async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        let pid = try await account.status("a").daemon.pid
        try await account.script(
          Self.writer + """
            PID=\(pid); start; touch killed
            kill -\(signal) $PID
            until_true 60 stopped
            step one
            [ \(signal) = TERM ] || on a unmount "$A_MOUNT"
            on a mount "$CONTAINER" "$A_MOUNT"
            grep -q '"Documents/new" is still written to by a program' "$ROOT/a/daemon.log"
            same "$(cat "$A/new")" 'before one'
            same "$(three "$A/kept")" one
            same "$(three "$A/mapped" 4096)" one
            # Nothing of a file is uploaded, evicted or replaced while something writes to it.
            refused 'busy' setfattr -n user.ubiquity.evict -v 1 "$A/kept"
            step two
            same "$(stat -c %s "$A/new")" 13
            wait
            synced a b
            same "$(cat "$A/new")" 'before onetwo'
            same "$(cat "$B/new")" 'before onetwo'
            same "$(three "$B/kept")" two; cmp "$A/kept" "$B/kept"
            same "$(three "$B/mapped" 4096)" two; cmp "$A/mapped" "$B/mapped"
            until_true 20 evicts "$A/kept"
            same "$(three "$A/kept")" two
            on a fsck
            """)
      }
    }
  }
}
