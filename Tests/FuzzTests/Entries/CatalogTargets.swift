import GRDB
import Model
import Platform

@testable import Catalog

/// The redo journal, as a disk or another program may have left it.
extension FuzzTarget {
  static let catalogTargets: [FuzzTarget] = [
    FuzzTarget(
      "journal-record", limit: 2048, seeds: { try [JournalSamples.record()] },
      run: { bytes in
        try JournalDatabase.shared.withLock { try $0.get().redo(bytes) }
      }),
    // The records of a file. If the first byte says so, their checksums are made right.
    FuzzTarget(
      "journal-file", limit: 4096, seeds: { try JournalSamples.files() },
      run: { bytes in
        var input = InputReader(bytes)
        let isRight = input.byte() & 1 != 0
        var content = input.all()
        if isRight { JournalSamples.makeRight(&content) }
        let records = try ScratchFile.shared.withLock { try $0.get().records(content) }
        var last: UInt64?
        for record in records {
          try expect(last.map { record.sequence == $0 &+ 1 } ?? true, "records are out of order")
          last = record.sequence
        }
      }),
  ]
}

/// A database in memory, as it was made after each record.
private struct JournalDatabase: @unchecked Sendable {
  // Unchecked: used under the lock of `shared`.
  static let shared = Lock(Result { try JournalDatabase() })

  private let connection: SQLConnection
  private let queries = Queries()

  init() throws {
    var configuration = GRDB.Configuration()
    configuration.allowsUnsafeTransactions = true
    configuration.foreignKeysEnabled = false
    let queue = try DatabaseQueue(configuration: configuration)
    try queue.inDatabase { db in
      for migration in Schema.migrations { try db.execute(sql: migration) }
    }
    connection = try SQLConnection(queue)
  }

  /// Each inode that a record leaves can be read, and written again to the same row.
  func redo(_ bytes: [UInt8]) throws {
    try queries.begin.run(connection)
    defer { try? connection.execute("ROLLBACK") }
    var reader = RedoReader(bytes[...])
    do { try reader.redo(connection, queries, now: 1) } catch { return }
    let query = Query("SELECT \(Queries.inodeColumns) FROM inode i")
    for inode in try query.all(connection, read: { try Inode($0) }) {
      try inode.put(connection, queries)
      _ = inode.blocks
    }
    let rows = try query.all(connection, read: { try Inode($0) })
    try expect(Set(rows.map(\.number)).count == rows.count, "an inode has two rows")
    _ = try Query("SELECT name FROM entry").all(connection) { try $0.name(0) }
  }
}

private struct ScratchFile: @unchecked Sendable {
  // Unchecked: used under the lock of `shared`.
  static let shared = Lock(Result { try ScratchFile() })

  private let journal: RedoFile

  init() throws {
    // Removed at once: the descriptor is all that is needed.
    let path = "/tmp/fuzz-journal-\(UInt64.random(in: 0...(.max)))"
    journal = try RedoFile(path: path, capacity: RedoJournal.capacity)
    try Files.remove(path)
  }

  func records(_ content: [UInt8]) throws -> [RedoFile.Record] {
    try journal.file.truncate(to: 0)
    try journal.file.write(content, at: 0)
    return try journal.read()
  }
}

private enum JournalSamples {
  static func record() throws -> [UInt8] {
    var record = RedoRecord()
    let time = Timestamp(nanoseconds: 5)
    let inode = Inode(
      number: InodeNumber(7), item: ItemID(high: 1, low: 2), kind: .symbolicLink, mode: 0o777,
      owner: 1, group: 2, linkCount: 1, size: 4, accessed: time, modified: time, changed: time,
      created: time, target: [UInt8]("a/bc"), generation: 3, version: VersionID(high: 5, low: 6))
    record.add(inode.number, .stored(inode, isNew: true))
    record.add(
      .root, .documents, Overlay.EntryChange(child: InodeNumber(7), id: 16, isNew: true))
    record.add(ItemID(high: 1, low: 2), .set(9))
    record.add(ItemID(high: 1, low: 2), .retired(10))
    record.add(InodeNumber(7), began: 11)
    record.add(InodeNumber(7), began: nil)
    record.add(InodeNumber(7), .deleted(.file))
    return record.bytes
  }

  static func files() throws -> [[UInt8]] {
    var content = [UInt8](repeating: 0, count: RedoFile.headerSize)
    for _ in 0..<2 {
      let payload = try record()
      content += word(UInt64(payload.count)) + [UInt8](repeating: 0, count: 24) + payload
      content += [UInt8](repeating: 0, count: (8 - payload.count % 8) % 8)
    }
    // The sequence of the header.
    content[8] = 3
    var right = content
    makeRight(&right)
    return [[1] + content, [0] + right]
  }

  /// Sets the magic, the sequences and the checksums, as far as the lengths of the records go.
  static func makeRight(_ content: inout [UInt8]) {
    guard content.count >= RedoFile.headerSize else { return }
    put(0x4F44_4552_5142_5500, at: 0, in: &content)
    put(RedoFile.checksum(content[0..<16], seed: 0), at: 16, in: &content)
    var sequence = number(content[8..<16])
    var position = RedoFile.headerSize
    while position + RedoFile.recordHeaderSize <= content.count {
      let length = Int(clamping: number(content[position..<position + 8]))
      let start = position + RedoFile.recordHeaderSize
      guard length <= content.count - start else { return }
      put(sequence, at: position + 8, in: &content)
      let seed = RedoFile.checksum(content[position..<position + 24], seed: 1)
      let sum = RedoFile.checksum(content[start..<start + length], seed: seed)
      put(sum, at: position + 24, in: &content)
      sequence &+= 1
      position = start + (length + 7) & ~7
    }
  }

  private static func word(_ value: UInt64) -> [UInt8] {
    withUnsafeBytes(of: value.littleEndian) { Array($0) }
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  private static func put(_ value: UInt64, at offset: Int, in content: inout [UInt8]) {
    content.replaceSubrange(offset..<offset + 8, with: word(value))
  }
}
