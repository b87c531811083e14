import Testing

/// The options of claims, their tickets and their limits. Source: NSFileCoordinator.ReadingOptions
/// and NSFileCoordinator.WritingOptions; `docs/control-protocol.md`.
extension EndToEnd {
  @Suite struct ClaimOptionsTests {
    /// Begins every script: `one`, `two` and `presenting` are clients, the last with a presenter of
    /// `f`.
    private static let clients = #"""
      globals().update(vars(__import__('client')))
      documents = sys.argv[2]
      def client(): return Client(sys.argv[1], documents)
      one, two = client(), client()

      """#

    private func run(
      _ preparation: String, _ script: String, _ after: String = "", timeout: Int = 120
    ) async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Presenter.client + preparation + "\npython <<'END'\n" + Self.clients + script + "\nEND\n"
            + after, timeout: timeout)
      }
    }

    /// What presenters are asked for each option. Source: NSFileCoordinator.ReadingOptions
    /// withoutChanges and immediatelyAvailableMetadataOnly; NSFileCoordinator.WritingOptions
    /// forDeleting, forMoving, forMerging, forReplacing and contentIndependentMetadataOnly.
    @Test func eachOptionAsksWhatItIsToAsk() async throws {
      try await run(
        // What is to be sent the sync would want to read.
        #"echo 1 > "$A/f"; synced a"#,
        #"""
        presenting = client(); presenting.present('f')
        def asked(intent, *options):
            presenting.heard = []
            number = one.taking('f', intent, *options)
            presenting.until(lambda: one.has(number))
            claim = one.answer(number); one.release(claim)
            presenting.call('account.status')
            return [what for what in presenting.heard if not what.startswith('did') and what != 'reacquire']
        def same(found, expected): assert found == expected, (found, expected)
        same(asked('read'), ['relinquishToReader', 'saveChanges'])
        same(asked('read', 'withoutChanges'), ['relinquishToReader'])
        same(asked('read', 'immediatelyAvailableMetadataOnly'), [])
        same(asked('write'), ['relinquishToWriter'])
        same(asked('write', 'forMoving'), ['relinquishToWriter'])
        same(asked('write', 'forMerging'), ['relinquishToWriter', 'saveChanges'])
        same(asked('write', 'forDeleting'), ['relinquishToWriter', 'accommodateDeletion'])
        same(asked('write', 'forReplacing'), ['relinquishToWriter', 'accommodateDeletion'])
        same(asked('write', 'contentIndependentMetadataOnly'), [])
        one.refused(2, one.taking('f', 'write', 'forDeleting', 'forMoving'))
        one.refused(2, one.taking('f', 'write', 'withoutChanges'))
        one.refused(2, one.taking('f', 'read', 'forMoving'))
        # Whatever is asked, they exclude as claims do.
        held = one.take('f', 'write', 'contentIndependentMetadataOnly')
        two.refused(5, two.taking('f', 'read', 'immediatelyAvailableMetadataOnly', timeout=0))
        """#)
    }

    /// Source: NSFileCoordinator.ReadingOptions, immediatelyAvailableMetadataOnly: nothing is
    /// downloaded.
    @Test func metadataAloneIsNotDownloaded() async throws {
      try await run(
        #"echo 12345 > "$A/f"; synced a; until_true 20 evicts "$A/f"; on a offline on"#,
        #"""
        one.release(one.take('f', 'read', 'immediatelyAvailableMetadataOnly'))
        assert os.stat(documents + '/f').st_size == 6
        one.refused(4, one.taking('f', 'read'))
        """#, #"same "$(attribute downloadingStatus "$A/f")" notDownloaded"#)
    }

    /// Claims go where their items go, while they wait and while they are held. Source:
    /// NSFileCoordinator, item(at:didMoveTo:), and of accessors that the URL may be another than
    /// the one asked for.
    @Test func claimsFollowTheirItems() async throws {
      try await run(
        #"mkdir "$A/d" "$A/e"; echo 1 > "$A/d/f"; echo 2 > "$A/d/g""#,
        #"""
        held = one.take('d/f', 'write', 'forMoving')
        waiting = two.taking('d/f', 'read'); other = two.taking('d/f', 'write', purpose='other')
        replacing = two.taking('d/f', 'write', 'forReplacing', purpose='replacing')
        assert not two.has(waiting)
        os.rename(documents + '/d/f', documents + '/e/h')
        # Held: it is where the item is, and no longer where it was. Who wants to replace stays with the place.
        three = client()
        three.refused(5, three.taking('e/h', 'read', timeout=0))
        given = two.answer(replacing); assert given['paths'] == [documents + '/d/f'], given; two.release(given)
        os.rename(documents + '/e', documents + '/moved')
        assert not two.has(waiting)
        one.release(held)
        given = two.answer(waiting); assert given['paths'] == [documents + '/moved/h'], given; two.release(given)
        given = two.answer(other); assert given['paths'] == [documents + '/moved/h'], given; two.release(given)
        # A save by renaming is no move: the claim is on the name, whatever comes to be there.
        held = one.take('d/g', 'write')
        open(documents + '/d/temporary', 'w').write('new\n'); os.rename(documents + '/d/temporary', documents + '/d/g')
        three.refused(5, three.taking('d/g', 'read', timeout=0))
        os.rename(documents + '/d/g', documents + '/d/g~'); open(documents + '/d/g', 'w').write('newer\n')
        waiting = two.taking('d/g', 'read'); assert not two.has(waiting)
        assert three.take('d/g~', 'read', timeout=5)
        one.release(held)
        given = two.answer(waiting); assert given['paths'] == [documents + '/d/g'] and open(given['paths'][0]).read() == 'newer\n'
        """#)
    }

    /// What another device moves takes claims that wait along.
    @Test func claimsFollowWhatAnotherDeviceMoves() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Presenter.client + Presenter.script + #"""
            mkdir "$A/d"; echo 1 > "$A/d/f"; synced a b
            present item a d/f slow
            mv "$B/d" "$B/e"; mv "$B/e/f" "$B/e/g"; synced b
            # The sync waits for the presenter, and this claim for the sync.
            hears item relinquishToWriter
            python <<'END' & claim=$!
            globals().update(vars(__import__('client')))
            one = Client(sys.argv[1], sys.argv[2])
            number = one.taking('d/f', 'write'); assert not one.has(number)
            open(os.path.dirname(sys.argv[1]) + '/answer', 'w').close()
            given = one.answer(number)
            assert given['paths'] == [sys.argv[2] + '/e/g'], given
            END
            wait $claim
            hears item 'didMove to e/g'
            left item
            """#)
      }
    }

    @Test func aClaimThatWaitsIsCancelled() async throws {
      try await run(
        #"echo 1 > "$A/f""#,
        #"""
        held = one.take('f', 'write')
        waiting = two.taking('f', 'read', ticket=7)
        assert not two.has(waiting)
        two.refused(2, two.taking('f', 'read', ticket=7))
        two.call('claims.cancel', ticket=7)
        assert 'cancelled' in two.refused(1, waiting)
        # As often as one likes, and of what there is not; another connection's tickets are its own.
        for ticket in (7, 7, 8): two.call('claims.cancel', ticket=ticket)
        waiting = two.taking('f', 'read', ticket=7); one.call('claims.cancel', ticket=7)
        assert not two.has(waiting)
        one.release(held)
        given = two.answer(waiting)
        # It is held: there is nothing to cancel any more.
        two.call('claims.cancel', ticket=7)
        one.refused(5, one.taking('f', 'write', timeout=0))
        two.release(given); one.release(one.take('f', 'write'))
        # While a presenter is asked.
        asked = client(); asked.isDeaf = True; asked.present('f')
        waiting = two.taking('f', 'write', ticket=9)
        asked.until(lambda: 'relinquishToWriter' in asked.heard)
        two.call('claims.cancel', ticket=9); two.refused(1, waiting)
        asked.until(lambda: 'reacquire' in asked.heard)
        """#)
    }

    @Test func aConnectionWaitsForSoManyClaims() async throws {
      try await run(
        #"echo 1 > "$A/f""#,
        #"""
        held = one.take('f', 'write')
        numbers = [two.taking('f', 'read', purpose='p', ticket=n) for n in range(10000)]
        assert not two.has(numbers[0])
        assert 'at most' in two.refused(5, two.taking('f', 'read'))
        three = client(); three.refused(5, three.taking('f', 'read', timeout=0))
        two.call('claims.cancel', ticket=5); two.refused(1, numbers[5])
        last = two.taking('f', 'read', purpose='p'); assert not two.has(last)
        one.release(held)
        for n, number in enumerate(numbers):
            if n != 5: two.answer(number)
        two.answer(last)
        """#)
    }

    /// Source: NSFileCoordinator.ReadingOptions, resolvesSymbolicLink.
    @Test func linksAreResolved() async throws {
      try await run(
        #"""
        mkdir -p "$A/d/sub"; echo 1 > "$A/d/f"; ln -s d/f "$A/link"; ln -s ../link "$A/d/again"; ln -s "$A/d/again" "$A/absolute"
        ln -s loop "$A/loop"; ln -s /etc/hostname "$A/out"; ln -s nowhere "$A/dangling"; ln -s ../.. "$A/d/sub/up"
        """#,
        #"""
        for name in ('link', 'd/again', 'absolute', 'd/f'):
            given = one.take(name, 'read', 'resolvesSymbolicLink')
            assert given['paths'] == [documents + '/d/f'], given
            two.refused(5, two.taking('d/f', 'write', timeout=0))
            one.release(given)
        given = one.take('link', 'read'); assert given['paths'] == [documents + '/link']
        two.release(two.take('d/f', 'write', timeout=0)); one.release(given)
        assert 'too many' in one.refused(3, one.taking('loop', 'read', 'resolvesSymbolicLink'))
        assert 'out of the mounts' in one.refused(3, one.taking('out', 'read', 'resolvesSymbolicLink'))
        given = one.take('d/sub/up', 'read', 'resolvesSymbolicLink'); assert given['paths'] == [documents], given
        given = one.take('dangling', 'read', 'resolvesSymbolicLink', 'immediatelyAvailableMetadataOnly')
        assert given['paths'] == [documents + '/nowhere'], given
        """#)
    }

    /// More members than the classic format counts.
    @Test func anArchiveHasAnyNumberOfMembers() async throws {
      try await run(
        #"mkdir "$A/many.nosync""#,
        #"""
        zipfile, subprocess = map(__import__, ('zipfile', 'subprocess'))
        for n in range(66000): os.mkdir(f'{documents}/many.nosync/{n}')
        path = one.take('many.nosync', 'read', 'forUploading')['paths'][0]
        with zipfile.ZipFile(path) as archive: assert len(archive.infolist()) == 66001
        subprocess.run(['unzip', '-tqq', path], check=True)
        """#, timeout: 600)
    }

    /// Source: NSFileCoordinator.ReadingOptions, forUploading.
    @Test func whatIsForUploadingIsCopied() async throws {
      try await run(
        #"""
        umask 022; mkdir -p "$A/tree/deep/empty" "$A/doc.pages"; head -c 3000000 /dev/urandom > "$A/tree/deep/large"
        echo 1 > "$A/f"; : > "$A/tree/nothing"; echo x > "$A/tree/grün ☂"; ln -s deep/large "$A/tree/link"; mkfifo "$A/tree/pipe"
        chmod 755 "$A/tree/grün ☂"; touch -d '2020-02-03 04:05:06' "$A/tree/grün ☂"; echo page > "$A/doc.pages/index"
        synced a; until_true 20 evicts "$A/tree/deep/large"
        """#,
        #"""
        zipfile, subprocess, stat = map(__import__, ('zipfile', 'subprocess', 'stat'))
        unicode = dict(os.environ, LC_ALL='C.UTF-8')
        presenting = client(); presenting.present('f')
        number = one.taking('f', 'read', 'forUploading'); presenting.until(lambda: one.has(number))
        assert presenting.heard[:2] == ['relinquishToReader', 'saveChanges'], presenting.heard
        given = one.answer(number); path = given['paths'][0]
        assert not path.startswith(os.path.dirname(documents)) and path.endswith('/f') and stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
        assert os.stat(path).st_mtime_ns == os.stat(documents + '/f').st_mtime_ns
        # The claim is over, and the copy stays as it is.
        presenting.until(lambda: 'reacquire' in presenting.heard)
        number = two.taking('f', 'write', timeout=20); presenting.until(lambda: two.has(number)); held = two.answer(number)
        open(documents + '/f', 'w').write('2\n'); two.release(held)
        assert open(path).read() == '1\n'
        one.release(given); assert not os.path.exists(path)
        one.refused(3, one.send('claims.release', claim=given['claim']))
        # A directory is an archive; what is not here is brought.
        for name in ('tree', 'doc.pages'):
            given = one.take(name, 'read', 'forUploading'); path = given['paths'][0]
            assert path.endswith('/' + name + '.zip')
            subprocess.run(['unzip', '-tqq', path], check=True)
            with zipfile.ZipFile(path) as archive: assert archive.testzip() is None
            if name == 'doc.pages': continue
            with zipfile.ZipFile(path) as archive:
                found = {entry.filename: entry for entry in archive.infolist()}
                assert sorted(found) == sorted(['tree/', 'tree/deep/', 'tree/deep/empty/', 'tree/deep/large', 'tree/nothing', 'tree/grün ☂', 'tree/link']), sorted(found)
                assert archive.read('tree/deep/large') == open(documents + '/tree/deep/large', 'rb').read()
                assert archive.read('tree/grün ☂') == b'x\n' and archive.read('tree/nothing') == b'' and archive.read('tree/link') == b'deep/large'
                assert found['tree/grün ☂'].external_attr >> 16 == 0o100755 and found['tree/grün ☂'].date_time == (2020, 2, 3, 4, 5, 6)
                assert stat.S_ISLNK(found['tree/link'].external_attr >> 16) and found['tree/deep/'].is_dir()
            target = sys.argv[1] + '-extracted'; subprocess.run(['unzip', '-qq', path, '-d', target], check=True, env=unicode)
            subprocess.run(['diff', '-r', '--no-dereference', '--exclude=pipe', target + '/tree', documents + '/tree'], check=True)
        # With others, the claim stays for those.
        given = one.answer(one.send('claims.take', accesses=[one.access('tree/nothing', 'read', 'forUploading'), one.access('doc.pages', 'write')]))
        assert given['paths'][1] == documents + '/doc.pages'
        two.refused(5, two.taking('doc.pages', 'read', timeout=0)); one.release(given)
        two.release(two.take('doc.pages', 'read', timeout=5))
        # What is left goes with its connection.
        copies = sys.argv[1] + '/snapshots'; assert os.listdir(copies)
        one.socket.close(); one.lines.close()
        two.until(lambda: not os.listdir(copies))
        two.refused(3, two.taking('missing', 'read', 'forUploading'))
        """#)
    }
  }
}
