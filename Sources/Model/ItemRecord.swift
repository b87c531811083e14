package enum ItemKind: UInt8, Sendable, Hashable, CaseIterable {
  case file = 1
  case directory = 2
  case symbolicLink = 3
  case fifo = 4
  case socket = 5
  case characterDevice = 6
  case blockDevice = 7

  /// FIFOs, sockets and device nodes work and stay on the device.
  package var isSynced: Bool { rawValue <= ItemKind.symbolicLink.rawValue }
}

/// Where an item stands: a name in a directory. A hard-linked file has several.
package struct Link: Hashable, Comparable, Sendable {
  package var parent: ItemID
  package var name: ItemName

  package init(parent: ItemID, name: ItemName) {
    self.parent = parent
    self.name = name
  }

  package static func < (left: Self, right: Self) -> Bool {
    left.parent == right.parent ? left.name < right.name : left.parent < right.parent
  }
}

/// A chunk's name: the HMAC-SHA-256 of its plain bytes under a key of the account.
package struct ChunkID: Hashable, Sendable, Comparable {
  package let bytes: [UInt8]

  /// Nil unless there are exactly 32 bytes.
  package init?(_ bytes: [UInt8]) {
    guard bytes.count == 32 else { return nil }
    self.bytes = bytes
  }

  package static func < (left: Self, right: Self) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}

package struct ChunkReference: Hashable, Sendable {
  package let id: ChunkID
  /// Plain bytes; never 0.
  package let length: UInt32

  package init(id: ChunkID, length: UInt32) {
    self.id = id
    self.length = length
  }
}

/// A file's content as the chunks that make it, in order. The lengths add up to `size`.
package struct Manifest: Hashable, Sendable {
  package let size: UInt64
  package let chunks: [ChunkReference]

  package init(chunks: [ChunkReference]) {
    self.chunks = chunks
    self.size = chunks.reduce(0) { $0 + UInt64($1.length) }
  }

  package static let empty = Manifest(chunks: [])
}

/// One content that a file had: who saved it, when, and what it is.
package struct ContentVersion: Hashable, Sendable {
  package let id: VersionID
  /// The version that the saving device had before its.
  package let parent: VersionID?
  package let device: DeviceID
  /// The modification time that the content had on the saving device.
  package let modified: Timestamp
  package let size: UInt64
  /// Nil while the content is pending: its chunks are still on the saving device alone.
  package let manifest: Manifest?
  /// Of one that lost a conflict: somebody has looked at it, and it is only kept. Never of what is
  /// current.
  package var isResolved: Bool

  package init(
    id: VersionID, parent: VersionID?, device: DeviceID, modified: Timestamp, size: UInt64,
    manifest: Manifest?, isResolved: Bool = false
  ) {
    self.isResolved = isResolved
    self.id = id
    self.parent = parent
    self.device = device
    self.modified = modified
    self.size = size
    self.manifest = manifest
  }
}

/// Everything that devices agree on about an item; what a log segment carries.
///
/// Owner, group, access and change times stay local: they mean nothing on another machine.
package struct ItemRecord: Hashable, Sendable {
  package var id: ItemID
  package var kind: ItemKind
  /// Sorted, without duplicates. Empty only for the root.
  package var links: [Link]
  /// The permission bits, 0o7777.
  package var mode: UInt16
  package var modified: Timestamp
  package var created: Timestamp
  /// The user's own `user.*` attributes by full name.
  package var attributes: [String: [UInt8]]
  /// Of a symbolic link.
  package var target: [UInt8]
  package var isPackage: Bool
  /// Of a file.
  package var content: ContentVersion?
  /// Of a file: contents that lost a conflict and wait for someone to resolve it. Of a directory:
  /// archives of what it held as a package that lost one.
  package var conflicts: [ContentVersion]

  package init(
    id: ItemID, kind: ItemKind, links: [Link], mode: UInt16, modified: Timestamp,
    created: Timestamp, attributes: [String: [UInt8]] = [:], target: [UInt8] = [],
    isPackage: Bool = false, content: ContentVersion? = nil, conflicts: [ContentVersion] = []
  ) {
    self.id = id
    self.kind = kind
    self.links = links
    self.mode = mode
    self.modified = modified
    self.created = created
    self.attributes = attributes
    self.target = target
    self.isPackage = isPackage
    self.content = content
    self.conflicts = conflicts
  }
}

extension ItemRecord {
  /// Those that lost a conflict which somebody has still to look at.
  package var unresolved: [ContentVersion] { conflicts.filter { !$0.isResolved } }

  /// The record with another content, or with none. A record that names a version twice cannot be
  /// read, so the content is no conflict version then.
  package func with(content: ContentVersion?) -> ItemRecord {
    var result = self
    result.content = content
    if let content { result.conflicts.removeAll { $0.id == content.id } }
    return result
  }

  /// All that the record names: the current one, if there is one, then those that lost a conflict.
  package var contents: [ContentVersion] { [content].compactMap(\.self) + conflicts }
}

/// Where in the backend a chunk's sealed bytes are.
package struct ChunkLocation: Hashable, Sendable {
  package let chunk: ChunkReference
  package let pack: PackID
  package let offset: UInt64
  /// Bytes in the pack: sealed and perhaps compressed.
  package let storedLength: UInt32

  package init(chunk: ChunkReference, pack: PackID, offset: UInt64, storedLength: UInt32) {
    self.chunk = chunk
    self.pack = pack
    self.offset = offset
    self.storedLength = storedLength
  }
}

/// A place in a container's log: the last segment that was read, and its hash. `start` precedes
/// all.
package struct LogPosition: Hashable, Sendable {
  package let sequence: UInt64
  /// SHA-256 of the stored segment; empty at the start.
  package let hash: [UInt8]
  /// The entry of the account's member log that is in force here: the greatest that the segments up
  /// to this one name, void ones aside. The log determines it, so it takes no part in comparisons:
  /// what only tells positions apart leaves it 0.
  package let members: UInt64

  package init(sequence: UInt64, hash: [UInt8], members: UInt64 = 0) {
    self.sequence = sequence
    self.hash = hash
    self.members = members
  }

  package static let start = LogPosition(sequence: 0, hash: [])

  package static func == (left: LogPosition, right: LogPosition) -> Bool {
    left.sequence == right.sequence && left.hash == right.hash
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(sequence)
    hasher.combine(hash)
  }
}

/// What one segment of the log changes, all of it or nothing.
package struct LogChanges: Hashable, Sendable {
  package var upserts: [ItemRecord]
  package var removals: [ItemID]
  /// Chunks that this segment makes known; they are durable before it is.
  package var chunks: [ChunkLocation]
  /// Items removed earlier that nobody is to bring back any more.
  package var forgotten: [ItemID]
  /// Packs to which no later segment may refer: they are going to be removed.
  package var condemned: [PackID]
  /// Condemned packs that are removed from now on.
  package var deleted: [PackID]
  /// A snapshot that is whole in the backend.
  package var snapshot: SnapshotMark?

  package init(
    upserts: [ItemRecord] = [], removals: [ItemID] = [], chunks: [ChunkLocation] = [],
    forgotten: [ItemID] = [], condemned: [PackID] = [], deleted: [PackID] = [],
    snapshot: SnapshotMark? = nil
  ) {
    self.upserts = upserts
    self.removals = removals
    self.chunks = chunks
    self.forgotten = forgotten
    self.condemned = condemned
    self.deleted = deleted
    self.snapshot = snapshot
  }

  package var isEmpty: Bool {
    upserts.isEmpty && removals.isEmpty && chunks.isEmpty && forgotten.isEmpty
      && condemned.isEmpty && deleted.isEmpty && snapshot == nil
  }

  /// About how many bytes a reader has to take in for it. By this devices agree on how long the log
  /// is, whatever it was compressed to.
  package var weight: UInt64 {
    var result = UInt64(64 + (removals.count + forgotten.count) * 16 + chunks.count * 48)
    for record in upserts {
      let contents = [record.content].compactMap(\.self) + record.conflicts
      let chunks = contents.reduce(0) { $0 + ($1.manifest?.chunks.count ?? 0) }
      result += UInt64(120 + contents.count * 80 + chunks * 36)
      result += UInt64(record.attributes.reduce(0) { $0 + $1.value.count + 24 })
    }
    return result
  }
}

/// Who wrote a segment of the log, and when by that device's clock.
package struct LogOrigin: Hashable, Sendable {
  package let device: DeviceID
  package let time: Timestamp

  package init(device: DeviceID, time: Timestamp) {
    self.device = device
    self.time = time
  }
}

/// An item that was removed and can be brought back.
package struct RemovedItem: Hashable, Sendable {
  /// As it was when it was removed.
  package let record: ItemRecord
  package let removed: Timestamp
  /// That removed it.
  package let device: DeviceID

  package init(record: ItemRecord, removed: Timestamp, device: DeviceID) {
    self.record = record
    self.removed = removed
    self.device = device
  }
}

/// A `RemovedItem` without its record.
package struct RemovedKey: Hashable, Sendable {
  package let item: ItemID
  package let removed: Timestamp
  package let device: DeviceID

  package init(item: ItemID, removed: Timestamp, device: DeviceID) {
    self.item = item
    self.removed = removed
    self.device = device
  }
}
