import Testing

/// The coordination half of UbiquityKit, in programs of their own (`Tests/KitScenarios`) on real
/// mounts. Source: Apple's documentation of `NSFileCoordinator` and `NSFilePresenter`.
extension EndToEnd {
  @Suite struct UbiquityKitCoordinationTests {
    /// kit DEVICE SCENARIO...: a scenario as a program of that device. `background` has it held by
    /// the pipe 6.
    static let prelude = #"""
      kit() { local device=$1; shift; UBIQUITYFS_STATE=$ROOT/$device KitScenarios "$@"; }
      starts() { # NAME WORD DEVICE SCENARIO...: in the background until `ends NAME`; what it says is in $ROOT/NAME
        local name=$1 word=$2 device=$3; shift 3
        rm -f "$ROOT/$name" "$ROOT/$name.in"; mkfifo "$ROOT/$name.in"
        ( # Not with the others' inputs open, which would then never end.
          local input; for input in ${inputs:-}; do eval "exec $input>&-"; done
          UBIQUITYFS_STATE=$ROOT/$device exec KitScenarios "$@" < "$ROOT/$name.in" > "$ROOT/$name" 2>&1
        ) & eval "pid_$name=$!"
        eval "exec {input_$name}> \"\$ROOT/\$name.in\"; inputs=\"\${inputs:-} \$input_$name\""
        until_true 30 grep -qs "$word" "$ROOT/$name" || { cat "$ROOT/$name" >&2; return 1; }
      }
      ends() { # NAME: fails if the scenario did
        eval "exec {input_$1}>&-"
        local process; eval "process=\$pid_$1"
        wait $process || { cat "$ROOT/$1" >&2; return 1; }
      }
      counts() { [ "$(grep -cx -- "$2" "$ROOT/$1")" = "$3" ]; }
      not_mounted() { ! grep -qF " $1 " /proc/self/mounts; }
      heard() { tail -n +2 "$ROOT/$1" | tr '\n' ';'; }

      """#

    /// Every form and option, what is not there, what is in no container, errors that accessors
    /// throw.
    @Test func everyFormHoldsAClaim() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            kit a coordinate "$A" "$WORK/outside"
            same "$(cat "$A/moved")" two
            mkdir "$A/dir"; echo 1 > "$A/dir/file"; ln -s dir/file "$A/link"
            kit a coordinate-options "$A"
            kit a coordinate-nested "$A/dir"
            kit a coordinate-batches "$A/dir"
            echo 0 > "$A/count"; kit a coordinate-tasks "$A/count"
            same "$(cat "$A/count")" 40
            # Nothing is held any more, when the sync has had its turn.
            on a coordinate write "$A" --timeout 10 -- true
            """#)
      }
    }

    /// Readers share, a writer is alone, among programs of either kind; the claim ends with the
    /// program.
    @Test func programsTakeTurns() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            echo 1 > "$A/file"
            starts one holding a coordinate-hold read "$A/file"
            starts two holding a coordinate-hold read "$A/file"
            exits 5 on a coordinate write "$A/file" --no-wait -- true
            ends one; ends two
            starts one holding a coordinate-hold write "$A/file"
            exits 5 on a coordinate read "$A/file" --no-wait -- true
            starts two waiting a coordinate-wait "$A/file"
            # Nothing tells that the second program does not get the claim.
            sleep 0.5; not grep given "$ROOT/two"
            kill -9 $pid_one; wait $pid_one || true
            until_true 20 grep -qx "given $A/file" "$ROOT/two"
            ends two
            # Within a `coordinate` of the command line a program has part in its claim.
            on a coordinate write "$A/file" -- env UBIQUITYFS_STATE="$ROOT/a" KitScenarios coordinate-wait "$A/file"
            """#)
      }
    }

    /// "The URL that the accessor gets may differ from the one that was asked for."
    @Test func theAccessorGetsWhereTheItemIs() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            mkdir "$A/old"; echo 1 > "$A/old/file"
            starts one holding a coordinate-hold write "$A/old"
            starts two waiting a coordinate-wait "$A/old/file"
            # Nothing tells when the claim waits.
            sleep 0.5; mv "$A/old" "$A/new"
            ends one
            until_true 20 grep -qx "given $A/new/file" "$ROOT/two"
            ends two
            # By a link to the mount the URL stays as it was written.
            ln -s "$A" "$WORK/link"
            kit a coordinate-wait "$WORK/link/new/file" | grep -qx "given $WORK/link/new/file"
            """#)
      }
    }

    /// `cancel()`, and a task's end: NSUserCancelledError, and the claim is not held by anybody
    /// after that.
    @Test func waitingIsGivenUp() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            echo 1 > "$A/file"
            starts one holding a coordinate-hold write "$A/file"
            kit a coordinate-cancel "$A/file"
            ends one
            on a coordinate write "$A/file" --timeout 10 -- true
            """#)
      }
    }

    /// NSUbiquitousFileUnavailableError for what is not here and cannot be fetched; online it is
    /// fetched first.
    @Test func whatIsNotHereIsFetchedOrUnavailable() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            echo content > "$A/file"; synced a; until_true 20 evicts "$A/file"
            on a offline on
            kit a coordinate-error "$A/file" | tee /dev/stderr | grep -q '^4355 .*offline'
            same "$(kit a coordinate-error "$A/missing" | cut -d ' ' -f 1)" 260
            on a offline off
            same "$(kit a coordinate-error "$A/file")" '0 '
            same "$(attribute downloadingStatus "$A/file")" current
            """#)
      }
    }

    /// What a presenter is asked by whom, in order; what it saves is what the reader reads.
    @Test func presentersAreAsked() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            # The sync asks presenters too.
            on a offline on; echo 1 > "$A/file"
            kit a present-own "$A/file"
            starts one presenting a present "$A/file" saved
            same "$(on a coordinate read "$A/file" --timeout 20 -- cat "$A/file")" saved
            until_true 10 grep -q reacquire "$ROOT/one"
            heard one | grep -q '^relinquishToReader;.*saveChanges;.*reacquire;'
            on a coordinate write "$A/file" --for deleting --timeout 20 -- rm "$A/file"
            until_true 10 grep -q accommodateDeletion "$ROOT/one"
            ends one
            mkdir "$A/dir"; echo 1 > "$A/dir/inner"
            starts one presenting a present "$A/dir"
            on a coordinate write "$A/dir/inner" --for deleting --no-wait -- rm "$A/dir/inner"
            until_true 10 grep -qx 'accommodateSubitemDeletion inner' "$ROOT/one"
            ends one
            echo 2 > "$A/dir/other"; on a offline off; on a sync --wait
            starts one presenting a present "$A/dir/other"
            until_true 10 on a evict "$A/dir/other"
            grep -q accommodateEviction "$ROOT/one"
            ends one
            """#)
      }
    }

    /// What happened to a file: changes, moves and versions, of this device and of others.
    @Test func presentersAreTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude + #"""
            said() { until_true 30 grep -qsx -- "$2" "$ROOT/$1" || { cat "$ROOT/$1" >&2; return 1; }; }
            echo 1 > "$A/file"; synced a b
            starts one presenting a present "$A/file"
            echo 2 >> "$A/file"; said one didChange
            said one didChangeUbiquityAttributes
            mkdir "$A/dir"; mv "$A/file" "$A/dir/other"; said one 'didMove other'
            mv "$A/dir" "$A/place"; until_true 30 counts one 'didMove other' 2
            synced a b; mv "$B/place/other" "$B/third"; synced b a; said one 'didMove third'
            cat "$B/third" > "$WORK/third"
            on a offline on; on b offline on
            echo a >> "$A/third"; sleep 1; echo b >> "$B/third"
            on a offline off; on b offline off; synced a b a
            said one didGain
            other=$(on b versions list "$B/third" --json | python3 -c 'import json, sys
            print([v["id"] for v in json.load(sys.stdin)["versions"] if v["isConflict"]][0])')
            on b versions remove "$B/third" "$other"; synced b a
            said one didResolve; said one didLose
            ends one
            """#)
      }
    }

    /// What happened in a directory: what appears, moves and changes in it, of this device and of
    /// others.
    @Test func presentersOfDirectoriesAreTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude + #"""
            said() { until_true 30 grep -qsx -- "$2" "$ROOT/$1" || { cat "$ROOT/$1" >&2; return 1; }; }
            mkdir "$A/dir"; echo 1 > "$A/dir/one"; synced a b
            starts one presenting a present "$A/dir"
            echo 2 > "$A/dir/two"; said one 'subitemDidAppear two'
            mv "$A/dir/two" "$A/dir/three"; said one 'subitemDidMove two three'
            echo 4 >> "$A/dir/one"; said one 'subitemDidChange one'
            synced a b; echo 5 > "$B/dir/four"; echo 6 >> "$B/dir/three"; synced b a
            said one 'subitemDidAppear four'; said one 'subitemDidChange three'
            rm "$B/dir/four"; synced b a; said one 'subitemDidChange four'
            # Within a package everything is a change of the package too.
            mkdir "$A/note.pages"; echo 1 > "$A/note.pages/text"; synced a b
            starts two presenting a present "$A/note.pages"
            echo 2 >> "$A/note.pages/text"; said two 'subitemDidChange text'; said two didChange
            echo 3 > "$B/note.pages/new"; synced b a; said two 'subitemDidAppear new'
            ends two
            ends one
            """#)
      }
    }

    /// A document follows its file; what is removed closes it. Source: iCloud Design Guide, "App
    /// Responsibilities for Using iCloud Documents".
    @Test func documentsFollowTheirFiles() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude + Self.notes + #"""
            notes one a "$A/note.txt"; tell one 'append base'; tell one save; shows one saved; synced a b
            mkdir "$B/dir"; mv "$B/note.txt" "$B/dir/moved.txt"; synced b a
            until_true 20 test -e "$A/dir/moved.txt"
            tell one 'append more'; until_true 20 grep -q more "$A/dir/moved.txt"
            not test -e "$A/note.txt"
            synced a b; same "$(cat "$B/dir/moved.txt")" "$(printf 'base\nmore')"
            rm "$B/dir/moved.txt"; synced b a
            shows one 'the note is closed'
            ends one
            not test -e "$A/dir/moved.txt"
            """#)
      }
    }

    /// The watcher of the examples: what is there, what comes, and what of it is here.
    @Test func theWatcherShowsWhatHappens() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude + Self.notes + #"""
            echo 1 > "$A/one.txt"; echo 2 > "$A/two.md"; synced a b
            rm -f "$ROOT/w.in"; mkfifo "$ROOT/w.in"
            UBIQUITYFS_STATE=$ROOT/b watcher-example '*.txt' < "$ROOT/w.in" > "$ROOT/w" 2>&1 & watcher=$!
            exec {input_w}> "$ROOT/w.in"
            shows w "^= in the cloud .*$B/one.txt"; shows w '^1 documents'
            cat "$B/one.txt"; shows w "^~ here  .*$B/one.txt"
            echo 3 > "$A/three.txt"; synced a b; shows w "^+ in the cloud .*$B/three.txt"
            rm "$A/one.txt"; synced a b; shows w "^- .*$B/one.txt"
            not grep two.md "$ROOT/w"
            exec {input_w}>&-; wait $watcher
            """#)
      }
    }

    /// Another device's change is asked for as a program's is, and its removal too.
    @Test func otherDevicesAsk() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude + #"""
            echo 1 > "$A/file"; synced a b
            starts one presenting a present "$A/file"
            echo 2 > "$B/file"; synced b a
            same "$(cat "$A/file")" 2
            until_true 10 grep -q reacquire "$ROOT/one"
            grep -q relinquishToWriter "$ROOT/one"
            rm "$B/file"; synced b a
            until_true 10 grep -q accommodateDeletion "$ROOT/one"
            ends one
            """#)
      }
    }

    /// One that cannot save, or make room, makes the claim fail, with its reason; another device's
    /// change goes on.
    @Test func onesThatCannotAreHeard() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude + #"""
            echo 1 > "$A/file"; synced a b
            starts one presenting a present-refusing "$A/file" 'the disk is full'
            refused 'KitScenarios.*the disk is full' on a coordinate read "$A/file" -- true
            kit a coordinate-error "$A/file" | grep -q '^256 .*the disk is full'
            refused 'the disk is full' on a coordinate write "$A/file" --for deleting -- rm "$A/file"
            refused 'in use' on a evict "$A/file"
            # Without saving it has nothing to say.
            on a coordinate write "$A/file" --timeout 20 -- true
            rm "$B/file"; synced b a
            not test -e "$A/file"
            ends one
            """#)
      }
    }

    /// Presenters are known to the next daemon too, and told that something may have changed.
    @Test func presentersOutliveTheDaemon() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            # The claim waits until the kernel has told that the file is closed: what is told is over then.
            echo 1 > "$A/file"; on a coordinate write "$A/file" -- true
            starts one presenting a present "$A/file"
            kill -TERM $(on a status --json | grep -o '"pid":[0-9]*' | cut -d : -f 2)
            until_true 30 not_mounted "$A_MOUNT"
            on a mount "$CONTAINER" "$A_MOUNT"
            until_true 30 grep -qx didChange "$ROOT/one"
            on a coordinate write "$A/file" --timeout 20 -- true
            until_true 10 grep -q relinquishToWriter "$ROOT/one"
            ends one
            """#)
      }
    }

    // MARK: Documents

    /// A document's life, alone, with other programs, as a package, and of several format versions.
    @Test func documentsLive() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.prelude + #"""
            mkdir "$A/life" "$A/others"
            kit a document-life "$A/life"
            kit a document-others "$A/others"
            kit a document-package "$A/photos.album"
            # Mode and attributes stay. The commands may come from a pipe.
            echo old > "$A/kept.txt"; chmod 640 "$A/kept.txt"; setfattr -n user.colour -v red "$A/kept.txt"
            printf 'append new\nquit\n' | UBIQUITYFS_STATE=$ROOT/a notes-example "$A/kept.txt" > "$WORK/said"
            same "$(cat "$A/kept.txt")" "$(printf 'old\nnew')"
            same "$(stat -c %a "$A/kept.txt") $(getfattr --only-values -n user.colour --absolute-names "$A/kept.txt")" '640 red'
            # One that is not here is fetched when it is opened, and says so; offline it is not opened.
            head -c 3000000 /dev/zero | tr '\0' x > "$A/big.txt"; synced a; until_true 20 evicts "$A/big.txt"
            on a offline on
            kit a document-download "$A/big.txt" | grep -qx 'not opened: 4355'
            on a offline off
            kit a document-download "$A/big.txt" | grep -qx '3000000 true'
            kit a document-format "$A/format.txt"
            same "$(getfattr --only-values -n user.document.formatVersion --absolute-names "$A/format.txt")" 1
            # Outside of containers documents work too.
            mkdir "$WORK/outside"; kit a document-life "$WORK/outside"
            on a sync --wait
            """#)
      }
    }

    /// A package that is a document arrives as a whole, and what did not change is not uploaded
    /// again.
    @Test func packagesOfDocumentsSynchronise() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude + #"""
            mkdir "$A/photos.pages"; rmdir "$A/photos.pages"
            kit a document-package "$A/photos.pages"; synced a b
            same "$(cat "$B/photos.pages/two.txt")" new
            same "$(ls "$B/photos.pages" | tr '\n' ' ')" 'link one.txt sub three.txt two.txt '
            same "$(ls -A "$B" | tr '\n' ' ')" 'photos.pages '
            """#)
      }
    }

    private static let notes = #"""
      notes() { # NAME DEVICE FILE: the editor in the background; `tell NAME COMMAND`, `ends NAME`
        local name=$1 device=$2 file=$3
        rm -f "$ROOT/$name" "$ROOT/$name.in"; mkfifo "$ROOT/$name.in"
        ( local input; for input in ${inputs:-}; do eval "exec $input>&-"; done
          UBIQUITYFS_STATE=$ROOT/$device exec notes-example "$file" < "$ROOT/$name.in" > "$ROOT/$name" 2>&1
        ) & eval "pid_$name=$!"
        eval "exec {input_$name}> \"\$ROOT/\$name.in\"; inputs=\"\${inputs:-} \$input_$name\""
        until_true 30 grep -qs . "$ROOT/$name" || return 1
      }
      tell() { local input; eval "input=\$input_$1"; echo "$2" >&$input; }
      shows() { until_true 30 grep -qs "$2" "$ROOT/$1" || { cat "$ROOT/$1" >&2; return 1; }; }

      """#

    /// The notes of the tutorial on two devices: an edit arrives while the note is open, and is
    /// saved by itself.
    @Test func notesArriveOnTheOtherDevice() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude + Self.notes + #"""
            notes one a "$A/note.txt"
            tell one 'append first'; tell one 'save'; shows one saved; synced a b
            notes two b "$B/note.txt"; shows two '1  first'
            tell two 'append second'; until_true 20 grep -q second "$B/note.txt"; synced b a
            shows one 'changed elsewhere'; shows one '2  second'
            tell one 'edit 1 changed'; tell one 'append third'; until_true 20 grep -q third "$A/note.txt"; synced a b
            shows two '3  third'; shows two '1  changed'
            # A note without lines is the same note.
            tell one 'delete 1'; tell one 'delete 1'; tell one 'delete 1'; tell one 'save'
            until_true 20 test ! -s "$A/note.txt"; synced a b; shows two '(empty)'
            tell one 'append changed'; tell one 'append second'; tell one 'append third'
            until_true 20 grep -q third "$A/note.txt"; synced a b
            until_true 20 counts two '3  third' 2
            tell two 'delete 2'; tell two quit; ends two; synced b a
            until_true 20 not grep -q second "$A/note.txt"
            ends one
            same "$(cat "$A/note.txt")" "$(printf 'changed\nthird')"
            same "$(ls -A "$A")" note.txt
            """#)
      }
    }

    /// Both devices edit offline: a conflict, seen on both, settled on one for both.
    @Test func aConflictOfNotesIsSettled() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.prelude + Self.notes + #"""
            notes one a "$A/note.txt"; tell one 'append base'; tell one save; shows one saved; synced a b
            notes two b "$B/note.txt"; shows two base
            on a offline on; on b offline on
            tell one 'append of a'; until_true 20 grep -q 'of a' "$A/note.txt"; sleep 1
            tell two 'append of b'; until_true 20 grep -q 'of b' "$B/note.txt"
            on a offline off; on b offline off; synced a b a
            same "$(ls -A "$A")" note.txt
            same "$(cat "$A/note.txt")" "$(printf 'base\nof b')"
            shows one 'changed elsewhere'; shows one 'another device wrote'
            tell one conflicts; shows one '^1  a  '
            tell one 'keep 1'; shows one settled
            same "$(cat "$A/note.txt")" "$(printf 'base\nof a')"; synced a b
            until_true 20 grep -q 'of a' "$B/note.txt"
            shows two '2  of a'
            tell two conflicts; shows two 'no conflict'
            ends one; ends two
            same "$(ls -A "$B")" note.txt
            """#)
      }
    }
  }
}
