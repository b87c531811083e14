import Testing

/// What the account may take, on real mounts.
extension EndToEnd {
  @Suite struct StorageTests {
    private static let figures = #"""
      # json EXPRESSION: of the document d on standard input, in Python
      json() {
        python3 -c 'import json, sys
      d = json.load(sys.stdin)
      found = eval(sys.argv[1])
      print(*(json.dumps(one, separators=(",", ":")) for one in (found if type(found) is list else [found])))
      ' "$1"
      }
      quota_of() { on "$1" account quota --json | json '[d.get("quota"), d["used"], d.get("left")]'; }
      # total, free and available bytes
      space() { stat -f -c '%b %f %a %S' "$1" | awk '{ print $1 * $4, $2 * $4, $3 * $4 }'; }
      says() { attribute uploadingError "$1" 2>/dev/null | grep > /dev/null '^quotaExceeded: '; }

      """#

    @Test func theAccountsAllotmentHoldsOnAllDevices() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.figures + #"""
            same "$(quota_of a)" 'null 0 null'
            local=$(space "$A_MOUNT" | cut -d ' ' -f 1)
            same "$local" "$(space "$ROOT" | cut -d ' ' -f 1)"
            on a account quota 1MiB
            same "$(quota_of a)" '1048576 0 1048576'
            same "$(space "$A_MOUNT")" '1048576 1048576 1048576'
            until_true 60 eval 'same "$(space "$B_MOUNT")" "1048576 1048576 1048576"'

            head -c 614400 /dev/urandom > "$A/first"
            synced a b
            same "$(space "$A_MOUNT")" '1048576 434176 434176'
            same "$(space "$B_MOUNT")" '1048576 434176 434176'
            df -B1 --output=used "$B_MOUNT" | grep -x > /dev/null ' *614400'

            # Beyond it stays, says so, and can be used. Offline: the name of a file that is being
            # written goes at once, when nobody knows yet how large it will be.
            on a offline on --quiet
            head -c 524288 /dev/urandom > "$A/beyond"
            echo small > "$A/small"
            on a offline off --quiet
            refused 'quotaExceeded.*1 file of 524288 bytes' on a sync --wait
            says "$A/beyond"
            same "$(attribute isUploaded "$A/beyond")" 0
            not says "$A/small"
            same "$(on a status --json | json 'len(d["containers"][0]["errors"])')" 1
            on b sync --wait
            same "$(ls "$B" | tr '\n' ' ')" 'first small '
            same "$(stat -c %s "$A/beyond")" 524288
            refused 'busy|open|not uploaded' on a evict "$A/beyond"
            before=$(sha256sum < "$A/beyond")

            # The other device makes room, and it goes by itself.
            rm "$B/first"
            on b sync --wait
            until_true 60 eval '[ "$(attribute isUploaded "$A/beyond")" = 1 ]'
            not says "$A/beyond"
            synced a b
            same "$(sha256sum < "$B/beyond")" "$before"
            same "$(on a status --json | json 'len(d["containers"][0]["errors"])')" 0

            # Of a changed file the others keep what they have; raising the quota on any device lets it go.
            head -c 1200000 /dev/urandom > "$B/beyond"
            refused quotaExceeded on b sync --wait
            on a sync --wait
            same "$(sha256sum < "$A/beyond")" "$before"
            on a account quota 2M
            until_true 60 eval '[ "$(attribute isUploaded "$B/beyond")" = 1 ]'
            on a sync --wait
            same "$(sha256sum < "$A/beyond")" "$(sha256sum < "$B/beyond")"

            # Offline it is known, and cannot be set.
            on b offline on
            same "$(on b account quota --json | json 'd["quota"]')" 2097152
            same "$(on b account quota --json | json '[d["isCurrent"], d["asOf"][:2]]')" 'false "20"'
            on b account quota | grep > /dev/null ', as of 20'
            on b storage | grep > /dev/null '^Quota .*, as of 20'
            same "$(on a account quota --json | json 'd["isCurrent"]')" true
            not eval 'on a account quota | grep "as of"'
            exits 4 on b account quota none
            on b unmount "$B_MOUNT"
            pid=$(on b status --json | json 'd["daemon"]["pid"]')
            kill "$pid"; until_true 30 eval '[ ! -e /proc/$pid ]'
            on b mount "$CONTAINER" "$B_MOUNT"
            same "$(space "$B_MOUNT" | cut -d ' ' -f 1)" 2097152
            on b offline off
            on a account quota none
            same "$(space "$A_MOUNT" | cut -d ' ' -f 1)" "$local"
            until_true 60 eval 'same "$(space "$B_MOUNT" | cut -d " " -f 1)" "$local"'
            same "$(on a account quota)" "$(on a account quota | grep 'Quota none, ')"
            exits 2 on a account quota lots
            """#, timeout: 300)
      }
    }

    /// A package goes whole or not at all, and containers that are not on a device count there too.
    @Test func otherContainersAndPackagesCount() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.figures + #"""
            other=iCloud.org.example.other
            mkdir "$ROOT/other"
            on a mount "$other" "$ROOT/other"
            head -c 500000 /dev/urandom > "$ROOT/other/Documents/theirs"
            on a sync --wait
            on a unmount "$ROOT/other"
            """#)
        try await account.device("b")
        try await account.script(
          Self.figures + #"""
            other=iCloud.org.example.other
            on a account quota 800k
            # What the other container takes, the device that has it open tells.
            until_true 60 eval 'same "$(quota_of b)" "819200 500000 319200"'
            mkdir "$B/p.pages"
            head -c 200000 /dev/urandom > "$B/p.pages/one"
            head -c 200000 /dev/urandom > "$B/p.pages/two"
            refused quotaExceeded on b sync --wait
            on a sync --wait
            [ ! -e "$A/p.pages" ]
            on b status --json "$B/p.pages" | json 'd["items"][0]["uploadingError"]' | grep > /dev/null '^"quotaExceeded'
            same "$(on b storage --json | json '[[c["id"], c["totalBytes"], c.get("documents"),
              c.get("waitingBytes")] for c in d["containers"]]')" \
              '["iCloud.org.example.other",500000,null,null] ["iCloud.org.example.test",0,1,400000]'

            # A container that is not here is brought, its names alone, to see and delete what is in it.
            same "$(on b storage "$other" --json |
              json '[[x["path"], x["size"], x["isUploaded"]] for x in d["documents"]]')" \
              '["Documents/theirs",500000,true]'
            on b storage delete "$other" --document Documents/theirs --yes
            until_true 60 eval '[ "$(attribute isUploaded "$B/p.pages")" = 1 ]'
            on a sync --wait
            same "$(cat "$A/p.pages/one" "$A/p.pages/two" | sha256sum)" \
              "$(cat "$B/p.pages/one" "$B/p.pages/two" | sha256sum)"
            same "$(on a storage "$other" --json | json '[d["totalBytes"], d["removedBytes"]]')" '0 500000'
            """#, timeout: 300)
      }
    }

    @Test func storageListsDocumentsAndOtherDataAndDeletesThem() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.figures + #"""
            bytes() { head -c "$1" /dev/zero | tr '\0' "$2"; }
            mkdir -p "$A/sub/deep" "$A/draw.pages/media" "$A_MOUNT/Data/cache" "$A/kept.nosync"
            bytes 3000 a > "$A/sub/deep/three"
            bytes 1000 b > "$A/one"
            bytes 2500 c > "$A/draw.pages/text"; bytes 2500 d > "$A/draw.pages/media/picture"
            bytes 70 e > "$A_MOUNT/Data/cache/x"; bytes 7 f > "$A_MOUNT/settings"
            bytes 5 g > "$A/kept.nosync/mine"; mkdir "$A_MOUNT/Data/own.nosync"
            bytes 5 h > "$A_MOUNT/Data/own.nosync/mine"
            synced a b

            on b storage "$CONTAINER" --json > shown
            same "$(json '[[x["path"], x["kind"], x["size"]] for x in d["documents"]]' < shown)" \
              '["Documents/draw.pages","package",5000] ["Documents/sub/deep/three","file",3000] '\
            '["Documents/one","file",1000]'
            same "$(json '[d[k] for k in ("totalBytes", "documentBytes", "otherBytes", "conflictVersions")]' \
              < shown)" '9077 9000 77 0'
            on b storage "$CONTAINER" | grep > /dev/null 'Other data *77 B'
            same "$(on b storage --json |
              json '[d["containers"][0][k] for k in ("totalBytes", "documents", "otherBytes")]')" '9077 3 77'
            on b storage | grep > /dev/null '^Quota none, 8.9 KiB used$'
            exits 3 on b storage iCloud.org.example.nothing
            exits 2 on b storage notes

            # Without a yes nothing goes, and what would is said.
            exits 2 on b storage delete "$CONTAINER" --document Documents/one
            refused '1 document .1 item, 1000 B. of .*--yes' \
              on b storage delete "$CONTAINER" --document Documents/one < /dev/null
            refused '3 documents .* of .*--yes' on b storage delete "$CONTAINER" --all
            exits 3 on b storage delete "$CONTAINER" --document Documents/two --yes
            exits 2 on b storage delete "$CONTAINER" --document Documents/sub --yes
            exits 2 on b storage delete "$CONTAINER" --document Documents/draw.pages/text --yes
            exits 2 on b storage delete "$CONTAINER" --document settings --yes
            exits 6 on a storage delete "$CONTAINER" --document "$A/kept.nosync" --yes
            same "$(on b storage "$CONTAINER" --json | json 'd["totalBytes"]')" 9077

            # A claim is waited for.
            mkfifo hold
            on a coordinate read "$A/one" -- cat hold > /dev/null & reader=$!
            exec 3> hold
            on a storage delete "$CONTAINER" --document "$A/one" --yes 3>&- & deleter=$!
            # Nothing tells that the deletion does not happen.
            sleep 1; [ -e "$A/one" ]
            exec 3>&-; wait "$reader"; wait "$deleter"
            [ ! -e "$A/one" ]

            # Documents, by where they are mounted and by their place in the container.
            exec 4< "$A/draw.pages/text"
            same "$(on a storage delete "$CONTAINER" --document Documents/draw.pages "$A/sub/deep/three" --yes \
              --json | json '[d[k] for k in ("documents", "items", "bytes", "isDone")]')" '2 5 8000 true'
            [ ! -e "$A/draw.pages" ] && [ ! -e "$A/sub/deep/three" ] && [ -d "$A/sub/deep" ]
            same "$(cat <&4 | wc -c)" 2500
            exec 4<&-
            synced a b
            same "$(ls "$B")" sub
            same "$(on a storage "$CONTAINER" --json |
              json '[d[k] for k in ("totalBytes", "otherBytes", "removedBytes")]')" '77 77 9000'

            # Other data goes as a whole, from a container that is not mounted; what never leaves stays.
            on a unmount "$A_MOUNT"
            on a storage delete "$CONTAINER" --other-data --yes | grep > /dev/null '1 that never leave this device stay'
            on a sync --wait
            on b sync --wait
            same "$(cd "$B_MOUNT" && find . -mindepth 1 | LC_ALL=C sort | tr '\n' ' ')" \
              './Data ./Documents ./Documents/sub ./Documents/sub/deep '
            on a mount "$CONTAINER" "$A_MOUNT"
            same "$(find "$A_MOUNT" -name mine -printf '%P\n' | sort | tr '\n' ' ')" \
              'Data/own.nosync/mine Documents/kept.nosync/mine '

            # Removals as all others: they come back.
            on b trash restore "$(on b trash list --json |
              json '[x["id"] for x in d["items"] if x["path"].endswith("/one")]' | tr -d '"')"
            on a sync --wait
            same "$(wc -c < "$A/one")" 1000
            """#, timeout: 300)
      }
    }

    @Test("storage tells of deletions that the guard holds and of containers that cannot be opened")
    func heldDeletionsAndFailures() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.figures + #"""
            mkdir "$A/many"
            for n in $(seq 300); do echo "$n" > "$A/many/$n"; done
            echo 1 > "$A/other"
            synced a b
            # One removal that nobody has confirmed is there already.
            on b offline on
            rm "$B/other"
            exits 5 on b storage delete "$CONTAINER" --all --yes 2> held
            grep '^Deleted 300 documents .*, only on this device\.$' held
            grep '^ubiquityfs: .*paused.*--confirm-deletions' held
            on b offline off
            exits 5 on b sync --wait --timeout 60
            on a sync --wait
            same "$(ls "$A/many" | wc -l)" 300
            on b sync --wait --timeout 60 --confirm-deletions "$B"
            synced b a
            same "$(find "$A_MOUNT" -mindepth 1 -printf '%P\n')" Documents

            on b unmount "$B_MOUNT"
            pid=$(on b status --json | json 'd["daemon"]["pid"]')
            kill "$pid"; until_true 30 eval '[ ! -e /proc/$pid ]'
            find "$ROOT/b" -name 'catalog.sqlite' -exec sh -c 'echo garbage > "$1"' - {} \;
            find "$ROOT/b" -name 'catalog.sqlite-*' -delete
            on b storage --json | json '[c["error"] for c in d["containers"]]' | grep > /dev/null '^"'
            on b storage | grep > /dev/null 'cannot be opened: '
            not eval 'on b storage | grep "not on this device"'
            """#, timeout: 240)
      }
    }

    /// The guard against mass deletions has its yes already.
    @Test func allOfAContainerIsDeletedWithoutAskingTwice() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.figures + #"""
            mkdir "$A/many" "$A_MOUNT/Data"
            for n in $(seq 300); do echo "$n" > "$A/many/$n"; echo "$n" > "$A_MOUNT/Data/$n"; done
            synced a b
            on b storage delete "$CONTAINER" --all --yes --quiet
            same "$(find "$B_MOUNT" -mindepth 1 -printf '%P\n')" Documents
            synced b a
            same "$(find "$A_MOUNT" -mindepth 1 -printf '%P\n')" Documents
            same "$(on a storage "$CONTAINER" --json | json '[d["totalBytes"], len(d["documents"])]')" '0 0'
            """#, timeout: 240)
      }
    }
  }
}
