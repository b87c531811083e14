import Catalog
import Coordination
import FileSystem
import Model
import Platform
import SystemPackage
import TestWaiting
import Testing

/// The hidden directory of versions, without a mount.
@Suite struct VersionsDirectoryTests {
  @Test func aFileWithVersionsIsADirectoryOfThem() throws {
    let bench = try VersionsBench()
    let plain = try bench.container.appear("plain", Array("one".utf8))
    let file = try bench.container.appear("file", Array("current".utf8))
    let loser = try bench.addConflict(to: file, "loser", seconds: 7)
    let directory = try bench.container.make(.directory, "dir", mode: 0o750)
    let hidden = try bench.versions.hidden()
    #expect(hidden.isDirectory && hidden.node >= VersionNode.first)
    #expect(try bench.names(.hidden) == ["versions"])
    // A file without a conflict is found all the same, and not listed.
    #expect(try Set(bench.names(.mirror(.root))) == ["Documents", "dir", "file"])
    let current = try bench.record(plain).content
    #expect(try bench.names(.mirror(plain)) == [current?.id.description])
    #expect(
      try bench.lookup("dir", in: .mirror(.root))?.node == VersionNode.mirror(directory).number)
    #expect(try bench.lookup("dir", in: .mirror(.root))?.mode == 0o750)
    #expect(try bench.lookup("none", in: .mirror(.root)) == nil)
    #expect(try bench.lookup("versions", in: .hidden)?.node == VersionNode.mirror(.root).number)

    let mirror = try #require(try bench.lookup("file", in: .mirror(.root)))
    #expect(mirror.isDirectory && mirror.mode == 0o755)
    let winner = try #require(try bench.record(file).content)
    #expect(
      try bench.names(.mirror(file)) == [winner.id.description, loser.id.description])
    let found = try #require(try bench.lookup(loser.id.description, in: .mirror(file)))
    #expect(!found.isDirectory && found.mode == 0o444 && found.size == 5)
    #expect(found.modified == Timestamp(nanoseconds: 7_000_000_000))
    #expect(try bench.lookup(loser.id.description.uppercased(), in: .mirror(file)) == nil)
    #expect(try bench.lookup(VersionID.random().description, in: .mirror(file)) == nil)
    #expect(bench.fetcher.asked == 0)
  }

  @Test func whatWasNeverSentHasNoDirectory() throws {
    let bench = try VersionsBench()
    let (number, handle) = try bench.container.create("new", "text")
    bench.container.system.release(handle)
    #expect(try bench.lookup("new", in: .mirror(.root)) == nil)
    #expect(try bench.names(.mirror(number)) == [])
  }

  @Test func longDirectoriesAreListedInParts() throws {
    let bench = try VersionsBench()
    for index in 0..<50 { _ = try bench.container.appear("f\(index)", [1]) }
    for index in 0..<7 { _ = try bench.container.make(.directory, "d\(index)") }
    let last = try bench.container.appear("last", Array("x".utf8))
    _ = try bench.addConflict(to: last, "y", seconds: 1)
    let all = ["Documents"] + (0..<7).map { "d\($0)" } + ["last"]
    #expect(try bench.names(.mirror(.root), limit: 3) == all)
    #expect(try bench.names(.mirror(last), limit: 1).count == 2)
  }

  @Test func openingBringsAVersionOnceForAll() async throws {
    let bench = try VersionsBench()
    let file = try bench.container.appear("file", Array("current".utf8))
    let loser = try bench.addConflict(to: file, "loser", seconds: 7)
    let node = try bench.node(loser, of: file)
    let first = try await bench.open(node)
    let second = try await bench.open(node)
    #expect(try bench.read(first) == "loser" && bench.read(second) == "loser")
    #expect(bench.fetcher.asked == 1)
    bench.versions.opens.release(first)
    #expect(try bench.read(second) == "loser")
    #expect(throws: Errno.badFileDescriptor) { try bench.versions.opens.file(first) }
    bench.versions.opens.release(second)
    // It stays for a moment.
    bench.versions.opens.release(try await bench.open(node))
    #expect(bench.fetcher.asked == 1)
  }

  @Test func offlineIsSaidAtOnce() async throws {
    let bench = try VersionsBench()
    let file = try bench.container.appear("file", Array("current".utf8))
    let loser = try bench.addConflict(to: file, "loser", seconds: 7)
    let node = try bench.node(loser, of: file)
    bench.fetcher.fail(.offline)
    await #expect(throws: Errno.networkDown) { try await bench.open(node) }
    bench.fetcher.fail(nil)
    #expect(try await bench.read(bench.open(node)) == "loser")
    bench.container.coordinator.setVersionFetcher(nil)
    let current = try #require(try bench.record(file).content)
    let whole = try bench.node(current, of: file)
    await #expect(throws: Errno.networkDown) { try await bench.open(whole) }
  }

  @Test func manyVersionsComeAFewAtATime() async throws {
    let bench = try VersionsBench()
    let file = try bench.container.appear("file", Array("current".utf8))
    var nodes: [(VersionNode, String)] = []
    for index in 0..<30 {
      let loser = try bench.addConflict(to: file, "loser \(index)", seconds: 7)
      nodes.append((try bench.node(loser, of: file), "loser \(index)"))
    }
    bench.fetcher.hold()
    let read = Task { [nodes] in
      try await withThrowingTaskGroup(of: Bool.self) { group in
        for (node, text) in nodes {
          group.addTask { try await bench.read(bench.open(node)) == text }
        }
        return try await group.reduce(true) { $0 && $1 }
      }
    }
    try await eventually("the fetcher is asked for eight versions") { bench.fetcher.asked >= 8 }
    // Nothing tells that a ninth question does not happen.
    for _ in 0..<1000 { await Task.yield() }
    #expect(bench.fetcher.asked == 8)
    bench.fetcher.letGo()
    #expect(try await read.value)
    #expect(bench.fetcher.asked == 30)
  }

  /// What comes short is no content.
  @Test func aShortVersionIsAnError() async throws {
    let bench = try VersionsBench()
    let file = try bench.container.appear("file", Array("current".utf8))
    let loser = try bench.addConflict(to: file, "loser", seconds: 7)
    bench.fetcher.offer("los", as: loser.id)
    let node = try bench.node(loser, of: file)
    await #expect(throws: Errno.ioError) { try await bench.open(node) }
  }

  @Test func theCurrentVersionIsACopyOfWhatIsHere() async throws {
    let bench = try VersionsBench()
    let file = try bench.container.appear("file", Array("current".utf8))
    let current = try #require(try bench.record(file).content)
    let handle = try bench.container.open(file, writing: true)
    #expect(try bench.container.read(handle) == "current")
    bench.container.system.release(handle)
    #expect(try bench.container.catalog.inode(file).content == .local)
    bench.fetcher.fail(.offline)
    let version = try await bench.open(bench.node(current, of: file))
    #expect(try bench.read(version) == "current")
    let writer = try bench.container.open(file, writing: true)
    try bench.container.write(writer, "CHANGED")
    bench.container.system.release(writer)
    #expect(try bench.read(version) == "current")
    bench.versions.opens.release(version)
  }

  @Test func aVersionThatWasResolvedStaysToWhoHasItOpen() async throws {
    let bench = try VersionsBench()
    let file = try bench.container.appear("file", Array("current".utf8))
    let loser = try bench.addConflict(to: file, "loser", seconds: 7)
    let before = try bench.versions.status(.mirror(file)).modified
    let node = try bench.node(loser, of: file)
    let handle = try await bench.open(node)
    try bench.change(file) { $0.conflicts = [] }
    #expect(try bench.lookup(loser.id.description, in: .mirror(file)) == nil)
    #expect(try bench.names(.mirror(.root)) == ["Documents"])
    // By this the kernel learns that what it listed is no longer so.
    #expect(try bench.versions.status(.mirror(file)).modified > before)
    #expect(try bench.versions.status(.mirror(.root)).modified > before)
    #expect(try bench.versions.status(node).size == 5)
    #expect(try bench.read(handle) == "loser")
    bench.versions.opens.release(handle)
    bench.versions.forget(node, count: 1)
    #expect(throws: Errno.staleNFSFileHandle) { try bench.versions.status(node) }
  }

  @Test("an open of an earlier daemon keeps its handle, and its content is brought again")
  func succession() async throws {
    let bench = try VersionsBench(record: try MountRecord())
    let file = try bench.container.appear("file", Array("current".utf8))
    let loser = try bench.addConflict(to: file, "loser", seconds: 7)
    let resolved = try bench.addConflict(to: file, "resolved", seconds: 8)
    let node = try bench.node(loser, of: file)
    let kept = try await bench.open(node)
    let closed = try await bench.open(node)
    let gone = try await bench.open(bench.node(resolved, of: file))
    bench.versions.opens.release(closed)
    try bench.change(file) { $0.conflicts.removeAll { $0.id == resolved.id } }
    try bench.container.catalog.commit(durable: false)

    let next = try VersionsBench(after: bench)
    next.fetcher.offer("loser", as: loser.id)
    #expect(try next.versions.status(node).size == 5)
    #expect(try next.versions.opens.size(kept) == 5)
    #expect(try next.versions.opens.file(kept) == nil)
    let found = try await withCheckedThrowingContinuation { done in
      do {
        _ = try next.versions.opens.bring(kept, for: Caller(user: 0, group: 0)) {
          done.resume(with: $0.mapError { $0 as any Error })
        }
      } catch {
        done.resume(throwing: error)
      }
    }
    #expect(try found.read(count: 100, at: 0) == Array("loser".utf8))
    #expect(try next.read(kept) == "loser")
    for handle in [closed, gone] {
      #expect(throws: Errno.badFileDescriptor) { try next.versions.opens.file(handle) }
    }
    next.versions.opens.release(kept)
    let after = try VersionsBench(after: next)
    #expect(throws: Errno.badFileDescriptor) { try after.versions.opens.file(kept) }
  }

  @Test func whatIsGivenUpIsForgotten() async throws {
    let bench = try VersionsBench()
    let file = try bench.container.appear("file", Array("current".utf8))
    let loser = try bench.addConflict(to: file, "loser", seconds: 7)
    let node = try bench.node(loser, of: file)
    bench.fetcher.hold()
    guard case .wait(let wait) = try bench.versions.open(node) else {
      Issue.record("it is here already")
      return
    }
    let ticket = bench.versions.opens.open(wait) { _ in Issue.record("it was given up") }
    ticket.cancel()
    bench.fetcher.letGo()
    #expect(try await bench.read(bench.open(node)) == "loser")
  }
}

/// A container with a hidden directory, and versions that come from memory.
private final class VersionsBench: Sendable {
  let container: Container
  let versions: VersionsDirectory
  let fetcher = VersionFetcher()

  init(record: MountRecord? = nil) throws {
    container = try Container(record: record)
    versions = VersionsDirectory(fileSystem: container.system)
    container.coordinator.setVersionFetcher(fetcher)
  }

  /// The next daemon, after a kill.
  init(after former: VersionsBench) throws {
    let record = try MountRecord(try #require(former.container.system.record).file)
    container = try Container(record: record, imageOf: former.container)
    versions = VersionsDirectory(fileSystem: container.system)
    container.coordinator.setVersionFetcher(fetcher)
    _ = try container.system.restore(record, start: Timestamp(nanoseconds: 0))
    _ = versions.restore(record)
  }

  func record(_ number: InodeNumber) throws -> ItemRecord {
    let item = try container.catalog.inode(number).item
    return try #require(try container.catalog.remote(item))
  }

  /// As another device's segment would.
  func change(_ number: InodeNumber, _ body: (inout ItemRecord) -> Void) throws {
    var record = try record(number)
    body(&record)
    let position = try container.catalog.position()
    try container.catalog.fold(
      LogChanges(upserts: [record]),
      to: LogPosition(sequence: position.sequence + 1, hash: [UInt8](repeating: 3, count: 32)))
  }

  func addConflict(to number: InodeNumber, _ text: String, seconds: Int64) throws -> ContentVersion
  {
    let chunk = try #require(ChunkID([UInt8](repeating: 9, count: 32)))
    let version = ContentVersion(
      id: .random(), parent: nil, device: .random(),
      modified: Timestamp(nanoseconds: seconds * 1_000_000_000), size: UInt64(text.utf8.count),
      manifest: Manifest(chunks: [ChunkReference(id: chunk, length: UInt32(text.utf8.count))]))
    try change(number) { $0.conflicts.append(version) }
    fetcher.offer(text, as: version.id)
    return version
  }

  func lookup(_ name: String, in node: VersionNode) throws -> VersionStatus? {
    try versions.lookup(Array(name.utf8), in: node)
  }

  func node(_ version: ContentVersion, of file: InodeNumber) throws -> VersionNode {
    let found = try #require(try lookup(version.id.description, in: .mirror(file)))
    return try #require(VersionNode(found.node))
  }

  func names(_ node: VersionNode, limit: Int = 100) throws -> [String] {
    var result: [String] = []
    var offset: UInt64 = 0
    while true {
      let page = try versions.list(node, from: offset, limit: limit)
      guard let last = page.last else { break }
      offset = last.offset
      result += page.map { String(decoding: $0.name, as: UTF8.self) }
    }
    return result.filter { $0 != "." && $0 != ".." }
  }

  func open(_ node: VersionNode) async throws -> UInt64 {
    switch try versions.open(node) {
    case .opened(let handle): return handle
    case .wait(let wait):
      return try await withCheckedThrowingContinuation { done in
        _ = versions.opens.open(wait) { result in
          done.resume(with: result.mapError { $0 as any Error })
        }
      }
    }
  }

  func read(_ handle: UInt64) throws -> String {
    let file = try #require(try versions.opens.file(handle))
    return String(decoding: try file.read(count: 100, at: 0), as: UTF8.self)
  }
}

private final class VersionFetcher: VersionFetching {
  private struct State {
    var contents: [VersionID: [UInt8]] = [:]
    var asked = 0
    var failure: FetchFailure?
  }

  private struct Ticket: FetchTicket { func cancel() {} }

  private let state = Lock(State())
  private let queue = WorkQueue()
  private let gate = Gate(open: true)

  deinit { queue.stop() }

  var asked: Int { state.withLock { $0.asked } }

  func offer(_ text: String, as version: VersionID) {
    state.withLock { $0.contents[version] = Array(text.utf8) }
  }

  func fail(_ failure: FetchFailure?) { state.withLock { $0.failure = failure } }
  func hold() { gate.close() }
  func letGo() { gate.open() }

  func fetch(
    _ version: VersionID, of number: InodeNumber, into file: OpenFile, cause: DownloadCause,
    completion: @escaping @Sendable (Result<Void, FetchFailure>) -> Void
  ) -> any FetchTicket {
    let (bytes, failure) = state.withLock { state in
      state.asked += 1
      return (state.contents[version], state.failure)
    }
    queue.add { [gate] in
      gate.wait()
      if let failure { return completion(.failure(failure)) }
      guard let bytes, (try? file.write(bytes, at: 0)) != nil else {
        return completion(.failure(.notFound))
      }
      completion(.success(()))
    }
    return Ticket()
  }
}
