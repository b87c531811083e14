import Catalog
import Glibc
import Model
import Platform
import SystemPackage
import Testing

/// A directory that goes with the test.
final class TemporaryDirectory {
  let path: String

  init() throws {
    let template = "\(getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp")/catalog-XXXXXX"
    var bytes = Array(template.utf8CString)
    let made = bytes.withUnsafeMutableBufferPointer { mkdtemp($0.baseAddress!) != nil }
    try #require(made)
    path = bytes.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
  }

  deinit { try? Files.removeTree(path) }
}

// SystemPackage has an `Inode` of its own.
typealias Inode = Catalog.Inode

/// Goes on by one second each time it is asked.
final class TickingClock: WallClock {
  private let time: Lock<Int64>

  init(_ start: Int64 = 1_700_000_000_000_000_000) { time = Lock(start) }

  func nanoseconds() -> Int64 {
    time.withLock { time in
      time += 1_000_000_000
      return time
    }
  }
}

struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }
}

extension ItemName: ExpressibleByStringLiteral {
  public init(stringLiteral value: String) {
    do { try self.init(value) } catch { fatalError("\(value): \(error)") }
  }
}

/// A catalog in a directory of its own, and shorthands.
final class Fixture {
  let directory: TemporaryDirectory
  let clock: TickingClock
  private(set) var catalog: ContainerCatalog
  let documents: InodeNumber
  var sequence: UInt64 = 0
  var openInodes: Set<InodeNumber> = []
  var writers: Set<InodeNumber> = []

  var path: String { directory.path + "/catalog.sqlite" }

  /// `isNew`: of a device that has read nothing of the log.
  init(isNew: Bool = false, clock: TickingClock = TickingClock()) throws {
    self.clock = clock
    directory = try TemporaryDirectory()
    catalog = try ContainerCatalog(
      path: directory.path + "/catalog.sqlite", owner: 1000, group: 100, clock: clock)
    documents = try #require(try catalog.lookup(.documents, in: .root)).number
    if !isNew { try foldFirst() }
  }

  /// Folds the first segment of every log.
  func foldFirst() throws {
    let first = try [ItemID.root, .documents].map { try #require(try catalog.local($0)).record }
    try folded(first)
    try apply(first.map { .agree($0.id, stamp: nil) })
  }

  func reopen() throws {
    try catalog.close()
    catalog = try ContainerCatalog(path: path, owner: 1000, group: 100, clock: clock)
  }

  /// After the catalog was closed already.
  func reopenOnly() throws {
    catalog = try ContainerCatalog(path: path, owner: 1000, group: 100, clock: clock)
  }

  /// What another process would find if this one were killed now.
  func crashed() throws -> ContainerCatalog {
    let copy = directory.path + "/crashed-\(UInt64.random(in: 0 ... .max))"
    for suffix in ["", "-wal", "-redo-a", "-redo-b"] {
      let bytes = try Files.read(path + suffix)
      let file = try OpenFile.open(copy + suffix, flags: O_CREAT | O_WRONLY)
      try file.write(bytes, at: 0)
    }
    return try ContainerCatalog(path: copy, owner: 1000, group: 100, clock: clock)
  }

  @discardableResult
  func file(_ name: ItemName, in parent: InodeNumber? = nil) throws -> Inode {
    try catalog.create(
      name, in: parent ?? documents,
      NewItem(kind: .file, mode: 0o644, owner: 1000, group: 100))
  }

  @discardableResult
  func folder(_ name: ItemName, in parent: InodeNumber? = nil) throws -> Inode {
    try catalog.create(
      name, in: parent ?? documents,
      NewItem(kind: .directory, mode: 0o755, owner: 1000, group: 100))
  }

  func write(_ number: InodeNumber, _ size: UInt64) throws {
    try catalog.noteContentChange(
      number, size: size, modified: Timestamp(nanoseconds: clock.nanoseconds()))
  }

  // MARK: The remote side

  /// Installs a recovery of the log, in which the items are as `change` leaves them. `known`: the
  /// last segment that its device had read. `packs`: those that the store has.
  func recover(
    _ number: UInt64, known: LogPosition, packs: Set<PackID> = [],
    _ change: (inout ItemRecord) -> Void
  ) throws {
    let export = try SnapshotExport(catalog)
    var part = SnapshotPart()
    while let page = try export.next() { part.items += page.items }
    export.end()
    for index in part.items.indices { change(&part.items[index]) }
    try catalog.beginSnapshot(isRecovery: true)
    try catalog.stage(part)
    let sequence = number * 1_000_000
    try catalog.installRecovered(
      SnapshotMark(sequence: sequence, bytes: 1), hash: [UInt8](repeating: 1, count: 32),
      from: DeviceID(high: 3, low: 0),
      LogRecovery(number: number, sequence: sequence, known: [known]), packs: packs)
    self.sequence = sequence
  }

  func folded(
    _ upserts: [ItemRecord] = [], removals: [ItemID] = [], chunks: [ChunkLocation] = []
  ) throws {
    try catalog.fold(
      LogChanges(upserts: upserts, removals: removals, chunks: chunks),
      to: LogPosition(sequence: sequence + 1, hash: [UInt8](repeating: 1, count: 32)))
    sequence += 1
  }

  /// Puts everything that is dirty here into the log, as a sync engine would.
  func commitAll() throws {
    var upserts: [ItemRecord] = []
    var removals: [ItemID] = []
    var stamps: [ItemID: UInt64] = [:]
    var versions: [ItemID: UploadedContent] = [:]
    for id in try catalog.differing() {
      if let stamp = try catalog.dirtyStamp(id) { stamps[id] = stamp }
      guard let local = try catalog.local(id) else {
        if try catalog.remote(id) != nil { removals.append(id) }
        continue
      }
      var record = local.record
      if local.isEdited {
        let version = contentVersion(local.inode.size)
        record.content = version
        versions[id] = UploadedContent(
          version: version.id, generation: local.inode.generation, size: local.inode.size,
          modified: local.inode.modified, changed: local.inode.changed)
      }
      upserts.append(record)
    }
    sequence += 1
    try catalog.committed(
      LogChanges(upserts: upserts, removals: removals),
      to: LogPosition(sequence: sequence, hash: [UInt8](repeating: 2, count: 32)), stamps: stamps,
      versions: versions)
  }

  func position() -> LogPosition {
    sequence += 1
    return LogPosition(sequence: sequence, hash: [UInt8](repeating: 3, count: 32))
  }

  @discardableResult
  func apply(_ batch: [LocalOperation]) throws(ApplyFailure) -> ApplyResult {
    try catalog.apply(
      batch, isOpen: { self.openInodes.contains($0) },
      isOpenForWriting: { self.writers.contains($0) })
  }

  func names(_ number: InodeNumber) throws -> [String] {
    try catalog.readDirectory(number, after: 0, limit: 1000).map(\.name.description).sorted()
  }

  func number(_ item: ItemID) throws -> InodeNumber {
    try #require(try catalog.inodeNumber(of: item))
  }

  /// No problem but those of content files, of which these tests have none.
  func isSound(_ catalog: ContainerCatalog? = nil) throws -> Bool {
    let problems = try (catalog ?? self.catalog).check(contentKeys: [], size: { _ in nil })
      .filter { !$0.description.contains("content file") }
    for problem in problems { Issue.record("\(problem)") }
    return problems.isEmpty
  }
}

extension Problem: CustomTestStringConvertible {
  public var testDescription: String { description }
}

func chunk(_ seed: UInt8, _ length: UInt32) -> ChunkReference {
  ChunkReference(id: ChunkID([UInt8](repeating: seed, count: 32))!, length: length)
}

func contentVersion(_ size: UInt64, _ seed: UInt8 = 1) -> ContentVersion {
  ContentVersion(
    id: .random(), parent: nil, device: DeviceID(high: 1, low: 1),
    modified: Timestamp(nanoseconds: 5), size: size,
    manifest: Manifest(chunks: size == 0 ? [] : [chunk(seed, UInt32(size))]))
}

func record(
  _ id: ItemID = .random(), _ kind: ItemKind = .file, _ name: ItemName,
  in parent: ItemID = .documents, size: UInt64 = 10
) -> ItemRecord {
  ItemRecord(
    id: id, kind: kind, links: [Link(parent: parent, name: name)],
    mode: kind == .directory ? 0o755 : 0o644, modified: Timestamp(nanoseconds: 1000),
    created: Timestamp(nanoseconds: 900), target: kind == .symbolicLink ? [0x61] : [],
    content: kind == .file ? contentVersion(size) : nil)
}

extension ContainerCatalog {
  func stage(_ part: SnapshotPart) throws(Errno) { try stage(PreparedPart(part)) }
}
