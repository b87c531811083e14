internal import Model

/// What one operation did, as rows that are to be there or not after it: doing it twice does no
/// harm, and neither does doing it to a database that has some of the later rows already.
struct RedoRecord {
  private(set) var bytes: [UInt8] = []

  enum Tag: UInt8 {
    case inode = 1
    case noInode = 2
    case entry = 3
    case noEntry = 4
    case stamp = 5
    case retired = 6
    case writeBegan = 7
    case writeEnded = 8
    case doneRequest = 9
  }

  var isEmpty: Bool { bytes.isEmpty }

  mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

  mutating func add(_ number: InodeNumber, _ change: Overlay.InodeChange) {
    switch change {
    case .stored(let inode, _): add(inode)
    case .deleted(let kind):
      tag(.noInode)
      word(number.rawValue)
      byte(kind.rawValue)
    }
  }

  private mutating func add(_ inode: Inode) {
    tag(.inode)
    word(inode.number.rawValue)
    identifier(inode.item)
    byte(inode.kind.rawValue)
    byte(
      (inode.isDetached ? 1 : 0) | (inode.version == nil ? 0 : 2)
        | (inode.content == .local ? 0 : 4))
    word(UInt64(inode.mode) | UInt64(UInt8(truncatingIfNeeded: inode.flags)) << 16)
    word(UInt64(inode.owner) | UInt64(inode.group) << 32)
    word(inode.device)
    word(UInt64(inode.linkCount))
    for value in [inode.size, inode.storedBlocks, inode.generation] { word(value) }
    for time in [inode.accessed, inode.modified, inode.changed, inode.created] {
      word(UInt64(bitPattern: time.nanoseconds))
    }
    if let version = inode.version { identifier(version) }
    word(UInt64(inode.target.count))
    bytes += inode.target
  }

  mutating func add(_ parent: InodeNumber, _ name: ItemName, _ change: Overlay.EntryChange) {
    tag(change.isThere ? .entry : .noEntry)
    word(parent.rawValue)
    byte(UInt8(truncatingIfNeeded: name.bytes.count))
    bytes += name.bytes
    guard change.isThere else { return }
    word(UInt64(bitPattern: change.id))
    word(change.child.rawValue)
  }

  mutating func add(_ item: ItemID, _ change: Overlay.StampChange) {
    switch change {
    case .set(let stamp):
      tag(.stamp)
      identifier(item)
      word(stamp)
    case .retired(let stamp):
      tag(.retired)
      identifier(item)
      word(stamp)
    }
  }

  mutating func add(_ number: InodeNumber, began: Int64?) {
    tag(began == nil ? .writeEnded : .writeBegan)
    word(number.rawValue)
    if let began { word(UInt64(bitPattern: began)) }
  }

  mutating func add(_ done: DoneRequest) {
    tag(.doneRequest)
    word(done.request)
    word(done.number.rawValue)
  }

  private mutating func tag(_ tag: Tag) { bytes.append(tag.rawValue) }
  private mutating func byte(_ value: UInt8) { bytes.append(value) }

  private mutating func word(_ value: UInt64) {
    withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
  }

  private mutating func identifier<Kind>(_ value: Identifier<Kind>) {
    word(value.high)
    word(value.low)
  }
}

/// A request of the kernel's that an operation did, with the inode that the answer tells of.
package struct DoneRequest: Sendable {
  package let request: UInt64
  package let number: InodeNumber

  /// Of the last one that is in no record of the journal, in the database.
  static let key = "done.request"
  static let numberKey = "done.inode"
  /// The last ones of a journal that was replayed, in the database.
  static let replayedKey = "done.replayed"
  /// A daemon does only as many requests at a time as it has threads.
  package static let mostUnanswered = 64

  static func encode(_ list: ArraySlice<DoneRequest>) -> [UInt8] {
    list.flatMap { done in
      [done.request, done.number.rawValue].flatMap { word in
        withUnsafeBytes(of: word.littleEndian) { Array($0) }
      }
    }
  }

  static func decode(_ bytes: [UInt8]) -> [DoneRequest] {
    stride(from: 0, to: bytes.count & ~15, by: 16).map { place in
      func word(_ offset: Int) -> UInt64 {
        bytes.withUnsafeBytes {
          UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: place + offset, as: UInt64.self))
        }
      }
      return DoneRequest(request: word(0), number: InodeNumber(word(8)))
    }
  }
}

/// Reads a record and does it to the database.
struct RedoReader {
  /// What the record says was done for the kernel.
  private(set) var done: [DoneRequest] = []
  /// The greatest that the record names, of what is gone again too: the kernel may know it.
  private(set) var greatestInode: UInt64 = 0
  private(set) var greatestEntry: Int64 = 0
  private let bytes: ArraySlice<UInt8>
  private var position: Int

  init(_ bytes: ArraySlice<UInt8>) {
    self.bytes = bytes
    position = bytes.startIndex
  }

  mutating func redo(_ connection: SQLConnection, _ queries: Queries, now: Int64) throws {
    while position < bytes.endIndex {
      guard let tag = RedoRecord.Tag(rawValue: try byte()) else {
        throw CatalogDamage("the redo journal has an unknown record")
      }
      switch tag {
      case .inode:
        let inode = try inode()
        greatestInode = max(greatestInode, inode.number.rawValue)
        // The database may have later rows already, in which another inode stands for the item; its
        // own record follows.
        if !inode.isDetached {
          try queries.vacateItem.run(connection, inode.item, inode.number.column)
        }
        try inode.put(connection, queries)
      case .noInode:
        let number = InodeNumber(try word())
        let kind = ItemKind(rawValue: try byte()) ?? .file
        try Flush.delete(number, kind, connection, queries)
      case .entry:
        let (parent, name) = try place()
        let id = Int64(bitPattern: try word())
        greatestEntry = max(greatestEntry, id)
        try queries.putEntry.run(
          connection, id, parent.column, name, InodeNumber(try word()).column)
      case .noEntry:
        let (parent, name) = try place()
        try queries.deleteEntry.run(connection, parent.column, name)
      case .stamp:
        let item: ItemID = try identifier()
        try queries.setStamp.run(connection, item, try word().column, now)
      case .retired:
        let item: ItemID = try identifier()
        let stamp = try word().column
        try queries.clearStamp.run(connection, item)
        try queries.setStampIfRemote.run(connection, item, stamp, now)
      case .writeBegan:
        let number = InodeNumber(try word())
        try queries.beginWrite.run(connection, number.column, try word().column)
      case .writeEnded:
        try queries.endWrite.run(connection, InodeNumber(try word()).column)
      case .doneRequest:
        let request = try word()
        done.append(DoneRequest(request: request, number: InodeNumber(try word())))
      }
    }
  }

  private mutating func inode() throws -> Inode {
    let number = InodeNumber(try word())
    let item: ItemID = try identifier()
    guard let kind = ItemKind(rawValue: try byte()) else {
      throw CatalogDamage("the redo journal has an unknown kind")
    }
    let marks = try byte()
    let modeAndFlags = try word()
    let owners = try word()
    let device = try word()
    let links = UInt32(truncatingIfNeeded: try word())
    let size = try word()
    let blocks = try word()
    let generation = try word()
    let accessed = try time()
    let modified = try time()
    let changed = try time()
    let created = try time()
    let version: VersionID? = marks & 2 == 0 ? nil : try identifier()
    let target = try take(Int(clamping: try word()))
    var inode = Inode(
      number: number, item: item, kind: kind, mode: UInt16(truncatingIfNeeded: modeAndFlags),
      owner: UInt32(truncatingIfNeeded: owners), group: UInt32(truncatingIfNeeded: owners >> 32),
      device: device, linkCount: links, size: size, accessed: accessed, modified: modified,
      changed: changed, created: created, target: Array(target),
      content: marks & 4 == 0 ? .local : .remote, generation: generation, version: version)
    inode.flags = Int64(UInt8(truncatingIfNeeded: modeAndFlags >> 16))
    inode.isDetached = marks & 1 != 0
    inode.storedBlocks = blocks
    return inode
  }

  private mutating func place() throws -> (InodeNumber, ItemName) {
    let parent = InodeNumber(try word())
    let name = try take(Int(try byte()))
    guard let name = try? ItemName(Array(name)) else {
      throw CatalogDamage("the redo journal has a name that is not allowed")
    }
    return (parent, name)
  }

  private mutating func time() throws -> Timestamp {
    Timestamp(nanoseconds: Int64(bitPattern: try word()))
  }

  private mutating func take(_ count: Int) throws -> ArraySlice<UInt8> {
    guard count >= 0, bytes.endIndex - position >= count else {
      throw CatalogDamage("a record of the redo journal is cut short")
    }
    defer { position += count }
    return bytes[position..<position + count]
  }

  private mutating func byte() throws -> UInt8 {
    let part = try take(1)
    return part[part.startIndex]
  }

  private mutating func word() throws -> UInt64 {
    try take(8).withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self)) }
  }

  private mutating func identifier<Kind>() throws -> Identifier<Kind> {
    Identifier<Kind>(high: try word(), low: try word())
  }
}
