import Testing

/// The budget of local space, and policies, on real mounts.
extension EndToEnd {
  @Suite struct SpaceTests {
    /// What scripts need: what contents take on a device's disk, and the configuration of a device.
    private static let tools = """
      # taken DEVICE: what the content files take, in bytes
      taken() {
        find "$ROOT/$1/containers/$CONTAINER/content" -type f -printf '%b\\n' 2>/dev/null |
          awk '{ s += $1 } END { printf "%d\\n", s * 512 }'
      }
      # with_space DEVICE TEXT: the device's daemon is started with that under `space`
      with_space() { printf 'space: %s\\n' "$2" > "$ROOT/$1.yaml"; export UBIQUITYFS_CONFIG=$ROOT/$1.yaml; }
      # at_most DEVICE BYTES
      at_most() { [ "$(taken "$1")" -le "$2" ]; }
      # space DEVICE NAME: a number of `space` in the status
      space() { on "$1" status --json | python3 -c "import json,sys; print(json.load(sys.stdin)['space']['$2'])"; }
      is() { [ "$(attribute downloadingStatus "$2")" = $1 ] || { echo "$2 is not $1" >&2; return 1; }; }
      here() { is current "$1"; }
      far() { is notDownloaded "$1"; }

      """

    /// Signs a device in whose daemon has a budget.
    private func device(
      _ account: TestAccount, _ name: String, _ space: String, _ options: String = ""
    ) async throws {
      account.know(name)
      try await account.script(
        Self.tools + """
          with_space \(name) '\(space)'
          on \(name) account sign-in --device-name \(name)
          mkdir "$ROOT/mount-\(name)"
          on \(name) mount "$CONTAINER" "$ROOT/mount-\(name)" \(options)
          """)
    }

    @Test(arguments: ["", "-o passthrough=off"])
    func aBudgetHoldsForWhatIsReadAndForWhatIsWritten(options: String) async throws {
      try await withAccount { account in
        try await device(account, "a", "{limit: 8MiB}", options)
        try await device(account, "b", "{limit: 8MiB}", options)
        try await account.script(
          Self.tools + """
            limit=$((8 << 20)) file=$((1 << 20))
            for n in $(seq 24); do head -c $file /dev/urandom > "source$n"; done
            # Written faster than it is sent: whoever closes waits.
            for n in $(seq 24); do
              cp "source$n" "$A/file$n"
              at_most a $((limit + file)) || { taken a >&2; false; }
            done
            synced a b
            for n in $(seq 24) $(seq 24); do
              cmp "source$n" "$B/file$n"
              at_most b $((limit + file)) || { taken b >&2; false; }
            done
            far "$B/file1"
            # The reader has all bytes a moment before the catalog says so.
            until_true 20 here "$B/file24"
            for n in $(seq 24); do cmp "source$n" "$A/file$n"; done
            settled() { at_most a $limit && at_most b $limit; }
            until_true 60 settled
            [ "$(space b limit)" = $limit ]
            [ "$(space b used)" -le $limit ]
            [ "$(on b status --json | grep -o '"evicted":{[^}]*}' | grep -o '"files":[0-9]*' | cut -d: -f2)" -gt 10 ]
            """, timeout: 240)
      }
    }

    @Test func whatIsNotUploadedStaysAndStatusSaysSo() async throws {
      try await withAccount { account in
        try await device(account, "a", "{limit: 4MiB}")
        try await account.script(
          Self.tools + """
            on a offline on
            for n in $(seq 8); do head -c 1048576 /dev/urandom > "source$n"; cp "source$n" "$A/file$n"; done
            for n in $(seq 8); do cmp "source$n" "$A/file$n"; done
            complains() { on a status | grep > /dev/null 'budget of 4194304 bytes is exceeded.*not uploaded yet'; }
            until_true 60 complains
            [ "$(space a notUploaded)" -ge 8388608 ]
            [ "$(space a overshoot)" -ge 4194304 ]
            on a offline off
            synced a
            fits() { at_most a 4194304; }
            until_true 60 fits
            not complains
            for n in $(seq 8); do cmp "source$n" "$A/file$n"; done
            """, timeout: 240)
      }
    }

    @Test func pinsOpenFilesAndNosyncStay() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await device(account, "b", "{limit: 6MiB}")
        try await account.script(
          Self.tools + """
            mkdir "$A/kept"
            for n in pinned open kept/file 1 2 3 4 5 6 7 8; do head -c 1048576 /dev/urandom > "$A/$n"; done
            synced a b
            on b pin "$B/pinned"; on b policy "$B/kept" downloadEagerlyAndKeepDownloaded
            until_true 60 here "$B/pinned"; until_true 60 here "$B/kept/file"
            cp "$A/1" "$B/own.nosync"
            exec 3< "$B/open"; cat <&3 > /dev/null
            for n in 1 2 3 4 5 6 7 8; do cmp "$A/$n" "$B/$n"; done
            # A file that was read is current once the disk has its bytes.
            until_true 60 here "$B/open"; until_true 60 at_most b 6291456
            here "$B/pinned"; here "$B/kept/file"; here "$B/open"
            far "$B/1"
            cmp "$A/1" "$B/own.nosync"
            exec 3<&-
            on b unpin "$B/pinned"; on b policy "$B/kept" inherit
            for n in 1 2 3 4 5 6 7 8; do cmp "$A/$n" "$B/$n"; done
            until_true 60 at_most b 6291456
            far "$B/pinned"; far "$B/kept/file"; far "$B/open"
            """, timeout: 240)
      }
    }

    @Test func policiesDecideWhatComesAndWhatGoes() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.tools + """
            mkdir -p "$A/eager/lazy" "$A/fleeting"
            echo 1 > "$A/eager/file"; echo 1 > "$A/eager/lazy/file"; echo 1 > "$A/fleeting/file"
            echo 1 > "$A/plain"
            synced a b
            same "$(on b policy "$B/eager")" inherit
            on b policy "$B/eager/lazy" downloadLazily
            on b policy "$B/eager" downloadEagerlyAndKeepDownloaded
            on b policy "$B/fleeting" downloadLazilyAndEvictOnRemoteUpdate
            same "$(on b policy "$B/eager")" downloadEagerlyAndKeepDownloaded
            same "$(attribute policy "$B/fleeting")" downloadLazilyAndEvictOnRemoteUpdate
            same "$(attribute policy "$A/eager")" inherit
            exits 2 on b policy "$B/eager" sometimes
            exits 1 on b policy "$B/plain" downloadLazily
            refused 'invalid' setfattr -n user.ubiquity.policy -v sometimes "$B/eager"
            # At once, where the nearest directory says so.
            until_true 60 here "$B/eager/file"
            far "$B/eager/lazy/file"; far "$B/fleeting/file"; far "$B/plain"
            # What is new, and what changes.
            cat "$B/fleeting/file" "$B/plain" > /dev/null
            echo new > "$A/eager/new"; echo 22 > "$A/eager/file"; echo 22 > "$A/fleeting/file"
            echo 22 > "$A/plain"
            synced a b
            until_true 60 here "$B/eager/new"; until_true 60 here "$B/eager/file"
            here "$B/plain"
            far "$B/fleeting/file"
            same "$(stat -c '%s %b' "$B/fleeting/file")" '3 1'
            same "$(cat "$B/fleeting/file")" 22
            # What is moved there, here and elsewhere.
            echo far > "$A/far"; mkdir "$A/tree"; echo far > "$A/tree/far"; echo far > "$A/other"
            synced a b
            far "$B/far"
            mv "$B/far" "$B/eager/"; mv "$B/tree" "$B/eager/"
            mv "$A/other" "$A/eager/"
            synced b a b
            until_true 60 here "$B/eager/far"; until_true 60 here "$B/eager/tree/far"
            until_true 60 here "$B/eager/other"
            # It holds after a restart, and it is this device's alone.
            touch killed; kill -9 "$(cat "$ROOT/b/daemon.lock")"; on b unmount "$B_MOUNT"
            on b mount "$CONTAINER" "$B_MOUNT"
            same "$(on b policy "$B/eager")" downloadEagerlyAndKeepDownloaded
            same "$(on a policy "$A/eager")" inherit
            """, timeout: 240)
      }
    }

    /// Space is counted from the files after a kill; what was used last is known as it was.
    @Test func countsAreExactAfterAKill() async throws {
      try await withAccount { account in
        try await device(account, "a", "{limit: 20MiB}")
        try await account.script(
          Self.tools + """
            for n in 1 2 3 4 5 6; do head -c 3000000 /dev/urandom > "$A/f$n"; done
            synced a
            cat "$A/f1" > /dev/null
            for round in 1 2 3; do
              (for n in $(seq 40); do head -c 50000 /dev/urandom >> "$A/grows" || break; done) 2> /dev/null &
              writer=$!
              sleep 0.$round
              touch killed; kill -9 "$(cat "$ROOT/a/daemon.lock")"; wait $writer || true
              with_space a '{limit: 20MiB}'
              on a unmount "$A_MOUNT"
              on a offline on
              on a mount "$CONTAINER" "$A_MOUNT"
              same "$(space a used)" "$(taken a)"
              on a offline off
              synced a
            done
            on a fsck
            # The first was used after the others: it stays, as it would have without the kills.
            for n in 7 8 9; do head -c 2500000 /dev/urandom > "$A/f$n"; synced a; done
            here "$A/f1"
            far "$A/f2"
            """, timeout: 240)
      }
    }

    /// Without a budget too, where the daemon does the writing. With passthrough the kernel tells
    /// nobody.
    @Test(.enabled(if: TestAccount.isRoot)) func aFullDiskEvictsBeforeAWriteFails() async throws {
      try await withAccount { account in
        try await account.device("a")
        account.know("b")
        try await account.script(
          Self.tools + """
            for n in $(seq 6); do head -c 6000000 /dev/urandom > "source$n"; cp "source$n" "$A/file$n"; done
            synced a
            mkdir "$ROOT/b" "$B_MOUNT"; mount -t tmpfs -o size=56m none "$ROOT/b"
            printf 'space: {limit: 1GiB}\\n' > b.yaml; export UBIQUITYFS_CONFIG=$PWD/b.yaml
            on b account sign-in --device-name b
            on b mount "$CONTAINER" "$B_MOUNT" -o passthrough=off
            synced b
            for n in $(seq 4); do cat "$B/file$n" > /dev/null; done
            # More than is left: what was read gives way, and the new one is whole.
            head -c 30000000 /dev/urandom > large
            cp large "$B/large"
            cmp large "$B/large"
            far "$B/file1"
            # A read makes room as well.
            synced b
            for n in 5 6 1 2 3; do cmp "source$n" "$B/file$n"; done
            # What cannot go is not lost, and then it is ENOSPC.
            on b offline on
            head -c 60000000 /dev/urandom > huge
            refused 'no space' cp huge "$B/huge"
            rm "$B/huge"
            on b offline off
            # What is removed frees the disk a moment later.
            until_true 60 cmp large "$B/large"
            """, timeout: 240)
      }
    }
  }
}
