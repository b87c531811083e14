import Testing

/// A container that another device deletes, and one that only seems to be gone.
extension EndToEnd {
  @Suite struct ContainerDeletionTests {
    @Test("a container that another device deletes stays readable, and costs no requests")
    func deletedElsewhere() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          echo shared > "$A/shared"; echo placeholder > "$A/placeholder"
          synced a b
          same "$(cat "$B/shared")" shared
          on b events "$B_MOUNT" > events & events=$!
          until_true 10 test -e events
          heard() { touch "$B/probe.nosync"; grep -q probe events; }
          until_true 20 heard
          rm "$B/probe.nosync"
          on a unmount "$A_MOUNT"
          on a container delete "$CONTAINER" --yes
          told() { on b status | grep 'was deleted on' >/dev/null; }
          echo 'not uploaded' > "$B/late"; mkdir "$B/folder"; echo deep > "$B/folder/deep"
          until_true 30 told
          exits 3 on b sync --wait --timeout 20
          until_true 10 grep -q containerDeleted events
          kill $events
          grep -q 'was deleted on' "$ROOT/b/daemon.log"
          # All that is local is readable.
          same "$(cat "$B/shared" "$B/late" "$B/folder/deep" | tr '\\n' ' ')" 'shared not uploaded deep '
          not cat "$B/placeholder"
          attribute downloadingError "$B/placeholder" | grep 'deleted' >/dev/null
          same "$(attribute isUploaded "$B/shared")" 0
          not on b evict "$B/shared"
          same "$(cat "$B/shared")" shared
          requests() { on b status --json | python3 -c 'import json,sys
          traffic = json.load(sys.stdin)["traffic"]["requests"]; print(sum(traffic.values()))'; }
          before=$(requests)
          # Nothing tells that more requests do not happen.
          echo more > "$B/more"; sleep 5
          after=$(requests)
          echo "requests in 5 s: $((after - before))" >&2
          [ $((after - before)) -le 5 ]
          """)
      }
    }

    @Test("what a device has of a deleted container is set aside with its names, and restored")
    func setAside() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          """
          echo one > "$A/one"; synced a b; cat "$B/one"
          on b offline on
          mkdir -p "$B/a folder/below"
          printf 'never uploaded' > "$B/a folder/below/näme"
          touch -d '2020-02-02 02:02:02.123456789' "$B/a folder/below/näme"
          ln -s target "$B/link"; chmod 600 "$B/one"
          setfattr -n user.color -v blue "$B/one"
          on a unmount "$A_MOUNT"
          on a container delete "$CONTAINER" --yes
          same "$(find "$CLOUD" -path '*/packs/*' -type f | wc -l)" 0
          on b offline off
          told() { on b status | grep 'was deleted on' >/dev/null; }
          until_true 30 told
          on b unmount "$B_MOUNT"
          on b mount "$CONTAINER" "$B_MOUNT" 2>&1 | grep 'set-aside' >/dev/null
          same "$(ls "$B")" ''
          on b container set-aside list | grep '2 files' >/dev/null
          on b container set-aside list --json | grep '"pendingUploads":[1-9]' >/dev/null
          on b container set-aside restore "$CONTAINER" "$WORK/back"
          same "$(cat "$WORK/back/Documents/a folder/below/näme")" 'never uploaded'
          same "$(stat -c %y "$WORK/back/Documents/a folder/below/näme")" \\
            '2020-02-02 02:02:02.123456789 +0000'
          same "$(cat "$WORK/back/Documents/one")" one
          same "$(stat -c %a "$WORK/back/Documents/one")" 600
          same "$(readlink "$WORK/back/Documents/link")" target
          same "$(getfattr --only-values -n user.color "$WORK/back/Documents/one")" blue
          exits 5 on b container set-aside restore "$CONTAINER" "$WORK/back"
          exits 3 on b container set-aside restore none
          exits 2 on b container set-aside remove "$CONTAINER"
          on b container set-aside remove "$CONTAINER" --yes
          same "$(on b container set-aside list)" ''
          # The new container of this name works on both devices.
          cp -a "$WORK/back/Documents/." "$B/"
          synced b
          on a mount "$CONTAINER" "$A_MOUNT"
          synced a
          same "$(cat "$A/a folder/below/näme")" 'never uploaded'
          """)
      }
    }

    @Test("a file that cannot be restored keeps no other from it, and comes with a second try")
    func restoreGoesOn() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          mkdir -p "$A/d/e"
          for name in 1 2 3; do echo "$name" > "$A/$name"; echo "e$name" > "$A/d/e/$name"; done
          chmod 500 "$A/d/e"
          # Longer than a path may be.
          (cd "$A/d"; name=$(printf '%0200d' 0)
           for n in $(seq 30); do mkdir $name; cd $name; done; echo deep > bottom)
          synced a
          on a unmount "$A_MOUNT"
          on a container set-aside add "$CONTAINER"
          # The content files of 2 and of d/e/2.
          mkdir lost
          for text in 2 e2; do
            mv $(grep -rlx "$text" "$ROOT/a/set-aside"/*/content) lost/$text
          done
          status=0; on a container set-aside restore "$CONTAINER" back > told 2> errors || status=$?
          same $status 1
          grep -q '^not copied  Documents/2: its content file .* cannot be read: No such file' told
          grep -q '^not copied  Documents/d/e/2: ' told
          same "$(grep -c '^not copied' told)" 2
          grep -q 'ubiquityfs: 2 items of .*--continue' errors
          cd back/Documents
          same "$(cat 1 3 d/e/1 d/e/3 | tr '\n' ' ')" '1 3 e1 e3 '
          same "$(ls -A . d/e | tr '\n' ' ')" '.: 1 3 d  d/e: 1 3 '
          same "$(stat -c %a d/e)" 500
          same "$(cd d; for n in $(seq 30); do cd 0*; done; cat bottom)" deep
          echo changed > 3; cd "$WORK"
          # Again, as it is; then with all that is to be had.
          exits 5 on a container set-aside restore "$CONTAINER" back
          status=0
          on a container set-aside restore "$CONTAINER" back --continue --json > json || status=$?
          same $status 1
          python3 -c 'if True:
            from json import load
            from sys import stdin
            r = load(stdin)
            assert (r["files"], r["failed"], r["kept"]) == (0, 2, 5), r
            paths = sorted(f["path"] for f in r["failures"])
            assert paths == ["Documents/2", "Documents/d/e/2"], r' < json
          for path in 2 d/e/2; do
            key=$(grep "^not copied  Documents/$path: its content file " told)
            key=${key#*its content file }; key=${key% cannot*}
            mv "lost/$(echo $path | tr -d d/)" "$key"
          done
          on a container set-aside restore "$CONTAINER" back --continue
          cd back/Documents
          # The existing files stay as they are.
          same "$(cat 1 2 3 d/e/1 d/e/2 d/e/3 | tr '\n' ' ')" '1 2 changed e1 e2 e3 '
          same "$(stat -c %a d/e)" 500
          """)
      }
    }

    @Test("a name object that the backend hides makes no device set anything aside")
    func hiddenName() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo kept > "$A/kept"; synced a
          on a unmount "$A_MOUNT"
          mv "$CLOUD/names" hidden
          on a mount "$CONTAINER" "$A_MOUNT" 2>&1 | grep 'no record says' >/dev/null
          same "$(cat "$A/kept")" kept
          [ ! -e "$ROOT/a/set-aside" ]
          [ ! -e "$CLOUD/names" ] || same "$(ls "$CLOUD/names")" ''
          # Or the whole backend is not what it was.
          on a unmount "$A_MOUNT"
          mv "$CLOUD/containers" hidden-containers
          on a mount "$CONTAINER" "$A_MOUNT" >&2
          same "$(cat "$A/kept")" kept
          echo new > "$A/new"
          not on a sync --wait --timeout 10
          [ ! -e "$ROOT/a/set-aside" ]
          mkdir -p "$CLOUD/names"; cp -a hidden/. "$CLOUD/names/"
          rm -rf "$CLOUD/containers"; mv hidden-containers "$CLOUD/containers"
          synced a
          same "$(attribute isUploaded "$A/new")" 1
          on a store verify --read-data
          """)
      }
    }

    @Test("a container that the backend does not have any more can be set aside by command")
    func setAsideByCommand() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          """
          echo kept > "$A/kept"; synced a
          exits 5 on a container set-aside add "$CONTAINER"
          on a unmount "$A_MOUNT"
          rm -rf "$CLOUD/names" "$CLOUD/containers"
          on a container set-aside add "$CONTAINER"
          on a mount "$CONTAINER" "$A_MOUNT"
          same "$(ls "$A")" ''
          echo new > "$A/new"; synced a
          on a container set-aside restore "$CONTAINER"
          same "$(cat "$CONTAINER/Documents/kept")" kept
          """)
      }
    }
  }
}
