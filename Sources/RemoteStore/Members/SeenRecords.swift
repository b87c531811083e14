internal import Platform

/// Which of two versions of a replaceable object is the newer one: that of the device that knew
/// more of the member log, then the one with the greater counter. So a device that was removed
/// cannot use up the counter for those that stay.
struct RecordVersion: Comparable, Sendable {
  var members: UInt64 = 0
  var counter: UInt64 = 0

  static func < (left: RecordVersion, right: RecordVersion) -> Bool {
    (left.members, left.counter) < (right.members, right.counter)
  }
}

/// The newest version of each replaceable object that this device saw or wrote, by key.
///
/// **Invariant: the version of an object never falls.** A backend that shows an older version shows
/// nothing: the device goes on with the one that it saw.
final class SeenRecords: Sendable {
  struct Seen: Sendable {
    let version: RecordVersion
    let stored: [UInt8]
  }

  private struct State {
    var records: [String: Seen] = [:]
    var isLoaded = false
  }

  private let account: [UInt8]
  private let memory: any AccountMemory
  /// Held while the memory is saved, so that an older state never replaces a newer one. A leaf.
  private let state = Lock(State())

  /// Of one object; a device's own records are few and short.
  private static let longest = RemoteLimits.smallObject

  init(account: [UInt8], memory: any AccountMemory) {
    self.account = account
    self.memory = memory
  }

  subscript(_ object: String) -> Seen? {
    state.withLock { state in
      load(&state)
      return state.records[object]
    }
  }

  /// False: this device saw a newer one.
  func note(_ object: String, _ version: RecordVersion, _ stored: [UInt8]) -> Bool {
    guard stored.count <= Self.longest else { return false }
    return state.withLock { state in
      load(&state)
      if let known = state.records[object] {
        guard version >= known.version else { return false }
        guard version > known.version || stored != known.stored else { return true }
      }
      state.records[object] = Seen(version: version, stored: stored)
      let list = state.records.sorted { $0.key < $1.key }.flatMap { object, seen in
        [
          Array(object.utf8),
          seen.version.members.bigEndianBytes + seen.version.counter.bigEndianBytes, seen.stored,
        ]
      }
      memory.save(.records, ByteList.encode([account] + list))
      return true
    }
  }

  private func load(_ state: inout State) {
    guard !state.isLoaded else { return }
    state.isLoaded = true
    guard let bytes = memory.load(.records), let list = ByteList.decode(bytes),
      list.first == account, list.count % 3 == 1
    else { return }
    for start in stride(from: 1, to: list.count, by: 3) where list[start + 1].count == 16 {
      let version = RecordVersion(
        members: UInt64(bigEndianBytes: list[start + 1].prefix(8)),
        counter: UInt64(bigEndianBytes: list[start + 1].suffix(8)))
      state.records[String(decoding: list[start], as: UTF8.self)] = Seen(
        version: version, stored: list[start + 2])
    }
  }
}
