internal import Backend
internal import Model
internal import Platform

/// A key of an account's store, taken apart. Only keys that the functions of `ObjectName` can make
/// have one: any other key is foreign, such as the conflict copy of a file synchroniser, and
/// readers pass over it.
enum ObjectKey: Equatable {
  case format
  case name([UInt8])
  case device(DeviceID)
  case quota
  case member(UInt64)
  case pairing(PairingID)
  case deletion(IncarnationID)
  case segment(IncarnationID, UInt64)
  case pack(IncarnationID, PackID)
  case snapshotIndex(IncarnationID, UInt64)
  case snapshotPart(IncarnationID, UInt64, PackID, Int)
  case cursor(IncarnationID, DeviceID)

  init?(_ key: String) {
    let parts = key.split(separator: "/", omittingEmptySubsequences: false)
    switch (parts.count, parts[0]) {
    case (1, "format"): self = .format
    case (2, "names"):
      guard let code = Self.code(parts[1]) else { return nil }
      self = .name(code)
    case (2, "devices"):
      guard let id: DeviceID = Self.identity(parts[1]) else { return nil }
      self = .device(id)
    case (2, "account"):
      guard key == ObjectName.quota else { return nil }
      self = .quota
    case (3, "account"):
      guard parts[1] == "members", let number = ObjectName.sequence(parts[2]), number > 0 else {
        return nil
      }
      self = .member(number)
    case (3, "pairing"):
      guard let id: PairingID = Self.identity(parts[1]), PairingStep.isName(parts[2]) else {
        return nil
      }
      self = .pairing(id)
    case (2, "deleted"):
      guard let id: IncarnationID = Self.identity(parts[1]) else { return nil }
      self = .deletion(id)
    case (4..., "containers"):
      guard let id: IncarnationID = Self.identity(parts[1]) else { return nil }
      self.init(id, parts[2...])
    default: return nil
    }
  }

  /// `parts`: what stands below the container's own directory.
  private init?(_ container: IncarnationID, _ parts: ArraySlice<Substring>) {
    let name = parts[parts.startIndex + 1]
    switch (parts.count, parts[parts.startIndex]) {
    case (2, "log"):
      guard let sequence = ObjectName.sequence(name), sequence > 0 else { return nil }
      self = .segment(container, sequence)
    case (2, "packs"):
      guard let pack: PackID = Self.identity(name) else { return nil }
      self = .pack(container, pack)
    case (2, "devices"):
      guard let device: DeviceID = Self.identity(name) else { return nil }
      self = .cursor(container, device)
    case (3, "snapshots"):
      guard let sequence = ObjectName.sequence(name) else { return nil }
      let last = parts[parts.startIndex + 2]
      if last == ObjectName.index {
        self = .snapshotIndex(container, sequence)
        return
      }
      let halves = last.split(separator: "-", omittingEmptySubsequences: false)
      guard halves.count == 2, let writer: PackID = Self.identity(halves[0]),
        let number = Int(halves[1]), number >= 0, "\(number)" == halves[1]
      else { return nil }
      self = .snapshotPart(container, sequence, writer, number)
    default: return nil
    }
  }

  static func identity<Kind>(_ text: Substring) -> Identifier<Kind>? {
    isLowerHex(text) ? Identifier(hex: text) : nil
  }

  private static func code(_ text: Substring) -> [UInt8]? {
    isLowerHex(text) && text.utf8.count == 64 ? Hex.decode(text.utf8) : nil
  }

  /// Digits in upper case decode as well, and no naming function writes them.
  private static func isLowerHex(_ text: Substring) -> Bool {
    text.utf8.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
  }

  static func isOwn(_ key: String) -> Bool {
    ObjectKey(key) != nil || PlantedMistake.readsForeignNames.isPlanted
  }
}

extension RemoteContainer {
  /// Up to `limit` segments of the log after a sequence number, in order. Fewer than `limit` means
  /// that there are no more. Foreign names among them cost further requests, but end the list only
  /// after so many that no log could be read there.
  func segmentKeys(after sequence: UInt64, limit: Int) async throws(RemoteError) -> [String] {
    let store = store
    let prefix = ObjectName.log(incarnation)
    // All segments stand before it, and most foreign names behind it.
    let end = prefix + String(repeating: "9", count: 20)
    var after = sequence == 0 ? nil : ObjectName.segment(incarnation, sequence)
    var result: [String] = []
    for page in 0... {
      let (start, wanted) = (after, page == 0 ? limit : max(limit, 1000))
      let found = try await storing { () async throws(StoreError) in
        try await store.list(prefix: prefix, after: start, limit: wanted)
      }
      result += found.filter(ObjectKey.isOwn)
      guard result.count < limit, found.count == wanted, let last = found.last,
        keyPrecedes(last, end)
      else { break }
      guard page < RemoteLimits.foreignPages else {
        throw .damaged(
          object: prefix, reason: "it holds too many files that ubiquityfs did not write")
      }
      after = last
    }
    return Array(result.prefix(limit))
  }
}

extension ObjectStore {
  /// The keys under a prefix that `ObjectName` can have made, in their order.
  func ownKeys(
    _ prefix: String, limit: Int = RemoteLimits.names
  ) async throws(RemoteError) -> [(name: String, key: ObjectKey)] {
    try await allKeys(prefix, limit: limit).compactMap { name in
      ObjectKey(name).map { (name, $0) }
    }
  }
}
