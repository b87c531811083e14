internal import Crypto
package import Model

/// All that a package holds on one side: what is kept of it when it loses a conflict.
package struct PackageTree: Hashable, Sendable {
  package struct Entry: Hashable, Sendable {
    /// From the package's own directory.
    package var path: [ItemName]
    package var kind: ItemKind
    package var mode: UInt16
    package var modified: Timestamp
    package var attributes: [String: [UInt8]]
    package var target: [UInt8]
    /// Of a file.
    package var content: Manifest?

    package init(
      path: [ItemName], kind: ItemKind, mode: UInt16, modified: Timestamp,
      attributes: [String: [UInt8]] = [:], target: [UInt8] = [], content: Manifest? = nil
    ) {
      self.path = path
      self.kind = kind
      self.mode = mode
      self.modified = modified
      self.attributes = attributes
      self.target = target
      self.content = content
    }
  }

  /// By path, so directories before what is in them.
  package let entries: [Entry]
  /// That of the file that was modified last: who made the package what it is.
  package let device: Model.DeviceID
  package let modified: Timestamp
  /// What it holds, as a number: the same on every device and after a crash. So it is seen without
  /// any memory of what was done that the log has a package already.
  package let id: VersionID

  package init(_ entries: [Entry], device: Model.DeviceID, modified: Timestamp) {
    self.entries = entries.sorted { Self.precedes($0.path, $1.path) }
    self.device = device
    self.modified = modified
    self.id = Self.fingerprint(self.entries)
  }

  package var size: UInt64 { entries.reduce(0) { $0 + ($1.content?.size ?? 0) } }

  static func precedes(_ left: [ItemName], _ right: [ItemName]) -> Bool {
    left.lexicographicallyPrecedes(right)
  }

  /// Times of directories do not count: programs that only look leave traces there.
  private static func fingerprint(_ entries: [Entry]) -> VersionID {
    var hash = SHA256()
    func add(_ number: UInt64) {
      withUnsafeBytes(of: number.bigEndian) { hash.update(bufferPointer: $0) }
    }
    func add(_ bytes: [UInt8]) {
      add(UInt64(bytes.count))
      hash.update(data: bytes)
    }
    add(Array("ubiquityfs package".utf8))
    for entry in entries {
      add(UInt64(entry.path.count))
      for name in entry.path { add(name.bytes) }
      add(UInt64(entry.kind.rawValue))
      add(UInt64(entry.mode))
      add(entry.kind == .directory ? 0 : UInt64(bitPattern: entry.modified.nanoseconds))
      add(UInt64(entry.attributes.count))
      for (name, value) in entry.attributes.sorted(by: {
        Array($0.key.utf8).lexicographicallyPrecedes(Array($1.key.utf8))
      }) {
        add(Array(name.utf8))
        add(value)
      }
      add(entry.target)
      add(entry.content.map { UInt64($0.chunks.count) } ?? UInt64.max)
      for chunk in entry.content?.chunks ?? [] {
        add(chunk.id.bytes)
        add(UInt64(chunk.length))
      }
    }
    let digest = Array(hash.finalize())
    return VersionID(bytes: digest.prefix(16)) ?? VersionID(high: 0, low: 0)
  }
}

/// Gathers what a package holds.
package struct PackageTreeBuilder {
  private var entries: [PackageTree.Entry] = []
  /// Under a name that something else may have.
  private var extras: [PackageTree.Entry] = []
  private var newest: (modified: Timestamp, device: Model.DeviceID)?

  package init() {}

  /// Contents that a device announced and never sent are left out: it has them, and sends them.
  package mutating func add(_ record: ItemRecord, content: ContentVersion?, at path: [ItemName]) {
    var entry = PackageTree.Entry(
      path: path, kind: record.kind, mode: record.mode, modified: record.modified,
      attributes: record.attributes, target: record.target)
    guard record.kind == .file else {
      entries.append(entry)
      return
    }
    // Versions that the file has of its own, from before it was in a package, are files beside it.
    let versions = [content].compactMap(\.self) + record.conflicts
    for (index, version) in versions.enumerated() {
      guard let manifest = version.manifest else { continue }
      entry.content = manifest
      if index > 0 {
        entry.modified = version.modified
        extras.append(entry)
        continue
      }
      if newest.map({ (version.modified, version.device) > $0 }) ?? true {
        newest = (version.modified, version.device)
      }
      entries.append(entry)
    }
  }

  private mutating func placeExtras() {
    var paths = Set(entries.map(\.path))
    // In an order of their own: every device has to come to the same identity.
    extras.sort { left, right in
      if left.path != right.path { return PackageTree.precedes(left.path, right.path) }
      if left.modified != right.modified { return left.modified < right.modified }
      return (left.content?.chunks ?? []).map(\.id)
        .lexicographicallyPrecedes((right.content?.chunks ?? []).map(\.id))
    }
    for var entry in extras {
      guard let name = entry.path.last else { continue }
      var number = 2
      repeat {
        entry.path = entry.path.dropLast() + [name.numbered(number)]
        number += 1
      } while !paths.insert(entry.path).inserted
      entries.append(entry)
    }
    extras = []
  }

  /// It was modified when the youngest thing in it was, a directory's list of names included.
  package mutating func finish(device: Model.DeviceID) -> PackageTree {
    placeExtras()
    let times = entries.map(\.modified)
    return PackageTree(
      entries, device: newest?.device ?? device,
      modified: times.max() ?? Timestamp(nanoseconds: 0))
  }
}
