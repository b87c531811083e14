import Backend
import BackendDirectory
import Glibc
import Model
import Platform
import RemoteStore
import SystemPackage
import Testing

@Suite struct ContentTests {
  private func upload(_ fixture: Fixture, _ contents: [[UInt8]]) async throws
    -> (manifests: [Manifest], locations: [ChunkLocation])
  {
    let uploader = fixture.container.makeUploader()
    var manifests: [Manifest] = []
    for bytes in contents {
      let file = try temporaryFile(bytes)
      manifests.append(try await uploader.add(file: file, size: UInt64(bytes.count)))
    }
    return (manifests, try await uploader.finish())
  }

  private func download(
    _ fixture: Fixture, _ manifest: Manifest, _ locations: [ChunkLocation]
  ) async throws -> [UInt8] {
    let places = Dictionary(uniqueKeysWithValues: locations.map { ($0.chunk.id, $0) })
    let wanted = try manifest.chunks.map { try #require(places[$0.id]) }
    return try await fixture.container.read(wanted).flatMap(\.array)
  }

  @Test func contentsComeBack() async throws {
    let fixture = try await Fixture()
    let contents = [
      [], [1], noise(4096, seed: 1), noise(524_288, seed: 2), noise(524_289, seed: 3),
      noise(20 << 20, seed: 4), [UInt8](repeating: 0, count: 9_000_000),
      Array(String(repeating: "the same again ", count: 100_000).utf8),
    ]
    let (manifests, locations) = try await upload(fixture, contents)
    #expect(manifests[0] == .empty)
    for (bytes, manifest) in zip(contents, manifests) {
      #expect(manifest.size == UInt64(bytes.count))
      #expect(try await download(fixture, manifest, locations) == bytes)
    }
    // Each pack is one put, and what compresses is small.
    #expect(Set(locations.map(\.pack)).count == 3)
    #expect(fixture.meter.traffic.bytesUploaded < 22 << 20)
  }

  @Test func chunksAreSentOnce() async throws {
    let fixture = try await Fixture()
    let bytes = noise(10 << 20, seed: 1)
    let (manifests, locations) = try await upload(fixture, [bytes, bytes, [7] + bytes])
    #expect(manifests[0] == manifests[1])
    #expect(Set(locations.map(\.chunk.id)).count == locations.count)
    #expect(fixture.meter.traffic.bytesUploaded < 13 << 20)

    let known = Set(locations.map(\.chunk.id))
    let before = fixture.meter.traffic
    let uploader = fixture.container.makeUploader()
    var changed = bytes
    changed[5_000_000] ^= 1
    let manifest = try await uploader.add(
      file: temporaryFile(changed), size: UInt64(changed.count), isKnown: { known.intersection($0) }
    )
    let new = try await uploader.finish()
    #expect((1...2).contains(new.count))
    #expect(fixture.meter.traffic.bytesUploaded - before.bytesUploaded < 2_200_000)
    #expect(try await download(fixture, manifest, locations + new) == changed)
    #expect(try await fixture.container.makeUploader().finish() == [])
  }

  @Test func smallFilesShareAPack() async throws {
    let fixture = try await Fixture()
    let puts = fixture.meter.traffic.puts
    let contents = (0..<300).map { noise(1000 + $0, seed: UInt64($0)) }
    let (manifests, locations) = try await upload(fixture, contents)
    #expect(fixture.meter.traffic.puts - puts == 1)
    // Read all at once, they come with one request.
    let gets = fixture.meter.traffic.gets
    let all = try await fixture.container.read(locations)
    #expect(all.count == 300)
    #expect(fixture.meter.traffic.gets - gets == 1)
    #expect(try await download(fixture, manifests[17], locations) == contents[17])
  }

  /// Many at once, one of which is being written, one shorter than it should be, one unreadable:
  /// the others go up, and only files that were read are made durable.
  @Test func smallFilesGoTogether() async throws {
    let fixture = try await Fixture()
    let contents = (0..<20).map { noise(20_000 + $0 / 2, seed: UInt64($0 / 2)) }
    let durable = Lock(Set<Int>())
    let files = contents.enumerated().map { index, bytes in
      SmallFile(size: UInt64(bytes.count)) { () throws(Errno) in
        switch index {
        case 3: return nil
        case 5: throw .ioError
        case 7: return try! temporaryFile(Array(bytes.dropLast()))
        default: return try! temporaryFile(bytes)
        }
      } synchronize: { _ throws(Errno) in
        durable.withLock { _ = $0.insert(index) }
        if index == 9 { throw .noSpace }
      }
    }
    let uploader = fixture.container.makeUploader()
    let results = try await uploader.add(small: files)
    let locations = try await uploader.finish()
    #expect(durable.withLock { $0 } == Set(0..<20).subtracting([3, 5, 7]))
    for (index, result) in results.enumerated() {
      switch index {
      case 3, 7: #expect(throws: RemoteError.changedWhileReading) { try result.get() }
      case 5: #expect(throws: RemoteError.file(.ioError)) { try result.get() }
      case 9: #expect(throws: RemoteError.file(.noSpace)) { try result.get() }
      default:
        #expect(try await download(fixture, try result.get(), locations) == contents[index])
      }
    }
    // Each content is there twice; both files of the pairs with a fault in them have one left.
    #expect(locations.count == 10)
  }

  @Test func filesMayBeAddedAtTheSameTime() async throws {
    let fixture = try await Fixture()
    let shared = noise(3 << 20, seed: 99)
    let contents = (0..<6).map { noise(2 << 20, seed: UInt64($0)) + shared }
    let uploader = fixture.container.makeUploader()
    let manifests = try await withThrowingTaskGroup(of: (Int, Manifest).self) { group in
      for (index, bytes) in contents.enumerated() {
        group.addTask {
          (index, try await uploader.add(file: temporaryFile(bytes), size: UInt64(bytes.count)))
        }
      }
      return try await group.reduce(into: [Int: Manifest]()) { $0[$1.0] = $1.1 }
    }
    let locations = try await uploader.finish()
    #expect(Set(locations.map(\.chunk.id)).count == locations.count)
    for (index, bytes) in contents.enumerated() {
      let manifest = try #require(manifests[index])
      #expect(try await download(fixture, manifest, locations) == bytes)
    }
  }

  @Test func aSmallReadOfALargeFileMovesLittle() async throws {
    let fixture = try await Fixture()
    let (manifests, locations) = try await upload(fixture, [noise(40 << 20, seed: 1)])
    let before = fixture.meter.traffic
    let places = Dictionary(uniqueKeysWithValues: locations.map { ($0.chunk.id, $0) })
    let chunk = try #require(places[manifests[0].chunks[30].id])
    _ = try await fixture.container.read([chunk])
    #expect(fixture.meter.traffic.gets - before.gets == 1)
    #expect(
      fixture.meter.traffic.bytesDownloaded - before.bytesDownloaded == UInt64(chunk.storedLength))
    // The whole: at most 8 MiB with each request.
    let all = fixture.meter.traffic.gets
    _ = try await fixture.container.read(locations)
    #expect((5...10).contains(fixture.meter.traffic.gets - all))
  }

  @Test func chunksMayBeAskedForTwiceAndInAnyOrder() async throws {
    let fixture = try await Fixture()
    let (_, locations) = try await upload(fixture, (0..<5).map { noise(5000, seed: UInt64($0)) })
    let wanted = [3, 1, 1, 4, 0, 3].map { locations[$0] }
    let read = try await fixture.container.read(wanted)
    for (location, bytes) in zip(wanted, read) {
      #expect(bytes.count == Int(location.chunk.length))
      #expect(try await fixture.container.read([location]).map(\.array) == [bytes.array])
    }
    #expect(try await fixture.container.read([]).isEmpty)
  }

  @Test func everyChangedByteOfAChunkIsFound() async throws {
    let fixture = try await Fixture()
    let (_, locations) = try await upload(fixture, [noise(300, seed: 1), noise(300, seed: 2)])
    let key = "containers/\(fixture.container.incarnation)/packs/\(locations[0].pack)"
    let good = try await fixture.store.get(key)
    let start = Int(locations[0].offset)
    for index in start..<start + Int(locations[0].storedLength) {
      var bad = good
      bad[index] ^= 4
      await fixture.store.set(key, bad)
      await expectDamage { _ = try await fixture.container.read([locations[0]]) }
    }
    // Damage of one chunk is none of another.
    _ = try await fixture.container.read([locations[1]])
    for count in [0, 8, start + 10, start + Int(locations[0].storedLength) - 1] {
      await fixture.store.set(key, Array(good.prefix(count)))
      await expectDamage { _ = try await fixture.container.read(locations) }
    }
    try await fixture.store.delete(key)
    await expectDamage { _ = try await fixture.container.read(locations) }
  }

  @Test func aChunkIsNotTakenForAnother() async throws {
    let fixture = try await Fixture()
    let (_, locations) = try await upload(fixture, [noise(300, seed: 1), noise(300, seed: 2)])
    let swapped = ChunkLocation(
      chunk: locations[0].chunk, pack: locations[1].pack, offset: locations[1].offset,
      storedLength: locations[1].storedLength)
    await expectDamage { _ = try await fixture.container.read([swapped]) }
    let longer = ChunkLocation(
      chunk: ChunkReference(id: locations[0].chunk.id, length: 301), pack: locations[0].pack,
      offset: locations[0].offset, storedLength: locations[0].storedLength)
    await expectDamage { _ = try await fixture.container.read([longer]) }
  }

  @Test func aFileThatGotShorterIsToldApart() async throws {
    let fixture = try await Fixture()
    let uploader = fixture.container.makeUploader()
    let file = try temporaryFile(noise(1000, seed: 1))
    await #expect(throws: RemoteError.changedWhileReading) {
      try await uploader.add(file: file, size: 1001)
    }
    // Nothing of it stands in the way of the next.
    let manifest = try await uploader.add(file: file, size: 1000)
    #expect(try await uploader.finish().map(\.chunk) == manifest.chunks)
  }

  @Test func aFailedPutFailsTheUpload() async throws {
    let fixture = try await Fixture()
    let offline = OfflineSwitch()
    let account = try await RemoteAccount.open(
      store: GatedStore(fixture.store, offline: offline), secret: AccountSecret(Fixture.secret),
      createIfMissing: false)
    let container = account.container(
      fixture.container.id, incarnation: fixture.container.incarnation)
    let uploader = container.makeUploader()
    _ = try await uploader.add(file: temporaryFile(noise(1000, seed: 1)), size: 1000)
    offline.set(offline: true)
    await #expect(throws: RemoteError.store(.offline)) { try await uploader.finish() }
    offline.set(offline: false)
    await #expect(throws: RemoteError.store(.offline)) { try await uploader.finish() }
    await #expect(throws: RemoteError.store(.offline)) {
      try await uploader.add(file: temporaryFile([1]), size: 1)
    }
  }

  @Test("no pack is stored after an upload was abandoned")
  func abandonedUpload() async throws {
    let fixture = try await Fixture()
    let uploader = fixture.container.makeUploader()
    let before = try await fixture.keys().count
    let abandoning = Lock<Task<Void, Never>?>(nil)
    let bytes = noise(40 << 20, seed: 3)
    let file = try temporaryFile(bytes)
    await #expect(throws: RemoteError.cancelled) {
      _ = try await uploader.add(
        file: file, size: UInt64(bytes.count),
        isKnown: { _ in
          // The chunks of this call are about to be sealed and put into a pack.
          abandoning.withLock { task in
            if task == nil { task = Task { await uploader.abandon() } }
          }
          return []
        })
    }
    await abandoning.withLock { $0 }?.value
    #expect(try await fixture.keys().count == before)
    await #expect(throws: RemoteError.cancelled) { try await uploader.finish() }
  }

  @Test func aFailedLookupFailsTheFileAlone() async throws {
    struct Failed: Error {}
    let fixture = try await Fixture()
    let uploader = fixture.container.makeUploader()
    await #expect(throws: RemoteError.self) {
      try await uploader.add(file: temporaryFile([1]), size: 1, isKnown: { _ in throw Failed() })
    }
    _ = try await uploader.add(file: temporaryFile([1]), size: 1)
    #expect(try await uploader.finish().count == 1)
  }

  @Test func aCancelledUploadEnds() async throws {
    let fixture = try await Fixture()
    let uploader = fixture.container.makeUploader()
    let file = try temporaryFile(noise(24 << 20, seed: 1))
    let (reports, report) = AsyncStream.makeStream(of: UInt64.self)
    let task = Task {
      try await uploader.add(file: file, size: 24 << 20, progress: { report.yield($0) })
    }
    var iterator = reports.makeAsyncIterator()
    #expect(await iterator.next() ?? 0 > 0)
    task.cancel()
    do {
      _ = try await task.value
    } catch {
      #expect(error as? RemoteError == .cancelled)
    }
  }

  @Test func progressEndsAtTheSize() async throws {
    let fixture = try await Fixture()
    let uploader = fixture.container.makeUploader()
    let reports = Lock<[UInt64]>([])
    let size = UInt64(20 << 20)
    _ = try await uploader.add(
      file: temporaryFile(noise(Int(size), seed: 1)), size: size,
      progress: { done in reports.withLock { $0.append(done) } })
    let told = reports.withLock { $0 }
    #expect(told == told.sorted())
    #expect(told.last == size)
    #expect(told.count > 1)
  }

  @Test func aDirectoryIsACloud() async throws {
    let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    let path = "\(base)/ubiquityfs-test-\(getpid())-\(UInt64.random(in: 0...UInt64.max))"
    defer { try? Files.removeTree(path) }
    let id = try Fixture.containerID()
    let secret = AccountSecret.generate()
    let one = try await RemoteAccount.open(
      store: DirectoryStore(path: path, createIfMissing: true), secret: secret,
      createIfMissing: true)
    let mine = try await one.createContainer(
      id, device: Fixture.device, time: Timestamp(nanoseconds: 1))
    let two = try await RemoteAccount.open(
      store: DirectoryStore(path: path, createIfMissing: false), secret: secret,
      createIfMissing: false)
    let theirs = try #require(try await two.container(id))
    var news = theirs.news().makeAsyncIterator()
    let uploader = mine.makeUploader()
    let bytes = noise(3 << 20, seed: 1)
    let manifest = try await uploader.add(file: temporaryFile(bytes), size: 3 << 20)
    let head = try #require(try await mine.segments(after: .start).last).position
    let changes = LogChanges(chunks: try await uploader.finish())
    _ = try await mine.commit(changes, after: head, from: Fixture.origin)
    #expect(await news.next() != nil)
    let segment = try #require(try await theirs.segments(after: head).first)
    #expect(segment.changes == changes)
    let places = Dictionary(
      uniqueKeysWithValues: segment.changes.chunks.map { ($0.chunk.id, $0) })
    let wanted = try manifest.chunks.map { try #require(places[$0.id]) }
    #expect(try await theirs.read(wanted).flatMap(\.array) == bytes)
  }

  private func expectDamage(_ call: () async throws -> Void) async {
    do {
      try await call()
      Issue.record("it was taken")
    } catch RemoteError.damaged {
    } catch RemoteError.packMissing {
    } catch {
      Issue.record(error)
    }
  }
}
