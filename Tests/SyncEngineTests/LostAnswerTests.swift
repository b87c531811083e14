import Backend
import Catalog
import Model
import Platform
import RemoteStore
import SyncEngine
import TestWaiting
import Testing

/// The log took what this device sent, and the device never heard of it.
struct LostAnswerTests {
  /// What is new, of whatever kind, and what was changed: the log has it, and nobody here knew.
  @Test(arguments: [false, true])
  func whatGoesBeforeTheAnswerComesDoesNotComeBack(isStopped: Bool) async throws {
    let store = LosingStore()
    let secret = AccountSecret.generate()
    var first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: store, secret: secret)
    try first.makeDirectory("Documents/kept")
    try first.write("Documents/old", Array("old".utf8))
    try await settle(first, second)
    try first.write("Documents/file", [])
    try first.makeDirectory("Documents/directory")
    try first.write("Documents/kept/other", [])
    // One that all have, and that is changed now.
    try first.write("Documents/old", Array("changed".utf8))
    try await loseAnswer(of: first, store)
    if isStopped {
      await first.stop()
      first = try EngineDevice(store: store, secret: secret, after: first)
    }
    try first.remove("Documents/file")
    try first.remove("Documents/directory", directory: true)
    try first.remove("Documents/old")
    store.losesAnswers.withLock { $0 = false }
    try await settle(first, second)
    for device in [first, second] {
      #expect(try device.find("Documents/file") == nil)
      #expect(try device.find("Documents/directory") == nil)
      #expect(try device.find("Documents/old") == nil)
      #expect(try device.find("Documents/kept/other") != nil)
    }
    await first.end()
    await second.end()
  }

  @Test(
    "an edit that another device removed, having read it, does not come back",
    arguments: [false, true])
  func whatIsRemovedElsewhereBeforeTheAnswerComes(isStopped: Bool) async throws {
    let store = LosingStore()
    let secret = AccountSecret.generate()
    var first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: store, secret: secret)
    try first.write("Documents/file", Array("old".utf8))
    try first.write("Documents/other", Array("old".utf8))
    try await settle(first, second)
    try first.write("Documents/file", Array("changed".utf8))
    try first.write("Documents/other", Array("changed".utf8))
    try await loseAnswer(of: first, store)
    store.losesAnswers.withLock { $0 = false }
    if isStopped {
      await first.stop()
      first = try EngineDevice(store: store, secret: secret, after: first)
    }
    try await second.sync.sync(timeout: .seconds(240))
    #expect(try await second.read("Documents/file") == Array("changed".utf8))
    try second.remove("Documents/file")
    try second.remove("Documents/other")
    try await second.sync.sync(timeout: .seconds(240))
    // Of the same length, and news all the same.
    try first.write("Documents/other", Array("CHANGED".utf8))
    try await settle(first, second)
    for device in [first, second] {
      #expect(try device.find("Documents/file") == nil)
      #expect(try await device.read("Documents/other") == Array("CHANGED".utf8))
      let trash = try device.catalog.removedItems(since: .earliest)
      #expect(trash.contains { $0.record.links.first?.name.description == "file" })
    }
    await first.end()
    await second.end()
  }

  @Test(
    "the winner of a conflict does not come back after another device has removed it",
    arguments: [false, true])
  func removedWinner(isStopped: Bool) async throws {
    let (store, secret, before, second) = try await makeLostWinner(isStopped: isStopped)
    var first = before
    try await second.sync.sync(timeout: .seconds(240))
    #expect(try await second.read("Documents/file") == Array("mine".utf8))
    #expect(try await second.conflicts("Documents/file") == ["theirs"])
    try second.write("Documents/file", Array("something longer".utf8))
    try await second.sync.sync(timeout: .seconds(240))
    try second.remove("Documents/file")
    try await second.sync.sync(timeout: .seconds(240))

    if isStopped {
      first = try EngineDevice(store: store, secret: secret, after: first)
    } else {
      first.offline.set(offline: false)
    }
    try await settle(first, second)
    for device in [first, second] { #expect(try device.find("Documents/file") == nil) }
    await first.end()
    await second.end()
  }

  @Test("the winner of a conflict is no new version after its device was stopped before the answer")
  func stoppedWinner() async throws {
    let (store, secret, stopped, second) = try await makeLostWinner(isStopped: true)
    try await second.sync.sync(timeout: .seconds(240))
    let number = try #require(try second.find("Documents/file")).number
    let known = try second.sync.versions(of: number).map(\.id)

    let first = try EngineDevice(store: store, secret: secret, after: stopped)
    try await settle(first, second)
    #expect(try second.sync.versions(of: number).map(\.id) == known)
    await first.end()
    await second.end()
  }

  @Test(
    "a file that another device restores stays, though its removal was not answered",
    arguments: [false, true])
  func restoredElsewhere(isStopped: Bool) async throws {
    let store = LosingStore()
    let secret = AccountSecret.generate()
    var first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: store, secret: secret)
    try first.write("Documents/file", Array("old".utf8))
    try await settle(first, second)
    try first.remove("Documents/file")
    try await loseAnswer(of: first, store)
    if isStopped { await first.stop() } else { first.offline.set(offline: true) }
    store.losesAnswers.withLock { $0 = false }
    try await second.sync.sync(timeout: .seconds(240))
    #expect(try second.find("Documents/file") == nil)
    let removed = try second.catalog.removedItems(since: .earliest).map(\.record.id)
    try await second.sync.restore(removed)

    if isStopped {
      first = try EngineDevice(store: store, secret: secret, after: first)
    } else {
      first.offline.set(offline: false)
    }
    try await settle(first, second)
    for device in [first, second] {
      #expect(try await device.read("Documents/file") == Array("old".utf8))
    }
    await first.end()
    await second.end()
  }

  /// Has a device put a segment and not hear of it. No answer comes until `losesAnswers` is false.
  private func loseAnswer(of device: EngineDevice, _ store: LosingStore) async throws {
    store.losesAnswers.withLock { $0 = true }
    try await eventually("the segment is put") {
      await #expect(throws: SyncFailure.self) { try await device.sync.sync(timeout: .seconds(5)) }
      return store.hasLostAnswer
    }
  }

  /// The edit of the first device has won a conflict, and that device has not heard that the log
  /// has it. It is stopped, or else offline.
  private func makeLostWinner(
    isStopped: Bool
  ) async throws -> (LosingStore, AccountSecret, EngineDevice, EngineDevice) {
    let store = LosingStore()
    let secret = AccountSecret.generate()
    let first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: store, secret: secret)
    try first.write("Documents/file", Array("base".utf8))
    try await settle(first, second)
    _ = try await second.read("Documents/file")
    try second.write("Documents/file", Array("theirs".utf8))
    try await second.sync.sync(timeout: .seconds(240))
    try first.write("Documents/file", Array("mine".utf8))
    try await loseAnswer(of: first, store)
    if isStopped { await first.stop() } else { first.offline.set(offline: true) }
    store.losesAnswers.withLock { $0 = false }
    return (store, secret, first, second)
  }

  /// Content that the log has been told of and does not have yet, and names: what is done to them
  /// before this device hears that the log has them is a change of them, and no old thing to be
  /// brought back.
  @Test(arguments: [false, true])
  func whatIsRenamedBeforeTheAnswerComesStaysSo(isStopped: Bool) async throws {
    let store = LosingStore()
    let secret = AccountSecret.generate()
    var first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: store, secret: secret)
    try first.write("Documents/known", Array("known".utf8))
    try await settle(first, second)
    for name in ["moved", "removed", "moved and removed", "edited"] {
      try first.write("Documents/\(name)", Array(name.utf8))
    }
    try first.rename("Documents/known", "Documents/once")
    try await loseAnswer(of: first, store)
    if isStopped {
      await first.stop()
      first = try EngineDevice(store: store, secret: secret, after: first)
    }
    try first.rename("Documents/moved", "Documents/new")
    try first.rename("Documents/moved and removed", "Documents/gone")
    try first.rename("Documents/once", "Documents/twice")
    try first.remove("Documents/removed")
    try first.write("Documents/edited", Array("edited again".utf8))
    store.losesAnswers.withLock { $0 = false }
    // The device hears of the log, and before it plans anything:
    try first.remove("Documents/gone")
    try await settle(first, second)
    let expected = [
      "edited": "edited again", "new": "moved", "twice": "known",
    ]
    for device in [first, second] {
      for (name, content) in expected {
        #expect(try await device.read("Documents/\(name)") == Array(content.utf8), "\(name)")
      }
      for name in ["moved", "removed", "moved and removed", "gone", "known", "once", "edited 2"] {
        #expect(try device.find("Documents/\(name)") == nil, "\(name)")
      }
    }
    await first.end()
    await second.end()
  }
}

/// A backend that stores what goes into the log, and says that it is away.
private final class LosingStore: ObjectStore {
  private let store = MemoryStore()
  let losesAnswers = Lock(false)
  /// Whether an answer was lost: from then on nobody can look either.
  private let hasLost = Lock(false)

  var hasLostAnswer: Bool { hasLost.withLock { $0 } }

  var description: String { store.description }

  private var isAway: StoreError? {
    losesAnswers.withLock { $0 } ? .unavailable("it is away") : nil
  }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    if key.contains("/log/"), hasLost.withLock({ $0 }), let isAway { throw isAway }
    return try await store.get(key, range: range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    let result = try await store.putIfAbsent(key, bytes)
    if key.contains("/log/"), let isAway {
      hasLost.withLock { $0 = true }
      throw isAway
    }
    return result
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await store.replace(key, bytes)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    try await store.list(prefix: prefix, after: after, limit: limit)
  }

  func delete(_ key: String) async throws(StoreError) { try await store.delete(key) }

  func news(prefix: String) -> AsyncStream<Void> { store.news(prefix: prefix) }
}
