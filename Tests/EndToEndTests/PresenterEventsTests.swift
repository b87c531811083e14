import Testing

/// What presenters are told after it has happened. Source: NSFilePresenter, "Responding to
/// Changes".
extension EndToEnd {
  @Suite struct PresenterEventsTests {
    /// Source: NSFilePresenter, presentedItemDidChange, presentedItemDidMove(to:) and
    /// presentedItemDidChangeUbiquityAttributes(_:).
    @Test func theItemsPresenterIsTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Presenter.script + #"""
            on a offline on # so that what is sent is no change of attributes in between
            mkdir "$A/d" "$A/e"; echo 1 > "$A/d/f"
            present item a d/f
            echo 2 >> "$A/d/f"; hears item didChange
            mv "$A/d/f" "$A/d/g"; hears item 'didMove to d/g'
            mv "$A/d" "$A/e/d"; hears item 'didMove to e/d/g'
            mv "$A/e/d/g" "$A/h"; hears item 'didMove to h'
            chmod 600 "$A/h"; hears item didChangeAttributes
            same "$(heard item)" 'didChange;didMove to d/g;didMove to e/d/g;didMove to h;didChangeAttributes;'
            # It follows its item, and hears of what is there.
            echo 3 >> "$A/h"; until_true 20 eval '[ "$(count item didChange)" = 2 ]'
            # Of a removal that nobody announced it is told nothing; what comes to its place is a change.
            rm "$A/h"; echo 4 > "$A/h"
            until_true 20 eval '[ "$(count item didChange)" -ge 3 ]'
            left item
            """#)
      }
    }

    /// Source: NSFilePresenter, presentedItemDidChangeUbiquityAttributes(_:).
    @Test func ubiquityAttributesAreTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Presenter.script + #"""
            on a offline on; echo 1 > "$A/f"
            present item a f
            on a offline off; synced a; hears item didChangeAttributes
            same "$(heard item)" 'didChangeAttributes;'
            left item; present item a f
            until_true 20 on a evict "$A/f"; hears item didChangeAttributes
            same "$(heard item)" 'relinquishToWriter;accommodateEviction;reacquire;didChangeAttributes;'
            left item; present item a f
            cat "$A/f" >&2; hears item didChangeAttributes
            same "$(heard item)" 'didChangeAttributes;'
            left item
            """#)
      }
    }

    /// Source: NSFilePresenter, presentedSubitemDidAppear(at:), presentedSubitem(at:didMoveTo:) and
    /// presentedSubitemDidChange(at:): at any depth; the new place may be elsewhere.
    @Test func aDirectorysPresenterIsTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Presenter.script + #"""
            # What is told of the sync is told by others of these tests.
            on a offline on
            mkdir "$A/d" "$A/d/sub" "$A/other"
            present directory a d
            echo 1 > "$A/d/sub/f"; hears directory 'subitemDidChange d/sub/f'
            mv "$A/d/sub/f" "$A/d/g"; hears directory 'subitemDidMove d/g from d/sub/f'
            mv "$A/d/g" "$A/other/g"; hears directory 'subitemDidMove other/g from d/g'
            # The claim waits until the kernel has told that the file is closed: what is told is over then.
            echo 2 >> "$A/other/g"; on a coordinate write "$A/other/g" -- true
            mv "$A/other/g" "$A/d/h"; hears directory 'subitemDidAppear d/h'
            chmod 600 "$A/d/h"; hears directory 'subitemDidChange d/h'
            rm "$A/d/h"; until_true 20 eval '[ "$(count directory "subitemDidChange d/h")" = 2 ]'
            same "$(heard directory)" 'subitemDidAppear d/sub/f;subitemDidChange d/sub/f;subitemDidMove d/g from d/sub/f;subitemDidMove other/g from d/g;subitemDidAppear d/h;subitemDidChange d/h;subitemDidChange d/h;'
            left directory
            """#)
      }
    }

    /// Source: NSFilePresenter, presentedSubitemDidChange(at:): of a package its presenter hears
    /// that it changed.
    @Test func aPackagesPresenterIsTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Presenter.script + #"""
            mkdir -p "$A/doc.pages/data"
            present package a doc.pages; present above a ''
            echo 1 > "$A/doc.pages/data/f"; hears package 'subitemDidChange doc.pages/data/f'
            hears package 'subitemDidAppear doc.pages/data/f'; hears package didChange
            hears above 'subitemDidChange doc.pages'
            mv "$A/doc.pages/data/f" "$A/doc.pages/g"; hears package 'subitemDidMove doc.pages/g from doc.pages/data/f'
            not grep -q 'doc.pages/' "$ROOT/heard-above"
            mv "$A/doc.pages" "$A/new.pages"; hears package 'didMove to new.pages'
            hears above 'subitemDidMove new.pages from doc.pages'
            rm "$A/new.pages/g"; hears package 'subitemDidChange new.pages/g'
            left package; left above
            """#)
      }
    }

    /// Source: NSFilePresenter, "Responding to Changes"; what the sync engine does is asked for
    /// before.
    @Test func whatAnotherDeviceDidIsTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Presenter.script + #"""
            mkdir "$A/d"; echo 1 > "$A/d/f"; echo 1 > "$A/top"; synced a b
            present item a d/f; present directory a d; present other a top
            echo 2 > "$B/d/f"; synced b a; hears item didChange; hears directory 'subitemDidChange d/f'
            same "$(heard item)" 'relinquishToWriter;reacquire;didChange;'
            mv "$B/d/f" "$B/d/g"; synced b a; hears item 'didMove to d/g'
            hears directory 'subitemDidMove d/g from d/f'
            mv "$B/d" "$B/e"; synced b a; hears item 'didMove to e/g'; hears directory 'didMove to e'
            echo 3 > "$B/e/new"; synced b a; hears directory 'subitemDidAppear e/new'
            # Who presents it was asked to make room; nothing is told of what is gone.
            rm "$B/e/g"; synced b a; hears item accommodateDeletion; hears directory 'subitemDidChange e/g'
            same "$(heard item | grep -o 'didChange;' | wc -l)" 1
            # Two that change their names with each other.
            echo 4 > "$B/e/other"; synced b a; present one a e/new; present two a e/other
            mv "$B/e/new" "$B/e/x"; mv "$B/e/other" "$B/e/new"; mv "$B/e/x" "$B/e/other"; synced b a
            hears one 'didMove to e/other'; hears two 'didMove to e/new'
            not grep -q did "$ROOT/heard-other"
            for name in item directory other one two; do left $name; done
            """#)
      }
    }

    /// Source: NSFileCoordinator, init(filePresenter:): its presenter hears nothing of its own
    /// changes.
    @Test func aPresentersOwnChangesAreNotToldToIt() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Presenter.script + #"""
            on a offline on # so that what is sent is no change of attributes in between
            echo 1 > "$A/f"
            present other a f; present parent a ''
            cat > "$ROOT/own.py" <<'END'
            json, os, socket, sys = map(__import__, ('json', 'os', 'socket', 'sys'))
            state, documents = sys.argv[1:3]
            connection = socket.socket(socket.AF_UNIX); connection.connect(state + '/control.sock')
            lines = connection.makefile('r'); last = 0; told = []
            def call(method, **params):
                global last; last += 1
                connection.sendall(json.dumps({'jsonrpc': '2.0', 'id': last, 'method': method, 'params': params}).encode() + b'\n')
                while True:
                    message = json.loads(lines.readline())
                    if message.get('id') == last: return message['result']
                    if message['method'] == 'presenter.event': told.append(message['params']['event'])
            call('hello', protocolVersion=1, version='test', pid=0)
            item = {'mountpoint': os.path.dirname(documents), 'path': 'Documents/f', 'shown': 'f'}
            presenter = call('presenters.add', item=item)['presenter']
            for number in range(20):
                claim = call('claims.take', accesses=[{'item': item, 'intent': 'write'}], presenter=presenter)
                with open(claim['paths'][0], 'a') as file: file.write('own\n')
                os.chmod(claim['paths'][0], 0o600 + number % 2)
                call('claims.release', claim=claim['claim'])
            os.chmod(documents + '/f', 0o640)
            while 'didChangeAttributes' not in told: call('account.status')
            print(told)
            END
            same "$(python3 "$ROOT/own.py" "$ROOT/a" "$A")" "['didChangeAttributes']"
            hears other didChange; hears parent 'subitemDidChange f'
            # Never while the writer that it let go for is at it.
            same "$(tail -n +2 "$ROOT/heard-other" | sed -n '/relinquish/,/reacquire/p' | grep -c did || true)" 0
            left other; left parent
            """#)
      }
    }

    /// Source: NSFilePresenter, relinquishPresentedItem(toWriter:): the writer first, then it takes
    /// up again, then it hears what the writer did.
    @Test func whatAWriterDidIsToldWhenItHasEnded() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Presenter.script + #"""
            on a offline on; export A ROOT; echo 1 > "$A/f"; present item a f; present above a ''
            on a coordinate write "$A/f" -- sh -c 'echo 2 > "$A/f"; mv "$A/f" "$A/g"; until grep -q didMove "$ROOT/heard-above" || grep -q subitemDidMove "$ROOT/heard-above"; do sleep 0.02; done; sleep 0.3; cp "$ROOT/heard-item" "$ROOT/meanwhile"'
            hears item 'didMove to g'; hears item didChange
            same "$(tail -n +2 "$ROOT/meanwhile" | tr '\n' ';')" 'relinquishToWriter;'
            same "$(heard item | cut -d ';' -f 1-2)" 'relinquishToWriter;reacquire'
            same "$(heard item | tr ';' '\n' | sort | tr '\n' ';')" 'didChange;didMove to g;reacquire;relinquishToWriter;'
            left item; left above
            """#)
      }
    }

    /// Source: NSFilePresenter, presentedItemDidGain(_:), presentedItemDidResolveConflict(_:) and
    /// presentedItemDidLose(_:).
    @Test func versionsAreTold() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Presenter.script + #"""
            mkdir "$A/d"; echo base > "$A/d/f"; synced a b; cat "$B/d/f" >&2
            present item a d/f; present directory a d
            on b offline on; echo b > "$B/d/f"; echo a > "$A/d/f"; synced a; sleep 0.1; on b offline off; synced b a
            versions() { on a versions list "$A/d/f" --json | python3 -c 'import json,sys
            for v in json.load(sys.stdin)["versions"]:
                if v["isConflict"] == (sys.argv[1] == "conflict"): print(v["id"])' "$1"; }
            conflict=$(versions conflict); current=$(versions current); [ -n "$conflict" ]
            hears item "didGainVersion $conflict"; hears directory "subitemDidGainVersion d/f $conflict"
            on b versions resolve "$B/d/f" --keep "$current"; synced b a
            hears item "didResolveVersion $conflict"; hears item "didLoseVersion $conflict"
            hears directory "subitemDidResolveVersion d/f $conflict"; hears directory "subitemDidLoseVersion d/f $conflict"
            left item; left directory
            """#)
      }
    }

    /// A save by renaming is a change of the item, not a move, however it is done. Source:
    /// NSFilePresenter, presentedItemDidChange; NSFileCoordinator, of which a claim is on a URL.
    @Test func aSaveByRenamingIsAChange() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Presenter.script + #"""
            mkdir "$A/d"; echo 1 > "$A/d/f"; synced a b; on a offline on
            present item a d/f; present directory a d
            # A temporary onto the name.
            # Closed before: the kernel may tell of that later, and that is a change once more.
            echo 2 > "$A/d/.tmp.nosync"; on a coordinate write "$A/d/.tmp.nosync" -- true
            mv "$A/d/.tmp.nosync" "$A/d/f"; hears item didChange
            hears directory 'subitemDidChange d/f'
            same "$(heard item)" 'didChange;'
            # What was there becomes the backup, and a new one is made.
            mv "$A/d/f" "$A/d/f~"; echo 3 > "$A/d/f"; rm "$A/d/f~"
            until_true 20 eval '[ "$(count item didChange)" -ge 2 ]'
            # The two change places.
            echo 4 > "$A/d/new"; python3 -c 'import ctypes, sys
            libc = ctypes.CDLL(None, use_errno=True)
            sys.exit(libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2))' "$A/d/new" "$A/d/f"
            same "$(cat "$A/d/f")" 4; rm "$A/d/new"
            until_true 20 eval '[ "$(count item didChange)" -ge 3 ]'
            same "$(grep -c didMove "$ROOT/heard-item" || true)" 0
            on a offline off; synced a b
            left item; present item a d/f
            # By another device.
            echo 5 > "$B/d/tmp"; mv "$B/d/tmp" "$B/d/f"; synced b a; same "$(cat "$A/d/f")" 5
            hears item didChange
            # Of a temporary that had come before.
            echo 6 > "$B/d/tmp"; synced b a; test -e "$A/d/tmp"; mv "$B/d/tmp" "$B/d/f"; synced b a; same "$(cat "$A/d/f")" 6
            until_true 20 eval '[ "$(count item didChange)" -ge 2 ]'
            same "$(heard item | tr ';' '\n' | grep -vc 'relinquishToWriter\|reacquire\|didChange\|^$' || true)" 0
            left item; left directory
            """#)
      }
    }

    /// A client that reads nothing while much happens loses no fact: each once, or that it is to
    /// look at all.
    @Test func whoDoesNotReadLosesNoFact() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Presenter.client + #"""
            on a offline on; mkdir "$A/many.nosync"; echo 1 > "$A/f"
            python <<'END'
            globals().update(vars(__import__('client')))
            deaf = Client(sys.argv[1], sys.argv[2]); deaf.present('many.nosync'); deaf.present('f')
            # What is in the way from here to there is full.
            def events(client):
                while True:
                    message = json.loads(client.lines.readline())
                    if message.get('method') == 'presenter.event':
                        yield message['params']['event'], message['params']['path'][len(sys.argv[2]) + 1:]
            for number in range(9000): os.mkdir(f'{sys.argv[2]}/many.nosync/{"long" * 40}-{number}')
            for number in range(3000):
                with open(sys.argv[2] + '/f', 'a') as file: file.write('more')
            os.chmod(sys.argv[2] + '/f', 0o640)
            os.rename(sys.argv[2] + '/f', sys.argv[2] + '/g')
            told = []
            for event in events(deaf):
                told.append(event)
                if event == ('didMove', 'g'): break
            assert ('subitemDidChange', 'many.nosync') in told
            items = [event for event in told if not event[0].startswith('subitem')]
            assert ('didChangeAttributes', 'g') in items and 0 < sum(event[0] == 'didChange' for event in items) < 100, items[:200]
            assert len(told) < 9000, len(told)
            END
            """#)
      }
    }
  }
}
