import Testing

/// Programs on UbiquityKit (Tests/KitScenarios) as processes of their own, against real daemons.
/// Each test says where what it does is from.
extension EndToEnd {
  @Suite struct UbiquityKitTests {
    /// `kit DEVICE SCENARIO ARGUMENT...`; `stops DEVICE` ends the daemon of a device.
    static let kit = """
      kit() { local device=$1; shift; UBIQUITYFS_STATE=$ROOT/$device UBIQUITYFS_CONTAINERS=$CONTAINER KitScenarios "$@"; }
      stopped() { ! kill -0 "$1" 2>/dev/null; }
      stops() {
        local pid
        pid=$(on "$1" status --json | sed 's/.*"pid":\\([0-9]*\\).*/\\1/')
        kill "$pid"; until_true 60 stopped "$pid"
      }

      """

    // MARK: The account

    /// iCloud Design Guide, Listing 1-1, "Obtaining the iCloud token"; WWDC 2012, session 209, on
    /// finding an account.
    @Test func listing1_1_theTokenIsOfTheAccount() async throws {
      try await withAccount { account in
        try await account.script(
          Self.kit + #"""
            same "$(kit a listing-1-1)" 'signed out'
            on a account sign-in; on b account sign-in
            TOKEN=$(kit a listing-1-1)
            same "$(kit a listing-1-1)" "$TOKEN"; same "$(kit b listing-1-1)" "$TOKEN"
            # Nothing of what the account must keep to itself.
            not grep -qF "$(on a account secret)" <<<"$TOKEN"
            # Airplane mode, and no daemon: the account stays signed in.
            on a offline on
            same "$(kit a listing-1-1)" "$TOKEN"
            kill "$(on a status --json | sed 's/.*"pid":\([0-9]*\).*/\1/')"
            same "$(kit a listing-1-1)" "$TOKEN"
            on a offline off; on a account sign-out
            same "$(kit a listing-1-1)" 'signed out'
            # Another account is another token, and the same one again the same.
            on a account sign-in --backend "file://$ROOT/other-cloud"
            not test "$(kit a listing-1-1)" = "$TOKEN"
            on a account sign-out; on a account sign-in
            same "$(kit a listing-1-1)" "$TOKEN"
            """#)
      }
    }

    /// iCloud Design Guide, Listing 1-2, "Archiving iCloud availability in the user defaults
    /// database".
    @Test func listing1_2_theTokenIsArchivedAndCompared() async throws {
      try await withAccount { account in
        try await account.script(
          Self.kit + #"""
            same "$(kit a listing-1-2)" 'no account'
            on a account sign-in
            same "$(kit a listing-1-2)" 'first account'
            same "$(kit a listing-1-2)" 'same account'
            on a account sign-out; on a account sign-in --backend "file://$ROOT/other-cloud"
            same "$(kit a listing-1-2)" 'other account'
            on a account sign-out
            same "$(kit a listing-1-2)" 'signed out'
            """#)
      }
    }

    /// iCloud Design Guide, Listing 1-3, "Registering for iCloud availability change
    /// notifications", and "Handle Changes in iCloud Availability"; WWDC 2012, session 209, on its
    /// change.
    @Test func listing1_3_whoSignsInAndOutIsHeardOf() async throws {
      try await withAccount { account in
        try await account.script(
          Self.kit + #"""
            said() { [ "$(tail -n 1 "$WORK/said")" = "$1" ]; }
            kit a listing-1-3 4 > "$WORK/said" &
            until_true 20 said observing
            on a account sign-in; until_true 20 said 'account there'
            on a offline on; on a offline off
            on a account sign-out; until_true 20 said 'account gone'
            # A daemon that ends and one that begins are no change; what happens then is told.
            stops a
            on a account sign-in; until_true 20 said 'account there'
            stops a
            on a status > /dev/null
            on a account sign-out; until_true 20 said 'account gone'
            wait $!
            same "$(grep -c account "$WORK/said")" 4
            """#)
      }
    }

    /// iCloud Design Guide, Listing 1-4, "Inviting the user to use iCloud".
    @Test func listing1_4_theUserIsInvitedOnce() async throws {
      try await withAccount { account in
        try await account.script(
          Self.kit + #"""
            same "$(kit a listing-1-4 'Use iCloud')" 'not asked'
            on a account sign-in
            same "$(kit a listing-1-4 'Use iCloud')" 'Choose Storage Option: Local Only / Use iCloud'
            same "$(kit a listing-1-4 'Use iCloud')" 'not asked'
            """#)
      }
    }

    /// iCloud Design Guide, Listing 1-5, "Obtaining the URL to your ubiquity container"; WWDC 2012,
    /// session 209, on the container that is made when it is first asked for.
    @Test func listing1_5_theContainerIsMadeAndMounted() async throws {
      try await withAccount { account in
        try await account.device("b")
        try await account.script(
          Self.kit + #"""
            # Nobody is signed in: nil, and no permission is why.
            same "$(kit a listing-1-5)" 'none: 257'
            not test -e "$ROOT/a/control.sock"
            on a account sign-in
            place=$(kit a listing-1-5)
            same "$place" "$ROOT/a/mounts/$CONTAINER"
            same "$(kit a listing-1-5 "$CONTAINER")" "$place"
            same "$(kit a container "$CONTAINER" iCloud.org.example.other)" "$place"
            # Made at the first use, with its one directory.
            made=$(kit a container iCloud.org.example.made)
            same "$(ls -A "$made")" Documents
            synced a b
            same "$(cat "$B/listing-1-5.txt")" 'written by listing 1-5'
            # Where it is mounted already it is used; two at the same time get one mount.
            same "$(kit b listing-1-5)" "$B_MOUNT"
            on a unmount "$place"
            kit a listing-1-5 > one & kit a listing-1-5 > other; wait $!
            same "$(cat one other)" "$place
            $place"
            # Offline what is here is had, and what is not here is not.
            on a unmount "$place"; on a offline on
            same "$(kit a listing-1-5)" "$place"
            same "$(kit a listing-1-5 iCloud.org.example.elsewhere)" 'none: 4355'
            same "$(kit a listing-1-5 'no container')" 'none: 258'
            on a offline off; synced a
            # A daemon that was killed leaves a dead mount there: it is mounted anew.
            touch "$WORK/killed"
            kill -9 "$(on a status --json | sed 's/.*"pid":\([0-9]*\).*/\1/')"
            same "$(kit a listing-1-5)" "$place"
            on a unmount "$ROOT/a/mounts/iCloud.org.example.made"
            """#)
      }
    }

    // MARK: Items

    /// iCloud Design Guide, "Your App Can Help Manage Local Storage in Some Cases" and "App
    /// Responsibilities for Using iCloud Documents".
    @Test func itemsAreDownloadedAndEvicted() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.kit + #"""
            head -c 3000000 /dev/urandom > "$A/film"; mkdir "$A/d"; seq 100 > "$A/d/one"; seq 200 > "$A/d/two"
            synced a b
            echo plain > outside
            same "$(kit b is-ubiquitous "$B/film" "$B/d" "$B_MOUNT" outside "$B/nothing" | tr '\n' ' ')" \
              'true true true false false '
            ln -s film "$B/link"; mkfifo "$B/fifo"; cur=$(ls "$B_MOUNT/.ubiquity/versions/Documents/film")
            same "$(kit b is-ubiquitous "$B/link" "$B/fifo" "$B_MOUNT/.ubiquity/versions" "$B_MOUNT/.ubiquity/versions/Documents/film/$cur" | tr '\n' ' ')" \
              'true true false false '
            is_here() { [ "$(attribute downloadingStatus "$1")" = current ]; }
            is_gone() { [ "$(kit b evict "$1")" = done ] && [ "$(attribute downloadingStatus "$1")" = notDownloaded ]; }
            not is_here "$B/film"
            same "$(kit b start-download "$B/film")" done; until_true 30 is_here "$B/film"
            cmp "$A/film" "$B/film"
            same "$(kit b start-download "$B/film")" done
            until_true 10 is_gone "$B/film"; same "$(stat -c %b "$B/film")" 1
            same "$(kit b download "$B/film")" done; is_here "$B/film"
            same "$(kit b download "$B/d")" done; is_here "$B/d/one"; is_here "$B/d/two"
            until_true 10 is_gone "$B/d/one"
            both_gone() { [ "$(kit b evict "$B/d")" = done ] && not is_here "$B/d/two"; }
            until_true 10 both_gone
            same "$(kit b download-all "$B/d")" 'one asked for
            two asked for'
            until_true 30 is_here "$B/d/two"
            # Changed elsewhere: it waits for the newer one.
            seq 300 > "$A/d/two"; synced a
            same "$(kit b download "$B/d/two")" done
            # What cannot be, with the code that says why.
            exec 3< "$B/d/one"; until_true 5 is_here "$B/d/one"; same "$(kit b evict "$B/d/one")" 255; exec 3<&-
            same "$(on b coordinate write "$B/d/two" -- bash -c "UBIQUITYFS_STATE=$ROOT/b KitScenarios evict '$B/d/two'")" 255
            echo 1 > "$B/x.nosync"; same "$(kit b evict "$B/x.nosync")" 513
            same "$(kit b evict "$WORK/outside")" 4; same "$(kit b download "$B/nothing")" 260
            until_true 10 is_gone "$B/film"; on b offline on
            same "$(kit b start-download "$B/film")" 4355; same "$(kit b download "$B/film")" 4355
            same "$(kit b download "$B/d/two")" done
            """#)
      }
    }

    /// The iOS 5 Tech Talk, "Telling the State of a File", and every other key.
    @Test func valuesTellWhereAnItemIs() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.kit + #"""
            seq 1000 > "$A/file"; ln -s file "$A/link"; echo 1 > "$A/x.nosync"; echo plain > outside
            synced a b
            same "$(kit a state-of-a-file "$A/file")" 'no conflict, here, sent'
            same "$(kit b state-of-a-file "$B/file")" 'no conflict, 0 % here, sent'
            same "$(kit b state-of-a-file outside)" local
            same "$(kit b values "$B/file" | tr '\n' ' ')" "IsUbiquitousItemKey=true ContainerDisplayNameKey=test \
            DownloadRequestedKey=false DownloadingStatusKey=NSURLUbiquitousItemDownloadingStatusNotDownloaded \
            HasUnresolvedConflictsKey=false IsDownloadedKey=false IsDownloadingKey=false IsExcludedFromSyncKey=false \
            IsUploadedKey=true IsUploadingKey=false PercentDownloadedKey=0.0 PercentUploadedKey=100.0 "
            same "$(kit a values "$A/file" | grep Status)" 'DownloadingStatusKey=NSURLUbiquitousItemDownloadingStatusCurrent'
            same "$(kit a values "$A/link" | grep -c IsUploadedKey=true)" 1
            same "$(kit a values "$A/x.nosync" | grep -c IsExcludedFromSyncKey=true)" 1
            same "$(kit b values outside)" 'IsUbiquitousItemKey=false'
            # An attribute of that name elsewhere is no container's.
            setfattr -n user.ubiquity.status -v '{}' outside && same "$(kit b values outside)" 'IsUbiquitousItemKey=false'
            refused 260 bash -c "KitScenarios values '$B/nothing'"
            # By its name it stays here, and is sent again.
            same "$(kit a exclude "$A/file")" 'file.nosync
            done'
            synced a b; [ ! -e "$B/file" ]
            same "$(kit a include "$A/file.nosync")" 'file
            done'
            synced a b; [ -e "$B/file" ]
            mkdir "$A/keep.nosync"; echo 1 > "$A/keep.nosync/in"
            same "$(kit a include "$A/keep.nosync/in")" 3328
            # Nothing is on its way any more.
            synced a b a b
            """#)
        try await account.script(
          Self.kit + #"""
            before=$(downloads_of b)
            for n in 1 2 3; do kit b values "$B/file"; kit b state-of-a-file "$B/file"; done
            same "$(downloads_of b)" "$before"
            same "$(attribute localBytes "$B/file")" 0
            """#)
      }
    }

    /// The keys that say why content does not come or go.
    @Test(.enabled(if: TestAccount.isRoot)) func errorsAreAnItemsValues() async throws {
      try await withAccount { account in
        try await account.script("mkdir \"$CLOUD\"; mount -t tmpfs none \"$CLOUD\"")
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.kit + #"""
            head -c 3000000 /dev/urandom > "$A/file"; synced a b
            value() { kit "$1" values "$2" | grep "^$3=" || true; }
            same "$(value b "$B/file" DownloadingErrorKey)" ''
            find "$CLOUD" -path '*/packs/*' -type f > packs; [ -s packs ]; chmod -R u+w "$CLOUD"
            while read -r pack; do cp -p "$pack" "$pack.kept"; truncate -s 1000 "$pack"; done < packs
            same "$(kit b download "$B/file")" 4353
            same "$(value b "$B/file" DownloadingErrorKey)" 'DownloadingErrorKey=NSCocoaErrorDomain 4353'
            while read -r pack; do mv "$pack.kept" "$pack"; done < packs
            same "$(kit b download "$B/file")" done; cmp "$A/file" "$B/file"
            same "$(value b "$B/file" DownloadingErrorKey)" ''
            # No room in the backend.
            mount -o remount,size=4M "$CLOUD"; head -c 6000000 /dev/urandom > "$A/large"
            full() { [ "$(value a "$A/large" UploadingErrorKey)" = 'UploadingErrorKey=NSCocoaErrorDomain 4354' ]; }
            until_true 30 full
            mount -o remount,size=100M "$CLOUD"; synced a
            same "$(value a "$A/large" UploadingErrorKey)" ''
            """#)
      }
    }

    // MARK: Moving

    /// The iOS 5 Tech Talk, "Moving a File into or out of the Ubiquity Container".
    @Test func itemsMoveIntoAContainerAndOut() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.kit + #"""
            seq 1000 > note; touch -d '2001-02-03 04:05:06.789' note; setfattr -n user.tag -v red note; chmod 640 note
            cp -a note was
            same "$(kit a move in note "$A/note")" done
            [ ! -e note ]; cmp was "$A/note"; same "$(stat -c '%y %a' "$A/note")" "$(stat -c '%y %a' was)"
            same "$(getfattr --only-values -n user.tag "$A/note")" red
            source_tree tree; cp -a tree copy
            same "$(kit a move in tree "$A/tree")" done
            [ ! -e tree ]; (cd "$A/tree" && sha256sum --quiet -c SHA256SUMS)
            same "$(listing "$A/tree")" "$(listing copy)"
            same "$(find "$A_MOUNT" -name '.moving*')" ''
            synced a b
            same "$(getfattr --only-values -n user.tag "$B/note")" red; cmp was "$B/note"
            same "$(listing "$B/tree")" "$(listing copy)"
            # Out of it on the other device, where nothing of it is here: it comes first.
            same "$(kit b move out "$B/tree" "$WORK/tree")" done
            same "$(listing tree)" "$(listing copy)"; (cd tree && sha256sum --quiet -c SHA256SUMS)
            same "$(kit b move out "$B/note" "$WORK/note")" done; cmp was note
            [ ! -e "$B/note" ]; [ ! -e "$B/tree" ]
            same "$(find "$B_MOUNT" "$WORK" -name '.moving*')" ''
            on b sync --wait --confirm-deletions >&2; synced a
            [ ! -e "$A/note" ]; [ ! -e "$A/tree" ]
            same "$(kit a move-async in note "$A/again")$(kit a move-async out "$A/again" back)" donedone; cmp back was
            """#, timeout: 240)
      }
    }

    /// In a mount where plain opens wait for claims, the mover's own do not.
    @Test func itemsMoveWhereClaimsAreMandatory() async throws {
      try await withAccount { account in
        try await account.device("a", mountOptions: "coordination=mandatory")
        try await account.script(
          Self.kit + #"""
            mkdir tree; seq 1000 > tree/one; seq 2000 > tree/two; cp -a tree copy
            same "$(kit a move in tree "$A/tree")" done; same "$(listing "$A/tree")" "$(listing copy)"
            synced a; until_true 10 evicts "$A/tree/one"
            same "$(kit a move out "$A/tree" "$WORK/tree")" done; same "$(listing tree)" "$(listing copy)"
            diff -r tree copy
            """#)
      }
    }

    @Test func whatCannotMoveStaysWhereItIs() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.kit + #"""
            echo 1 > one; echo 2 > "$A/two"; echo 3 > "$A/three"; synced a b
            same "$(kit a move in one "$A/two")" 516
            same "$(kit a move in nothing "$A/one")" 4
            same "$(kit a move in one "$A/nowhere/one")" 4
            same "$(kit a move in one elsewhere)" 3328
            same "$(kit a move in "$A/two" "$A/other")" 3328
            same "$(kit a move out one elsewhere)" 3328
            same "$(kit a move out "$A/two" "$A/other")" 3328
            same "$(kit a move out "$A/two" one)" 516
            mkdir with; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("with/socket")'
            not test "$(kit a move in with "$A/with")" = done
            on b offline on
            same "$(kit b move out "$B/three" "$WORK/three")" 4355
            same "$(cat one "$A/two" "$A/three" | tr '\n' ' ')" '1 2 3 '
            same "$(ls -A "$A" | tr '\n' ' ')" 'three two '; same "$(ls -A "$A_MOUNT")" Documents
            [ -S with/socket ]; [ ! -e three ]; same "$(find "$WORK" -name '.moving*')" ''
            # It waits for who has what it moves. Nothing tells when it waits.
            on a coordinate write "$A/two" -- bash -c 'touch held; sleep 2; echo 4 > "$0"' "$A/two" &
            until_true 10 test -e held
            same "$(kit a move out "$A/two" moved)" done; same "$(cat moved)" 4; wait $!
            """#)
      }
    }

    /// Killed at any step, it is whole in one of the two places at least, and never by half in the
    /// container; what was made ready is removed by the next move. A full disk moves nothing.
    @Test func aMoveThatIsKilledLosesNothing() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.kit + #"""
            mkdir -p tree/1 tree/2; for n in $(seq 20); do seq "$n" 300 > "tree/$((n % 2 + 1))/$n"; done; ln -s 1 tree/link
            cp -a tree copy; expected=$(listing copy)
            whole() { [ "$(listing "$1")" = "$expected" ]; }
            killed() { exits 137 env UBIQUITYFS_STATE="$ROOT/a" UBIQUITYFS_FAULT="$1" KitScenarios "${@:2}"; }
            leftovers() { find "$A_MOUNT" "$WORK" -maxdepth 1 -name '.moving*' | wc -l; }
            for point in kit.copy:1 kit.copy:2 kit.copy:13 kit.copy:24 kit.in.ready; do
              killed "$point" move in "$WORK/tree" "$A/tree"
              whole tree; [ ! -e "$A/tree" ]
            done
            same "$(leftovers)" 1
            for point in kit.in.placed kit.remove:1 kit.remove:2 kit.remove:17; do
              rm -rf "$A/tree"; rm -rf tree; cp -a copy tree
              # The places that it removes first are those of who was killed before.
              kit a move in "$WORK/copy" "$A/none/copy" >&2; echo 1 > one; kit a move in one "$A/one" >&2; rm "$A/one"
              same "$(leftovers)" 0
              killed "$point" move in "$WORK/tree" "$A/tree"
              whole "$A/tree"
            done
            whole tree || [ -e tree ]; rm -rf tree
            for point in kit.copy:1 kit.copy:13 kit.out.ready; do
              killed "$point" move out "$A/tree" "$WORK/tree"
              whole "$A/tree"; [ ! -e tree ]
            done
            killed kit.out.placed move out "$A/tree" "$WORK/tree"
            whole "$A/tree"; whole tree
            rm -rf tree
            killed kit.out.gone move out "$A/tree" "$WORK/tree"
            whole tree; [ ! -e "$A/tree" ]
            same "$(env UBIQUITYFS_STATE="$ROOT/a" UBIQUITYFS_FAULT=kit.copy:9:errno=ENOSPC KitScenarios move in "$WORK/tree" "$A/tree")" 640
            whole tree; [ ! -e "$A/tree" ]
            same "$(kit a move in "$WORK/tree" "$A/tree")" done; whole "$A/tree"
            same "$(kit a move out "$A/tree" "$WORK/tree")" done; whole tree; same "$(leftovers)" 0
            """#, timeout: 240)
      }
    }

    // MARK: The library

    /// A program that uses the library links neither what mounts nor what keeps the catalog.
    @Test func theLibraryLinksNoFileSystemAndNoDatabase() async throws {
      try await withAccount { account in
        try await account.script(
          #"""
          program=$(command -v KitScenarios) daemon=$(command -v ubiquityfs)
          ldd "$program" > program; ldd "$daemon" > daemon
          grep -q libfuse3 daemon; grep -q libsqlite3 daemon
          not grep -E 'libfuse|libsqlite|libzstd' program
          # Nor is it linked in without a library of its own.
          nm "$program" > program; nm "$daemon" > daemon
          grep -q ' U sqlite3_' daemon; grep -q ' U fuse_' daemon
          not grep -E ' (sqlite3|fuse|ZSTD)_' program
          """#)
      }
    }
  }
}
