import Testing

/// The command line's own promises: exit codes, messages, JSON, and what a mount refuses.
extension EndToEnd {
  @Suite struct CommandLineTests {
    /// Each line is a whole report; one of them has the upload in it.
    @Test func statusIsWatched() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          UBIQUITYFS_STATE=$ROOT/a ubiquityfs status --watch --json > "$ROOT/watched" & watcher=$!
          for round in 1 2 3 4 5; do
            head -c 100000000 /dev/urandom > "$A/film"
            on a sync --wait
            grep -q '"direction":"upload"' "$ROOT/watched" && break
          done
          kill $watcher; wait $watcher || true
          grep -q '"direction":"upload","path":"Documents/film"' "$ROOT/watched"
          head -n -1 "$ROOT/watched" | while read -r line; do
            case $line in '{'*'}') ;; *) echo "no report: $line" >&2; exit 1 ;; esac
          done
          """)
      }
    }

    @Test func wrongUsageIsSaidSo() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          """
          exits 2 on a frobnicate
          exits 2 on a mount
          exits 2 on a status --no-such-flag
          same "$(on a frobnicate 2>&1 | head -c 12)" 'ubiquityfs: '
          on a --help > help
          for verb in account container mount unmount status evict download pin unpin policy sync offline limit metered versions trash storage store coordinate run query log doctor fsck version; do
            grep -qw "$verb" help
            on a $verb --help > /dev/null
          done
          for later in kv; do not grep -qw "$later" help; done
          on a version | grep '[0-9]' > /dev/null
          for shell in bash zsh fish; do on a completion $shell | grep ubiquityfs > /dev/null; done
          on a completion bash | bash -n
          exits 2 on a completion tcsh
          [ ! -e "$ROOT/a" ]
          """)
      }
    }

    @Test func wrongContainerNamesAreRefused() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir elsewhere
          for name in '' notes 'iCloud.*' 'iCloud.com.exa mple' 'iCloud..x' '.x.y' 'a/b.c' 'iCloud.com.grün' \
            "iCloud.$(printf 'x%.0s' $(seq 160))"; do
            exits 2 on a container create "$name"
            exits 2 on a mount "$name" elsewhere
            exits 2 on a container delete "$name" --yes
          done
          on a container create iCloud.org.example.other
          on a container create iCloud.org.example.other
          on a container create ABCDE12345.com.example.notes
          """)
        let containers = try await account.json(ContainersAnswer.self, "a", "container list")
        #expect(containers.containers.count == 3)
      }
    }

    @Test func mountPointsAreChecked() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          refused 'no such|not there|does not exist|missing' on a mount iCloud.org.example.new missing
          mkdir full; touch full/file
          refused 'not empty' on a mount iCloud.org.example.new full
          touch plain
          refused 'not a directory' on a mount iCloud.org.example.new plain
          refused 'mount' on a mount iCloud.org.example.new "$A_MOUNT"
          exits 5 on a mount iCloud.org.example.new "$A_MOUNT"
          mkdir second
          exits 5 on a mount "$CONTAINER" second
          refused 'already' on a mount "$CONTAINER" second
          exits 2 on a mount "$CONTAINER" second -o no_such_option
          exits 2 on a mount "$CONTAINER" second -o policy=sometimes
          same "$(ls full)" file
          not mountpoint -q second
          ls "$A" > /dev/null
          """)
        // Nothing half done: a mount that was refused made no container.
        let containers = try await account.json(ContainersAnswer.self, "a", "container list")
        #expect(containers.containers.map(\.id) == [TestAccount.container])
      }
    }

    @Test func commandsBeforeSignInSaySo() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          """
          mkdir m
          refused 'sign-in' on a mount "$CONTAINER" m
          refused 'sign-in' on a container create "$CONTAINER"
          refused 'sign-in' on a sync --wait
          """)
        #expect(try await account.status("a").account.signedIn == false)
      }
    }

    @Test func accountsSignInAndOut() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          same "$(stat -c %a "$ROOT/a")" 700
          same "$(stat -c %a "$ROOT/a/control.sock")" 600
          same "$(find "$ROOT/a" -maxdepth 1 -type f -perm /077)" ''
          on a account status | grep ubiquityfs-cloud > /dev/null
          on a account devices --json > devices
          for name in a b; do grep -q "\\"name\\" *: *\\"$name\\"" devices; done
          echo text > "$A/file"; synced a
          on a account secret > secret
          same "$(wc -l < secret)" 1
          # A third device that knows nothing but the backend and the secret.
          mkdir -p "$ROOT/far/away"
          far() { UBIQUITYFS_STATE=$ROOT/far/away/state ubiquityfs "$@"; }
          far account sign-in --backend "file://$CLOUD" --secret-file secret --device-name far
          mkdir far
          far mount "$CONTAINER" far
          far sync --wait
          same "$(cat far/Documents/file)" text
          exits 5 on a account sign-in --backend "file://$ROOT/other"
          """)
      }
    }

    @Test func aWrongSecretIsRefused() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo text > "$A/file"; synced a
          (cd "$CLOUD" && find . -type f ! -path '*/devices/*' | sort | xargs sha256sum) > before
          echo 'not the passphrase' > wrong
          refused 'secret' on b account sign-in --backend "file://$CLOUD" --secret-file wrong
          exits 6 on b account sign-in --backend "file://$CLOUD" --secret-file wrong
          refused 'no such file|secret' on b account sign-in --secret-file missing
          (cd "$CLOUD" && find . -type f ! -path '*/devices/*' | sort | xargs sha256sum) | diff before -
          on b account status --json | grep '"signedIn" *: *false' > /dev/null
          """)
      }
    }

    @Test func aPassphraseOpensTheAccount() async throws {
      try await withAccount { account in
        try await account.script(
          """
          echo 'correct horse battery staple' > passphrase
          on a account sign-in --backend "file://$ROOT/elsewhere" --secret-file passphrase
          mkdir a b
          on a mount "$CONTAINER" a
          echo text > a/Documents/file
          synced a
          on b account sign-in --backend "file://$ROOT/elsewhere" --secret-file passphrase
          on b mount "$CONTAINER" b
          synced b
          same "$(cat b/Documents/file)" text
          [ ! -e "$CLOUD" ]
          not grep -rq 'horse' "$ROOT/elsewhere"
          """)
      }
    }

    @Test func startingTheDaemonFreesThePipe() async throws {
      try await withAccount { account in
        account.know("a")
        try await account.script(
          """
          output=$(timeout 20 env UBIQUITYFS_STATE=$ROOT/a ubiquityfs account sign-in --quiet 2>&1)
          same "$output" ''
          timeout 20 env UBIQUITYFS_STATE=$ROOT/a ubiquityfs status 2>&1 | cat > /dev/null
          """)
      }
    }

    @Test func statusOfItems() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          "echo text > \"$A/file\"; mkdir \"$A/d\"; synced a; on a evict \"$A/file\"")
        let answer = try await account.json(
          ItemStatusAnswer.self, "a", "status \"$A/file\" \"$A/d\"")
        #expect(answer.items.count == 2)
        let file = try #require(answer.items.first)
        #expect(file.kind == "file" && file.size == 5 && file.isUploaded && !file.isPinned)
        #expect(file.downloadingStatus == "notDownloaded")
        #expect(answer.items.last?.kind == "directory")
        let status = try await account.status("a")
        #expect(status.account.signedIn)
        #expect(status.mounts.map(\.container) == [TestAccount.container])
        #expect(status.mounts.map(\.mountpoint) == [account.mountpoint("a")])
        let container = try #require(status.containers.first)
        // The container's own directory, Documents, the file and the directory.
        #expect(container.items == 4)
        #expect(container.totalBytes == 5)
        #expect(container.localBytes == 0)
        try await account.script(
          """
          exits 3 on a status "$A/missing"
          exits 3 on a status /
          on a status > plain
          grep -q "$CONTAINER" plain
          [ -n "$(on a log)" ]
          on a doctor
          """)
      }
    }

    @Test func theMountHelperMounts() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          on a unmount "$A_MOUNT"
          export UBIQUITYFS_STATE=$ROOT/a
          "$SOURCES/mount-helpers/mount.ubiquityfs" "$CONTAINER" "$A_MOUNT" -o rw,noauto,x-systemd.automount
          mountpoint -q "$A_MOUNT"
          same "$(awk -v at="$A_MOUNT" '$2 == at { print $3 }' /proc/self/mounts)" fuse.ubiquityfs
          """)
      }
    }

    // mount(8) calls helpers in /sbin alone, and leaves them only the usual PATH. In a mount
    // namespace of its own the test puts helper and program there.
    @Test(
      "a line of fstab with allow_dev and allow_suid gives a mount without nodev and nosuid",
      .enabled(if: TestAccount.isRoot))
    func fstabAllowsDevicesAndSetIDs() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          cat > inside <<'END'
          set -eu
          program=$(command -v ubiquityfs)
          mount -t tmpfs none "$(readlink -f /sbin)"
          ln -s "$SOURCES/mount-helpers/mount.ubiquityfs" /sbin/mount.ubiquityfs
          mount -t tmpfs none /usr/local/bin
          ln -s "$program" /usr/local/bin/ubiquityfs
          mount -T fstab "$A_MOUNT"
          END
          flags() {
            on a unmount "$A_MOUNT" >&2
            echo "$CONTAINER $A_MOUNT ubiquityfs noauto,state=$ROOT/a,$1 0 0" > fstab
            unshare -m --propagation private sh inside >&2
            awk -v at="$A_MOUNT" '$2 == at { print $4 }' /proc/self/mounts |
              tr ',' '\n' | grep -xE 'nodev|nosuid' | sort | tr '\n' ' ' || true
          }
          same "$(flags defaults)" 'nodev nosuid '
          mountpoint -q "$A_MOUNT"
          same "$(flags allow_dev)" 'nosuid '
          same "$(flags allow_dev,allow_suid)" ''
          mountpoint -q "$A_MOUNT"
          mknod "$A/null" c 1 3; echo text > "$A/null"; same "$(cat "$A/null")" ''
          """)
      }
    }
  }
}
