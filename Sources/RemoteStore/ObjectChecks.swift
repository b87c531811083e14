internal import Backend
package import Model
internal import Platform
internal import RecordFormat

/// The result of a check of one object of the store.
package enum ObjectCheck: Equatable, Sendable {
  case good
  case missing
  case damaged(String)
}

/// The result of a check of a pack.
package struct PackCheck: Equatable, Sendable {
  package var isMissing = false
  /// The chunks that cannot be read, of those that were asked for.
  package var lost: [ChunkLocation] = []
  /// Why; also for damage that no chunk is part of. Nil: all is well.
  package var reason: String?

  package var isGood: Bool { reason == nil }
}

/// The names and sizes of a container's packs, page by page in the order of their identities.
package struct PackListing {
  private let container: RemoteContainer
  private let prefix: String
  private var page: ArraySlice<(pack: PackID, size: UInt64?)> = []
  private var last: String?
  private var isThrough = false

  fileprivate init(_ container: RemoteContainer) {
    self.container = container
    prefix = ObjectName.packs(container.incarnation)
  }

  /// Whether the list has a pack, with at least `end` bytes where it tells sizes. To be asked in
  /// the order of identities.
  package mutating func looksWhole(_ pack: PackID, upTo end: UInt64) async throws(RemoteError)
    -> Bool
  {
    while true {
      while let next = page.first, next.pack < pack { page.removeFirst() }
      if let next = page.first {
        guard next.pack == pack else { return false }
        return next.size.map { $0 >= end } ?? true
      }
      guard !isThrough else { return false }
      try await readPage()
    }
  }

  private mutating func readPage() async throws(RemoteError) {
    let limit = 1000
    let (store, prefix, after) = (container.store, prefix, last)
    let found = try await storing { () async throws(StoreError) in
      try await store.listObjects(prefix: prefix, after: after, limit: limit)
    }
    isThrough = found.count < limit
    last = found.last?.key ?? last
    page =
      found.compactMap { object in
        guard case .pack(_, let pack)? = ObjectKey(object.key) else { return nil }
        return (pack, object.size)
      }[...]
  }
}

/// Checks of objects one by one, for `store verify`. They throw only if the store fails.
extension RemoteContainer {
  package func listPacks() -> PackListing { PackListing(self) }

  /// The object of a pack, for people.
  package func objectName(of pack: PackID) -> String { ObjectName.pack(incarnation, pack) }

  /// The object that gives the container its name.
  package var nameObject: String { ObjectName.name(keys.objectName(of: id)) }

  package func objectName(ofSegment sequence: UInt64) -> String {
    ObjectName.segment(incarnation, sequence)
  }

  package func objectName(ofSnapshot sequence: UInt64) -> String {
    ObjectName.snapshotIndex(incarnation, sequence)
  }

  /// The numbers of the segments after one that the store lists; fewer than `limit`: there are no
  /// more.
  package func segmentNumbers(after sequence: UInt64, limit: Int) async throws(RemoteError)
    -> [UInt64]
  {
    try await segmentKeys(after: sequence, limit: limit).compactMap { name in
      if case .segment(_, let sequence)? = ObjectKey(name) { sequence } else { nil }
    }
  }

  /// Whether the store has an object of a pack, whatever a list says.
  package func hasPack(_ pack: PackID) async throws(RemoteError) -> Bool {
    try await isThere(ObjectName.pack(incarnation, pack))
  }

  private func isThere(_ name: String) async throws(RemoteError) -> Bool {
    do throws(StoreError) {
      _ = try await store.get(name, range: 0..<1)
      return true
    } catch .notFound {
      return false
    } catch {
      throw RemoteError(error)
    }
  }

  /// Reads a segment whole and opens it. `hash`: the one that it must have; `previous`: that of the
  /// segment before. Gives its own hash with what was found.
  package func checkSegment(_ sequence: UInt64, hash: [UInt8]? = nil, previous: [UInt8]?)
    async throws(RemoteError) -> (check: ObjectCheck, hash: [UInt8]?)
  {
    let name = ObjectName.segment(incarnation, sequence)
    do throws(RemoteError) {
      guard let stored = try await segmentBytes(name) else { return (.missing, nil) }
      let opened = try await openSegment(stored, name: name, sequence: sequence)
      let found = Self.hash(stored)
      if let hash, hash != found {
        return (.damaged("it differs from the segment that this device read there"), found)
      }
      // A segment that counts for nothing follows what it likes.
      if let previous, keys.isValid(opened.signature),
        try Self.body(of: opened, name: name).previous != previous
      {
        return (.damaged("it does not follow the segment before it"), found)
      }
      return (.good, found)
    } catch .damaged(_, let reason) {
      return (.damaged(reason), nil)
    } catch .newerFormat(_, let version) {
      return (.damaged("it has format \(version), which a newer release of ubiquityfs wrote"), nil)
    }
  }

  /// Reads a snapshot's index, and of its parts the names or every byte. Gives what was found for
  /// each object.
  package func checkSnapshot(_ sequence: UInt64, readsData: Bool) async throws(RemoteError)
    -> [(object: String, check: ObjectCheck)]
  {
    let name = ObjectName.snapshotIndex(incarnation, sequence)
    let index: SnapshotIndex
    do throws(RemoteError) {
      index = try await snapshot(sequence)
    } catch .damaged(_, let reason) {
      return [(name, .damaged(reason))]
    } catch .newerFormat(_, let version) {
      return [
        (name, .damaged("it has format \(version), which a newer release of ubiquityfs wrote"))
      ]
    }
    var result: [(object: String, check: ObjectCheck)] = [(name, .good)]
    let store = store
    let prefix = ObjectName.snapshot(incarnation, sequence)
    var sizes: [String: UInt64?] = [:]
    if !readsData {
      var last: String?
      while true {
        let after = last
        let page = try await storing { () async throws(StoreError) in
          try await store.listObjects(prefix: prefix, after: after, limit: 1000)
        }
        for object in page { sizes[object.key] = .some(object.size) }
        guard page.count == 1000 else { break }
        last = page.last?.key
      }
    }
    for (number, part) in index.parts.enumerated() {
      guard !Task.isCancelled else { throw .cancelled }
      let name = ObjectName.snapshotPart(incarnation, sequence, writer: index.writer, number)
      guard !readsData else {
        do throws(RemoteError) {
          _ = try await self.part(number, of: index)
          result.append((name, .good))
        } catch .damaged(_, let reason) {
          result.append((name, .damaged(reason)))
        }
        continue
      }
      switch sizes[name] {
      // A list alone proves nothing.
      case nil: result.append((name, try await isThere(name) ? .good : .missing))
      case .some(.some(let size)) where size != part.length:
        result.append((name, .damaged("it has \(size) bytes instead of \(part.length)")))
      default: result.append((name, .good))
      }
    }
    return result
  }

  /// Bytes of a pack beyond the chunks that are looked for: other chunks, and the index.
  private static var packMargin: UInt64 { 16 << 20 }

  /// Reads a pack whole: its header, each of `chunks`, which are all in it, and its index.
  package func checkPack(_ pack: PackID, _ chunks: [ChunkLocation]) async throws(RemoteError)
    -> PackCheck
  {
    let name = ObjectName.pack(incarnation, pack)
    let end = chunks.map { $0.offset + UInt64($0.storedLength) }.max() ?? 0
    let limit = min(RecordLimits.packLength, end + Self.packMargin)
    let stored: [UInt8]
    do throws(StoreError) {
      stored = try await store.get(name, range: 0..<limit + 1)
    } catch .notFound {
      return PackCheck(isMissing: true, lost: chunks, reason: "it is missing")
    } catch {
      throw RemoteError(error)
    }
    let keys = keys
    return await BlockingWork.run {
      var result = PackCheck()
      for location in chunks {
        let end = location.offset + UInt64(location.storedLength)
        do throws(SealError) {
          guard end <= UInt64(stored.count) else { throw SealError(reason: "it is cut short") }
          _ = try keys.opened(stored[Int(location.offset)..<Int(end)], location.chunk)
        } catch {
          result.lost.append(location)
          result.reason = "the chunk at byte \(location.offset): \(error.reason)"
        }
      }
      if result.reason == nil { result.reason = keys.frameDamage(of: pack, stored, name) }
      return result
    }
  }
}

extension RemoteContainer {
  /// The chunks of a pack, by its own index. Reads all of it.
  package func contents(of pack: PackID) async throws(RemoteError) -> [ChunkLocation] {
    let name = ObjectName.pack(incarnation, pack)
    let store = store
    let stored = try await storing { () async throws(StoreError) in
      try await store.get(name, range: 0..<RecordLimits.packLength + 1)
    }
    let keys = keys
    let result = await BlockingWork.run {
      Result<[ChunkLocation], any Error> { try keys.contents(of: pack, stored, name) }
    }
    do {
      return try result.get()
    } catch let error as RemoteError {
      throw error
    } catch {
      throw Self.damage(name, error)
    }
  }
}

extension AccountState {
  /// The chunks of a pack, by its index.
  fileprivate func contents(
    of pack: PackID, _ stored: [UInt8], _ name: String
  ) throws -> [ChunkLocation] {
    _ = try ObjectHeader.pack.body(of: stored, object: name)
    let tail = stored.suffix(4)
    let length = tail.reduce(0) { $0 << 8 | Int($1) }
    let end = stored.count - 4
    guard tail.count == 4, length <= end - ObjectHeader.length else {
      throw SealError(reason: "its index is cut short")
    }
    var associated = AssociatedData("pack")
    associated.append(pack.bytes)
    let plain = try trying { keys throws(SealError) in
      try keys.record.open(
        stored[(end - length)..<end], associated, limit: Int(RecordLimits.packLength))
    }
    let locations = try PackContents.decode(plain)
    guard locations.allSatisfy({ $0.pack == pack }) else {
      throw SealError(reason: "its index belongs to another pack")
    }
    return locations
  }

  /// The defect of a pack's header or index; nil: there is none.
  fileprivate func frameDamage(of pack: PackID, _ stored: [UInt8], _ name: String) -> String? {
    do {
      _ = try contents(of: pack, stored, name)
      return nil
    } catch RemoteError.damaged(_, let reason) {
      return reason
    } catch let error as SealError {
      return "its index: \(error.reason)"
    } catch {
      return "its index: \(error)"
    }
  }
}
