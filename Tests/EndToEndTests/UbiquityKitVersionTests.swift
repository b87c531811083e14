import Testing

/// `NSFileVersion` on Linux: programs on UbiquityKit against real daemons, two devices each.
extension EndToEnd {
  @Suite struct UbiquityKitVersionTests {
    /// A conflict on `note.txt`, a's earlier edit being the version that lost.
    private static let conflict =
      UbiquityKitTests.kit + #"""
        echo first > "$A/note.txt"; chmod 640 "$A/note.txt"; setfattr -n user.tag -v red "$A/note.txt"
        synced a b; cat "$B/note.txt" > /dev/null
        on a offline on; on b offline on
        echo earlier > "$A/note.txt"; touch -d '2001-02-03 04:05:06.7' "$A/note.txt"; echo later > "$B/note.txt"
        on a offline off; on b offline off
        synced a b a b
        conflicts() { for device; do attribute hasUnresolvedConflicts "$(eval "echo \$${device^^}")/note.txt"; done | tr -d '\n'; }
        kinds() { kit "$1" versions "$(eval "echo \$${1^^}")/note.txt" | cut -d ' ' -f 1,2 | tr '\n' ' '; }

        """#

    /// `called`: one name for both devices.
    private func withConflict(called: String? = nil, _ script: String) async throws {
      try await withAccount { account in
        try await account.device("a", called: called)
        try await account.device("b", called: called)
        try await account.script(Self.conflict + script)
      }
    }

    @Test func versionsAreToldAndRead() async throws {
      try await withConflict(
        #"""
        same "$(kinds a)" 'current b unresolved a '; same "$(kinds b)" 'current b unresolved a '
        same "$(kit a versions "$A/note.txt" | cut -d ' ' -f 4)" "$(kit b versions "$B/note.txt" | cut -d ' ' -f 4)"
        same "$(kit b versions "$B/note.txt" | grep unresolved | cut -d ' ' -f 3)" 981173106
        loser=$(kit a versions "$A/note.txt" | grep unresolved | cut -d ' ' -f 4)
        same "$(kit b nonlocal-versions "$B/note.txt")" 1
        same "$(kit a find-version "$A/note.txt" "$loser")" earlier; same "$(kit b find-version "$B/note.txt" "$loser")" earlier
        same "$(kit a find-version "$A/note.txt" 00)" 'no such version'
        # What is not sent yet, what is in no container, and what is nothing.
        echo mine > "$A/new"; echo plain > outside; same "$(kit a versions outside | cut -d ' ' -f 1,4)" 'current local'
        on a offline on; echo edited > "$A/note.txt"
        same "$(kit a versions "$A/note.txt" | cut -d ' ' -f 1,2,4 | head -1)" 'current a local'
        same "$(kit a versions "$A/nothing")" 'no document'; same "$(kit a versions "$A")" 'no document'
        """#)
    }

    /// iCloud Design Guide, "App Responsibilities for Using iCloud Documents": the nominated winner
    /// is accepted, and versions that are out of date are removed.
    @Test func theCurrentVersionIsKept() async throws {
      try await withConflict(
        #"""
        same "$(conflicts a b)" 11
        same "$(kit a keep-current "$A/note.txt")" done
        synced b
        same "$(conflicts a b)" 00; same "$(kinds a)$(kinds b)" 'current b current b '
        same "$(cat "$A/note.txt" "$B/note.txt" | tr '\n' ' ')" 'later later '
        same "$(kit b keep-current "$B/note.txt")" done
        """#)
    }

    /// The same: the nomination is overridden.
    @Test func anotherVersionIsKept() async throws {
      try await withConflict(
        #"""
        same "$(kit b keep-other "$B/note.txt")" done
        synced b a
        same "$(conflicts a b)" 00; same "$(cat "$A/note.txt" "$B/note.txt" | tr '\n' ' ')" 'earlier earlier '
        same "$(stat -c %a "$A/note.txt" "$B/note.txt" | tr '\n' ' ')" '640 640 '
        same "$(getfattr --only-values --absolute-names -n user.tag "$A/note.txt")" red
        same "$(ls -A "$A" | tr '\n' ' ')$(ls -A "$A_MOUNT" | tr '\n' ' ')" 'note.txt Documents '
        """#)
    }

    @Test func bothAreKept() async throws {
      try await withConflict(
        #"""
        same "$(kit b keep-both "$B/note.txt")" done
        synced b a
        same "$(conflicts a b)" 00
        same "$(cat "$A/note.txt" "$A/note of a.txt" | tr '\n' ' ')" 'later earlier '
        """#)
    }

    /// Marked by one device it is resolved on all, and kept until it is removed.
    @Test func aVersionIsMarkedResolvedByItself() async throws {
      try await withConflict(
        #"""
        total() { on a status --json | grep -o '"totalBytes":[0-9]*'; }
        before=$(total)
        same "$(kit a mark "$A/note.txt" resolved)" done; synced b
        same "$(conflicts a b)" 00; same "$(kinds b)" 'current b resolved a '
        same "$(on b versions list "$B/note.txt" | awk '{ print $1 }' | tr '\n' ' ')" 'current resolved '
        same "$(on b status --json | grep -o '"conflicts":[0-9]*')" '"conflicts":0'
        # It is there to be read, and counts.
        loser=$(kit a versions "$A/note.txt" | grep resolved | cut -d ' ' -f 4)
        same "$(cat "$B_MOUNT/.ubiquity/versions/Documents/note.txt/$loser")" earlier
        same "$(total)" "$before"
        # Edits go on, and it stays resolved; a new conflict is one beside it.
        echo again >> "$B/note.txt"; synced b a
        same "$(conflicts a b)" 00; same "$(kinds a)" 'current b resolved a '
        on a offline on; on b offline on
        echo 2 > "$A/note.txt"; sleep 0.02; echo 3 > "$B/note.txt"
        on a offline off; on b offline off; synced a b a b
        same "$(conflicts a b)" 11; same "$(kit a versions "$A/note.txt" | grep -c resolved)" 2
        same "$(kit b remove-others "$B/note.txt")" done; synced a
        same "$(conflicts a b)" 00; same "$(kinds a)" 'current b '
        """#)
    }

    @Test func aMarkIsTakenBackAndOutlivesARestart() async throws {
      try await withConflict(
        #"""
        same "$(kit b set-resolved "$B/note.txt")" true; synced a
        on a unmount "$A_MOUNT"
        stops a
        on a mount "$CONTAINER" "$A_MOUNT"; same "$(conflicts a b)" 00; same "$(kinds a)" 'current b resolved a '
        same "$(kit a mark "$A/note.txt" unresolved)" done; synced b
        same "$(conflicts a b)" 11; same "$(kinds b)" 'current b unresolved a '
        on c account sign-in; mkdir "$ROOT/mount-c"; on c mount "$CONTAINER" "$ROOT/mount-c"
        same "$(kit b mark "$B/note.txt" resolved)" done; synced c
        same "$(attribute hasUnresolvedConflicts "$ROOT/mount-c/Documents/note.txt")" 0
        # Offline nothing is marked or removed, and nothing claims to be.
        on c offline on
        same "$(kit c mark "$ROOT/mount-c/Documents/note.txt" unresolved)" 4355
        same "$(kit c remove-version "$ROOT/mount-c/Documents/note.txt")" 4355
        same "$(kit c replace "$ROOT/mount-c/Documents/note.txt" "$ROOT/mount-c/Documents/note.txt")" 4355
        """#)
    }

    @Test func versionsAreRemovedAndReplace() async throws {
      try await withConflict(
        #"""
        same "$(kit a remove-current "$A/note.txt")" 3328
        # Into another document, in the container and elsewhere; it stays.
        same "$(kit b replace "$B/note.txt" "$B/copy.txt")" done; same "$(cat "$B/copy.txt")" earlier
        same "$(kit b replace "$B/note.txt" "$WORK/copy.txt")" done; same "$(cat copy.txt)" earlier
        same "$(conflicts a b)" 11
        # Replacing with the version leaves the conflict to be marked: nobody has looked at the other side.
        same "$(kit a replace "$A/note.txt" "$A/note.txt")" done; synced a b
        same "$(cat "$B/note.txt")" earlier; same "$(conflicts a b)" 11
        same "$(kit b remove-version "$B/note.txt")" done; synced a
        same "$(conflicts a b)" 00; same "$(kinds a)" 'current a '
        """#)
    }

    @Test(
      "a document that got another current version meanwhile is not replaced unseen",
      arguments: [nil, "laptop"])
    func aLaterVersionIsNotReplacedUnseen(called: String?) async throws {
      try await withConflict(
        called: called,
        #"""
        kit a replace-late "$A/note.txt" "$WORK/go" > answer & late=$!
        until_true 60 test -e go.listed
        echo 'edited since' > "$B/note.txt"; synced b a
        touch go; wait $late
        same "$(cat answer)" 255
        for file in "$A/note.txt" "$B/note.txt"; do same "$(cat "$file")" 'edited since'; done
        """#)
    }

    /// As programs do it: within a coordinated write, which keeps the sync engine from the
    /// document.
    @Test func aConflictIsSettledWithinACoordinatedWrite() async throws {
      try await withConflict(
        #"""
        started=$SECONDS
        same "$(UBIQUITYFS_STATE=$ROOT/b ubiquityfs coordinate write "$B/note.txt" -- KitScenarios keep-other "$B/note.txt")" done
        [ $((SECONDS - started)) -lt 30 ]
        same "$(conflicts b)" 0; same "$(cat "$B/note.txt")" earlier
        synced b a
        same "$(conflicts a b)" 00; same "$(cat "$A/note.txt")" earlier; same "$(kinds a)" 'current b '
        """#)
    }

    /// Of a package the whole is a version.
    @Test func packagesHaveVersions() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          UbiquityKitTests.kit + #"""
            mkdir "$A/p.pages"; echo 1 > "$A/p.pages/one"; echo 2 > "$A/p.pages/two"; synced a b
            cat "$B"/p.pages/* > /dev/null
            on a offline on; on b offline on
            echo 'by a' > "$A/p.pages/two"; mkdir "$A/p.pages/d"; echo 3 > "$A/p.pages/d/three"; sleep 0.02; echo 'by b' > "$B/p.pages/one"
            on a offline off; on b offline off
            synced a b a b
            same "$(kit b versions "$B/p.pages" | cut -d ' ' -f 1,2 | tr '\n' ' ')" 'current b unresolved a '
            same "$(cat "$B/p.pages/one")" 'by b'
            same "$(kit b keep-other "$B/p.pages")" done
            synced b a
            same "$(cat "$A/p.pages/one" "$A/p.pages/two" "$A/p.pages/d/three" | tr '\n' ' ')" '1 by a 3 '
            same "$(kit a versions "$A/p.pages" | cut -d ' ' -f 1 | tr '\n' ' ')" 'current '
            same "$(ls -A "$A")$(ls -A "$A_MOUNT")" p.pagesDocuments
            """#)
      }
    }
  }
}
