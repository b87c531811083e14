import Testing

/// What other users, devices and stores may do to a device, and what it says then.
extension EndToEnd {
  @Suite struct HostileTests {
    @Test("only the default backend has a file with the secret beside it")
    func secretsBesideData() async throws {
      try await withAccount { account in
        account.know("a")
        account.know("b")
        try await account.script(
          """
          said=$(on a account sign-in)
          case $said in *"$CLOUD.key"*) ;; *) echo "not told: $said" >&2; exit 1 ;; esac
          same "$(stat -c %a "$CLOUD.key")" 600
          on a account sign-out

          on a account sign-in --backend "file://$ROOT/nas/cloud" --device-name a
          [ ! -e "$ROOT/nas/cloud.key" ]
          same "$(find "$ROOT/nas" -name '*.key' | wc -l)" 0
          exits 6 on b account sign-in --backend "file://$ROOT/nas/cloud"
          on a account secret > secret
          on b account sign-in --backend "file://$ROOT/nas/cloud" --secret-file secret
          not grep -rqF "$(cat secret)" "$ROOT/nas"
          """)
      }
    }

    @Test("the secret is once in the daemon's memory, in locked pages, and in no core dump")
    func secretInMemory() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          #"""
          # A daemon that has told it has further copies in memory that it let go of.
          on a account secret > secret
          on a unmount "$A_MOUNT"; old=$(cat "$ROOT/a/daemon.lock"); kill $old
          until_true 20 not kill -0 $old
          on a mount "$CONTAINER" "$A_MOUNT"; synced a
          cat > look.py <<'END'
          glob, re, sys = map(__import__, ["glob", "re", "sys"])

          def copies(process, secret):
              found, flags = 0, set()
              here = f"/proc/{process}"
              with open(f"{here}/smaps") as maps, open(f"{here}/mem", "rb") as memory:
                  hits = 0
                  for line in maps:
                      region = re.match(r"([0-9a-f]+)-([0-9a-f]+) (..)", line)
                      if region:
                          start, end = (int(region[number], 16) for number in (1, 2))
                          hits = 0
                          if region[3][0] == "r":
                              try:
                                  memory.seek(start)
                                  hits = memory.read(end - start).count(secret)
                              except (OSError, ValueError, OverflowError):
                                  pass
                          found += hits
                      elif line.startswith("VmFlags:") and hits:
                          flags |= {"lo", "dd", "dc"} - set(line.split()[1:])
              return found, flags

          process, secret = int(sys.argv[1]), open(sys.argv[2], "rb").read().strip()
          found, lacking = copies(process, secret)
          assert found == 1, f"{found} copies"
          assert not lacking, f"the pages lack {lacking}"
          assert int(open(f"/proc/{process}/coredump_filter").read(), 16) == 0
          for status in glob.glob("/proc/[0-9]*/status"):
              try:
                  text = open(status).read()
              except OSError:
                  continue
              if re.search(rf"^PPid:\s+{process}$", text, re.M):
                  assert copies(int(status.split("/")[2]), secret)[0] == 0, "a child has it"
          END
          python3 look.py "$(cat "$ROOT/a/daemon.lock")" secret
          """#)
      }
    }

    @Test("an account that was signed out comes back with its files, another one does not get them")
    func parkedContainers() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo mine > "$A/mine"
          on a sync --wait
          on a unmount "$A_MOUNT"
          on a account sign-out
          on a account sign-in --backend "file://$ROOT/other" --device-name a
          same "$(on a container list --json | grep -c "$CONTAINER" || true)" 0
          on a account sign-out
          on a account sign-in --device-name a
          same "$(ls -d "$ROOT"/a/containers-* 2>/dev/null | grep -v "$CONTAINER" | wc -l)" 0
          on a mount "$CONTAINER" "$A_MOUNT"
          same "$(cat "$A/mine")" mine
          """)
      }
    }

    @Test("names of files and devices cannot send control characters to a terminal")
    func terminals() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          #"""
          name=$(printf 'x\033[31m\007y')
          echo 1 > "$A/$name"
          on a sync --wait
          # On a terminal; `script` gives the command one.
          script -qec "UBIQUITYFS_STATE=$ROOT/a ubiquityfs status \"$A/$name\"" /dev/null > shown
          grep -qF 'x\u{1b}[31m\u{7}y' shown
          not grep -q "$(printf 'x\033')" shown
          # A program gets the bytes.
          on a query 'kMDItemFSName == "x*"' > found
          grep -q "$(printf 'x\033')" found
          """#)
      }
    }

    @Test("a daemon that a defect ends leaves a line in its log")
    func crashes() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          #"""
          touch killed
          for signal in SEGV ILL; do
            on a mount "$CONTAINER" "$A_MOUNT" || true
            pid=$(on a status --json | tr -d ' ' | grep -o '"pid":[0-9]*' | head -n 1 | cut -d : -f 2)
            kill -s $signal "$pid"
            until_true 60 grep -qE \
              "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z critical daemon: the daemon ends by SIG$signal" \
              "$ROOT/a/daemon.log"
            # The runtime may take long to print a backtrace.
            kill -9 "$pid" || true
            until_true 60 [ ! -e "/proc/$pid" ]
          done
          on a status > /dev/null
          """#)
      }
    }

    @Test(
      "the mount helper passes nothing of root's environment to another user's program",
      .enabled(if: TestAccount.isRoot))
    func helperEnvironment() async throws {
      try await withAccount { account in
        try await account.script(
          #"""
          mkdir bin
          printf '#!/bin/sh\nenv > "%s/seen"\n' "$WORK/open" > bin/ubiquityfs
          mkdir -m 777 open
          chmod 755 bin bin/ubiquityfs . ..
          chmod 755 "$ROOT"
          AWS_SECRET_ACCESS_KEY=roots LD_LIBRARY_PATH=/nowhere PATH="$WORK/bin:$PATH" \
            "$SOURCES/mount-helpers/mount.ubiquityfs" "$CONTAINER" /nowhere -o uid=nobody
          not grep -E '^(AWS|LD_)|roots' open/seen
          grep -qx 'USER=nobody' open/seen
          """#)
      }
    }
  }
}
