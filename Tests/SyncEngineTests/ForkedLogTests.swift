import Backend
import Model
import Platform
import SyncEngine
import SystemPackage
import Testing

/// A store that shows each device its own end of the log.
@Suite(.serialized) struct ForkedLogTests {
  @Test(
    "two devices with different segments of one number learn it, also beside a damaged cursor",
    arguments: [false, true])
  func aForkIsSeen(besideDamage: Bool) async throws {
    try await withRestorableStore { house in
      let fork = ForkedStore(house.store)
      let first = try house.device()
      let second = try house.device(through: fork)
      try first.write("Documents/both", [1])
      try await settle(first, second)
      fork.split.withLock { $0 = (try? second.catalog.position().sequence) ?? 0 }
      try first.write("Documents/first", [2])
      try second.write("Documents/second", [3])
      try await first.sync.sync()
      try await second.sync.sync()
      #expect(try first.catalog.position().sequence == second.catalog.position().sequence)
      #expect(first.sync.condition.isNormal && second.sync.condition.isNormal)

      try await first.sync.compareHeads()
      if besideDamage {
        let cursors = try await house.store.list(prefix: "containers/", after: nil, limit: .max)
          .filter { $0.contains("/devices/") }
        let place = try #require(cursors.first?.dropLast(32))
        for digit in ["0", "f"] {
          let key = String(place) + String(repeating: digit, count: 32)
          try await house.store.replace(key, Array("damaged".utf8))
        }
      }
      await #expect(throws: SyncFailure.self) { try await second.sync.compareHeads() }
      await #expect(throws: SyncFailure.self) { try await first.sync.compareHeads() }
      for (device, path) in [(first, "Documents/first"), (second, "Documents/second")] {
        #expect(!device.sync.condition.isNormal)
        #expect(await device.sync.status().errors.contains { $0.contains("store recover") })
        await #expect(throws: Errno.resourceBusy) { try await device.evict(path) }
        #expect(try device.find(path)?.content == .local)
      }
      let log = try await house.log()
      try first.write("Documents/later", [4])
      await #expect(throws: SyncFailure.self) { try await first.sync.sync() }
      #expect(try await house.log() == log)
    }
  }
}

/// Keeps what is written to the log behind a segment to itself, and shows nothing else there.
private final class ForkedStore: ObjectStore {
  private let shared: any ObjectStore
  private let own = MemoryStore()
  let split = Lock(UInt64.max)

  init(_ shared: any ObjectStore) { self.shared = shared }

  var description: String { shared.description }

  private func isOwn(_ key: String) -> Bool {
    guard key.contains("/log/"), let number = UInt64(key.split(separator: "/").last ?? "") else {
      return false
    }
    return number > split.withLock(\.self)
  }

  private func place(of key: String) -> any ObjectStore { isOwn(key) ? own : shared }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await place(of: key).get(key, range: range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try await place(of: key).putIfAbsent(key, bytes)
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await place(of: key).replace(key, bytes)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    let others = try await shared.list(prefix: prefix, after: after, limit: limit)
    let own = try await own.list(prefix: prefix, after: after, limit: limit)
    return Array((others.filter { !isOwn($0) } + own).sorted().prefix(limit))
  }

  func delete(_ key: String) async throws(StoreError) { try await place(of: key).delete(key) }

  func news(prefix: String) -> AsyncStream<Void> { shared.news(prefix: prefix) }
}
