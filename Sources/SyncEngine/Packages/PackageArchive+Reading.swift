internal import Model
internal import RecordFormat

extension PackageArchive {
  /// Estimated bytes of memory that the entries of an archive may take: about a million files. The
  /// size in the store is no bound, since a manifest may repeat one chunk millions of times.
  static let mostMemory = 1 << 30
  /// Of an entry, and of each name in its path, beside their bytes.
  private static let entryMemory = 256
  private static let nameMemory = 64

  /// What an archive holds. Of the files' own chunks none is read: where the frames end, theirs
  /// begin.
  static func entries(
    of manifest: Manifest, memory: Int = mostMemory,
    read: (ChunkReference) async throws -> [UInt8]
  ) async throws -> [PackageTree.Entry] {
    var left = memory
    func spend(_ bytes: Int) throws(Damage) {
      guard bytes <= left else { throw Damage(description: "its entries take too much memory") }
      left -= bytes
    }
    var reader = Reader(chunks: manifest.chunks[...])
    var result: [PackageTree.Entry] = []
    while result.count <= RecordLimits.records {
      let first = try await reader.take(block, read)
      if first.allSatisfy({ $0 == 0 }) { return result }
      guard first[156] == UInt8(ascii: "x") else {
        throw Damage(description: "an entry has no fields")
      }
      let size = try octal(first[124..<136])
      guard size <= mostFieldBytes else {
        throw Damage(description: "an entry's fields are too long")
      }
      try spend(entryMemory + Int(size))
      let fields = try Self.fields(try await reader.take(Int(size), read))
      try spend(nameMemory * ((fields["path"] ?? []).count { $0 == 0x2F } + 1))
      _ = try await reader.take(padding(size), read)
      let header = try await reader.take(block, read)
      var entry = try entry(header, fields)
      if entry.kind == .file {
        let length = fields["size"].flatMap { UInt64(String(decoding: $0, as: UTF8.self)) } ?? 0
        entry.content = try reader.content(length)
        _ = try await reader.take(padding(length), read)
      }
      result.append(entry)
    }
    throw Damage(description: "it has more than \(RecordLimits.records) entries")
  }

  /// New items with what an archive holds, in a directory. Another device made the archive: what it
  /// put there must be what a record may hold, since every device refuses a log with any other
  /// record.
  static func records(
    of entries: [PackageTree.Entry], in root: ItemID, as version: ContentVersion
  ) throws(Damage) -> [ItemRecord] {
    var directories: [[ItemName]: ItemID] = [[]: root]
    var result: [ItemRecord] = []
    result.reserveCapacity(entries.count)
    for entry in entries {
      let id = ItemID.random()
      guard let name = entry.path.last, let parent = directories[entry.path.dropLast()] else {
        throw Damage(description: "a directory is missing")
      }
      if entry.kind == .directory { directories[entry.path] = id }
      let content = entry.content.map {
        ContentVersion(
          id: .random(), parent: nil, device: version.device, modified: entry.modified,
          size: $0.size, manifest: $0)
      }
      let record = ItemRecord(
        id: id, kind: entry.kind, links: [Link(parent: parent, name: name)], mode: entry.mode,
        modified: entry.modified, created: entry.modified, attributes: entry.attributes,
        target: entry.target, content: content)
      do throws(RecordError) {
        result.append(try ItemRecord(decoding: record.encoded()))
      } catch {
        throw Damage(description: error.description)
      }
    }
    return result
  }

  /// Of one entry: no record that a segment holds has more.
  private static var mostFieldBytes: UInt64 { 1 << 28 }

  private struct Reader {
    var chunks: ArraySlice<ChunkReference>
    var buffer: ArraySlice<UInt8> = []

    mutating func take(
      _ count: Int, _ read: (ChunkReference) async throws -> [UInt8]
    ) async throws -> [UInt8] {
      while buffer.count < count {
        guard let next = chunks.popFirst() else { throw Damage(description: "it ends too early") }
        buffer += try await read(next)
      }
      defer { buffer = buffer.dropFirst(count) }
      return Array(buffer.prefix(count))
    }

    mutating func content(_ size: UInt64) throws -> Manifest {
      guard size > 0 else { return .empty }
      guard buffer.isEmpty else { throw Damage(description: "a file begins within a chunk") }
      var result: [ChunkReference] = []
      var left = size
      while left > 0 {
        guard let next = chunks.popFirst(), UInt64(next.length) <= left else {
          throw Damage(description: "a file ends within a chunk")
        }
        left -= UInt64(next.length)
        result.append(next)
      }
      return Manifest(chunks: result)
    }
  }

  private static func octal(_ bytes: ArraySlice<UInt8>) throws -> UInt64 {
    let digits = bytes.prefix { $0 != 0 && $0 != 0x20 }
    guard let value = UInt64(String(decoding: digits, as: UTF8.self), radix: 8) else {
      throw Damage(description: "a number is not valid")
    }
    return value
  }

  private static func fields(_ bytes: [UInt8]) throws -> [String: [UInt8]] {
    var result: [String: [UInt8]] = [:]
    var rest = bytes[...]
    while !rest.isEmpty {
      let digits = rest.prefix { $0 != 0x20 }
      guard digits.count < 12, let length = Int(String(decoding: digits, as: UTF8.self)),
        length > digits.count + 2, length <= rest.count
      else { throw Damage(description: "a field's length is wrong") }
      let field = rest.prefix(length).dropFirst(digits.count + 1).dropLast()
      guard let sign = field.firstIndex(of: 0x3D) else {
        throw Damage(description: "a field has no value")
      }
      result[String(decoding: field[..<sign], as: UTF8.self)] = Array(field[(sign + 1)...])
      rest = rest.dropFirst(length)
    }
    return result
  }

  private static func entry(_ header: [UInt8], _ fields: [String: [UInt8]]) throws
    -> PackageTree.Entry
  {
    let kind: ItemKind
    switch header[156] {
    case UInt8(ascii: "0"): kind = .file
    case UInt8(ascii: "5"): kind = .directory
    case UInt8(ascii: "2"): kind = .symbolicLink
    default: throw Damage(description: "an entry has an unknown kind")
    }
    let path = try (fields["path"] ?? []).split(
      separator: 0x2F, omittingEmptySubsequences: false
    ).map { try ItemName(Array($0)) }
    guard !path.isEmpty, let time = fields["mtime"].flatMap(timestamp) else {
      throw Damage(description: "an entry has no name or time")
    }
    var attributes: [String: [UInt8]] = [:]
    for (key, value) in fields where key.hasPrefix("SCHILY.xattr.") {
      attributes[String(key.dropFirst("SCHILY.xattr.".count))] = value
    }
    return PackageTree.Entry(
      path: path, kind: kind, mode: UInt16(try octal(header[100..<108]) & 0o7777), modified: time,
      attributes: attributes, target: kind == .symbolicLink ? fields["linkpath"] ?? [] : [])
  }

  private static func timestamp(_ text: [UInt8]) -> Timestamp? {
    let isNegative = text.first == UInt8(ascii: "-")
    let parts = text.dropFirst(isNegative ? 1 : 0).split(separator: UInt8(ascii: "."))
    guard parts.count == 2, parts[1].count == 9,
      let seconds = Int64(String(decoding: parts[0], as: UTF8.self)), seconds >= 0,
      let fraction = Int64(String(decoding: parts[1], as: UTF8.self)), fraction >= 0
    else { return nil }
    if isNegative, fraction > 0 {
      return Timestamp(seconds: -seconds - 1, nanoseconds: 1_000_000_000 - fraction)
    }
    return Timestamp(seconds: isNegative ? -seconds : seconds, nanoseconds: fraction)
  }
}
