import Backend
import Model
import RemoteStore
import Testing

@Suite struct SnapshotTests {
  private func part(_ names: [String], low: UInt64 = 100) throws -> SnapshotPart {
    var part = SnapshotPart()
    part.items = try names.enumerated().map {
      try Fixture.directory($1, low: low + UInt64($0))
    }
    return part
  }

  private func write(
    _ parts: [SnapshotPart], at position: LogPosition, _ container: RemoteContainer
  )
    async throws -> SnapshotMark?
  {
    let writer = container.writeSnapshot(at: position, from: Fixture.origin)
    var written: [SnapshotIndex.Part] = []
    for (number, part) in parts.enumerated() {
      written.append(try await writer.put(body([part]), number: number))
    }
    return try await writer.finish(written, items: 4)
  }

  private func body(_ pages: [SnapshotPart]) throws(RemoteError) -> SnapshotPartBody {
    var result = SnapshotPartBody()
    for page in pages { try result.append(page) }
    return result
  }

  /// A part is encoded page by page. A reader gets one part, also where a pack's chunks are on two
  /// pages.
  @Test func pagesAreOnePart() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    let pack = PackID.random()
    func chunk(_ number: UInt8) throws -> ChunkLocation {
      let id = try #require(ChunkID([UInt8](repeating: number, count: 32)))
      return ChunkLocation(
        chunk: ChunkReference(id: id, length: 200), pack: pack, offset: UInt64(number) * 100,
        storedLength: 100)
    }
    var pages = [try part(["a", "b"]), try part(["c"], low: 200), SnapshotPart(), SnapshotPart()]
    pages[2].chunks = [try chunk(1), try chunk(2)]
    pages[3].chunks = [try chunk(3)]
    pages[3].packs = [PackRecord(pack: pack, bytes: 400)]
    var whole = SnapshotPart()
    whole.items = pages[0].items + pages[1].items
    whole.chunks = pages[2].chunks + pages[3].chunks
    whole.packs = pages[3].packs
    let writer = fixture.container.writeSnapshot(at: head, from: Fixture.origin)
    let written = try await writer.put(body(pages), number: 0)
    #expect(try await writer.finish([written], items: 3) != nil)
    let index = try await fixture.container.snapshot(head.sequence)
    #expect(try await fixture.container.part(0, of: index) == whole)
  }

  @Test func partsComeBack() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    let parts = [try part(["a", "b"]), try part(["c"], low: 200)]
    let mark = try #require(try await write(parts, at: head, fixture.container))
    #expect(mark.sequence == head.sequence && mark.bytes > 0)
    #expect(try await fixture.container.snapshots(beyond: 0) == [head.sequence])
    #expect(try await fixture.container.snapshots(beyond: head.sequence) == [])
    let index = try await fixture.container.snapshot(head.sequence)
    #expect(index.position == head && index.origin == Fixture.origin && index.items == 4)
    for (number, part) in parts.enumerated() {
      #expect(try await fixture.container.part(number, of: index) == part)
    }
  }

  /// A snapshot is there when its index is; of two of one place one counts, and the other leaves
  /// nothing.
  @Test func oneOfTwoWritersWins() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    let writer = fixture.container.writeSnapshot(at: head, from: Fixture.origin)
    let first = try await writer.put(body([try part(["a"])]), number: 0)
    #expect(try await fixture.container.snapshots(beyond: 0) == [])
    #expect(try await write([try part(["b"])], at: head, fixture.container) != nil)
    #expect(try await writer.finish([first], items: 1) == nil)
    #expect(try await fixture.keys("containers/").filter { $0.contains("/snapshots/") }.count == 2)
    let index = try await fixture.container.snapshot(head.sequence)
    #expect(try await fixture.container.part(0, of: index) == part(["b"]))
  }

  /// Every changed byte, every cut, another container's, another part: all are refused.
  @Test func whatIsDamagedOrForeignIsRefused() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    _ = try await write([try part(["a"]), try part(["b"])], at: head, fixture.container)
    let keys = try await fixture.keys("containers/").filter { $0.contains("/snapshots/") }
    #expect(keys.count == 3)
    func isWhole() async -> Bool {
      do {
        let index = try await fixture.container.snapshot(head.sequence)
        for number in index.parts.indices {
          _ = try await fixture.container.part(number, of: index)
        }
        return true
      } catch RemoteError.damaged, RemoteError.newerFormat {
        return false
      } catch {
        Issue.record("\(error)")
        return false
      }
    }
    #expect(await isWhole())
    for key in keys {
      let good = try await fixture.store.get(key)
      for place in good.indices {
        var bad = good
        bad[place] ^= 0x10
        await fixture.store.set(key, bad)
        #expect(await !isWhole(), "\(key) byte \(place)")
      }
      for count in [0, 4, good.count / 2, good.count - 1] {
        await fixture.store.set(key, Array(good.prefix(count)))
        #expect(await !isWhole())
      }
      for other in keys where other != key {
        await fixture.store.set(key, try await fixture.store.get(other))
        #expect(await !isWhole())
        await fixture.store.set(key, good)
      }
      try await fixture.store.delete(key)
      #expect(await !isWhole())
      await fixture.store.set(key, good)
    }
    #expect(await isWhole())
    // The same objects below another container of the account open nowhere.
    let other = try await fixture.account.createContainer(
      Fixture.containerID("iCloud.com.example.other"), device: Fixture.device,
      time: Timestamp(nanoseconds: 7))
    for key in keys {
      let moved =
        "containers/\(other.incarnation)/"
        + key.dropFirst("containers/\(fixture.container.incarnation)/".count)
      await fixture.store.set(moved, try await fixture.store.get(key))
    }
    #expect(try await other.snapshots(beyond: 0) == [head.sequence])
    await #expect(throws: RemoteError.self) { try await other.snapshot(head.sequence) }
  }

  /// What is left of the log goes on to its head; who stands before it is told so.
  @Test func theOldLogGoesFromItsBeginning() async throws {
    let fixture = try await Fixture()
    var position = try await fixture.head()
    let early = position
    for number in 0..<300 {
      position = try #require(
        try await fixture.container.commit(
          Fixture.changes("c\(number)", low: UInt64(number)), after: position, from: Fixture.origin)
      )
    }
    #expect(try await fixture.container.removeLog(upTo: 290) == 290)
    do {
      _ = try await fixture.container.segments(after: early)
      Issue.record("a removed segment was read")
    } catch RemoteError.logRemoved {}
    await #expect(throws: RemoteError.self) { try await fixture.container.segments(after: .start) }
    #expect(try await fixture.container.removeLog(upTo: 290) == 0)
    #expect(try await fixture.container.segments(after: position) == [])
    // Who was suspended since it looked puts where nobody would read it.
    for past in [early, .start] {
      #expect(
        try await fixture.container.commit(
          Fixture.changes("late", low: 998), after: past, from: Fixture.origin) == nil)
      #expect(try await fixture.container.removeLog(upTo: 290) == 0)
    }
    #expect(try await fixture.container.exists())
    #expect(
      try await fixture.container.commit(
        Fixture.changes("last", low: 999), after: position, from: Fixture.origin) != nil)
  }

  @Test("a segment that comes back where the log was removed is not read")
  func segmentsInTheRemovedLog() async throws {
    let fixture = try await Fixture()
    var positions = [try await fixture.head()]
    for number in 0..<8 {
      let committed = try await fixture.container.commit(
        Fixture.changes("c\(number)", low: UInt64(number)), after: positions[number],
        from: Fixture.origin)
      positions.append(try #require(committed))
    }
    let early = positions[2]
    let suffix = "\(positions[3].sequence)"
    let keys = try await fixture.keys("containers/")
    let found = keys.first { $0.contains("/log/") && $0.hasSuffix(suffix) }
    let next = try #require(found)
    let stored = try await fixture.store.get(next)
    _ = try await write([try part(["a"])], at: positions[6], fixture.container)
    #expect(try await fixture.container.removeLog(upTo: positions[5].sequence) > 0)
    await fixture.store.set(next, stored)
    var isRemoved = false
    do throws(RemoteError) {
      _ = try await fixture.container.segments(after: early)
    } catch {
      if case .logRemoved = error { isRemoved = true }
    }
    #expect(isRemoved)
  }

  @Test func oldSnapshotsGo() async throws {
    let fixture = try await Fixture()
    var position = try await fixture.head()
    for number in 0..<3 {
      _ = try await write([try part(["a"])], at: position, fixture.container)
      position = try #require(
        try await fixture.container.commit(
          Fixture.changes("c\(number)", low: UInt64(number)), after: position, from: Fixture.origin)
      )
    }
    #expect(try await fixture.container.snapshots(beyond: 0) == [UInt64(3), 2, 1])
    try await fixture.container.removeSnapshots(before: 3)
    #expect(try await fixture.container.snapshots(beyond: 0) == [UInt64(3)])
    #expect(try await fixture.keys("containers/").filter { $0.contains("/snapshots/") }.count == 2)
  }

  @Test func cursorsComeBack() async throws {
    let fixture = try await Fixture()
    let cursor = DeviceCursor(
      device: Fixture.device, sequence: 7, time: Timestamp(nanoseconds: 9), keepRemovedDays: 30)
    try await fixture.container.put(cursor)
    #expect(try await fixture.container.cursors() == [cursor])
    let key = "containers/\(fixture.container.incarnation)/devices/\(Fixture.device)"
    let good = try await fixture.store.get(key)
    for place in good.indices {
      var bad = good
      bad[place] ^= 1
      await fixture.store.set(key, bad)
      await #expect(throws: RemoteError.self) { try await fixture.container.cursors() }
    }
  }
}
