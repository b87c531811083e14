import Backend
import Catalog
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import TestWaiting
import Testing

/// `store recover`: what devices still have makes a container whole again.
@Suite(.serialized) struct RecoveryTests {
  @Test("an evicted content of which the recovered log has the name only is not lost")
  func evictedContentBesideItsName() async throws {
    try await withRestorableStore { house in
      let store = CallRefusingStore(house.store)
      let first = try house.device(through: store)
      let second = try house.device()
      try first.write("Documents/old", [1])
      try await settle(first, second)
      // The name is in the log before the content.
      store.refuse { call in
        call.kind == .put && call.key.contains("/packs/") ? .unavailable("no pack is taken") : nil
      }
      try first.write("Documents/f", [1, 2, 3])
      try await eventually("the log has the name") {
        try? await first.sync.sync(timeout: .seconds(5))
        try await second.sync.sync(timeout: .seconds(240))
        return try second.catalog.pendingContents().count == 1
      }
      let copy = try await house.copy()
      try second.write("Documents/g", [4])
      try await second.sync.sync(timeout: .seconds(240))

      try await house.restore(copy)
      store.refuse()
      // An upload that began before may still fail.
      try await eventually("the content is uploaded") {
        (try? await first.sync.sync(timeout: .seconds(240))) != nil
      }
      try await first.evict("Documents/f")
      await #expect(throws: SyncFailure.self) {
        try await second.sync.sync(timeout: .seconds(240))
      }
      _ = try await second.sync.recoverStore()
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await device.read("Documents/f") == [1, 2, 3])
        #expect(try await device.read("Documents/g") == [4])
        #expect(try device.catalog.pendingContents().isEmpty)
      }
    }
  }

  @Test("a lone device makes its container whole again, and a new device reads it")
  func aLoneDeviceRecovers() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      try device.write("Documents/old", [1])
      try device.write("Documents/edited", [2])
      try await device.sync.sync()
      let earlier = try await house.copy()
      try device.write("Documents/new", [3, 3])
      try device.write("Documents/edited", [4, 4])
      try device.rename("Documents/old", "Documents/renamed")
      try device.makeDirectory("Documents/d")
      try device.write("Documents/d/deep", [5])
      try await device.sync.sync()
      try await house.restore(earlier)
      try device.write("Documents/unsent", [6])
      await #expect(throws: SyncFailure.self) { try await device.sync.sync() }

      let outcome = try await device.sync.recoverStore()
      #expect(outcome.missing == [])
      #expect(device.sync.condition.isNormal)
      try await settle(device)
      let second = try house.device()
      try await settle(device, second)
      for (path, bytes) in [
        ("new", [3, 3]), ("edited", [4, 4]), ("renamed", [1]), ("d/deep", [5]), ("unsent", [6]),
      ] as [(String, [UInt8])] {
        #expect(try await second.read("Documents/\(path)") == bytes, "\(path)")
      }
      #expect(try second.find("Documents/old") == nil)
      #expect(await second.sync.status().conflicts == 0)
      try await device.evict("Documents/new")
      #expect(try await device.read("Documents/new") == [3, 3])
    }
  }

  @Test("what two devices have locally is whole after either one recovers", arguments: [0, 1])
  func twoDevicesRecover(_ which: Int) async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try first.write("Documents/common", [1])
      try await settle(first, second)
      _ = try await second.read("Documents/common")
      let earlier = try await house.copy()
      try first.write("Documents/mine", [2])
      try first.write("Documents/common", [7, 7])
      try await first.sync.sync()
      try await settle(first, second)
      try second.write("Documents/yours", [3])
      try await settle(first, second)
      _ = try await second.read("Documents/mine")
      _ = try await first.read("Documents/yours")
      try await first.evict("Documents/mine")
      try await house.restore(earlier)
      for device in [first, second] {
        await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      }
      _ = try await [first, second][which].sync.recoverStore()
      try await settle(first, second)
      let third = try house.device()
      try await settle(first, second, third)
      #expect(try await third.read("Documents/mine") == [2])
      #expect(try await third.read("Documents/common") == [7, 7])
      #expect(try await third.read("Documents/yours") == [3])
      #expect(try await first.read("Documents/mine") == [2])
      #expect(await third.sync.status().conflicts == 0)
    }
  }

  @Test("a device that went on after the rollback keeps what it did")
  func aForkIsKept() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try first.write("Documents/a", [1])
      try await settle(first, second)
      second.offline.set(offline: true)
      let earlier = try await house.copy()
      try first.write("Documents/b", [2])
      try first.write("Documents/a", [1, 1])
      try await first.sync.sync()
      try await house.restore(earlier)
      second.offline.set(offline: false)
      try second.write("Documents/c", [3])
      try second.makeDirectory("Documents/d")
      try await second.sync.sync()
      try await second.evict("Documents/c")
      await #expect(throws: SyncFailure.self) { try await first.sync.sync() }
      _ = try await first.sync.recoverStore()
      try await settle(first, second)
      let third = try house.device()
      try await settle(first, second, third)
      #expect(try await third.read("Documents/a") == [1, 1])
      #expect(try await third.read("Documents/b") == [2])
      #expect(try await third.read("Documents/c") == [3])
      #expect(try third.find("Documents/d") != nil)
    }
  }

  /// A store whose log lacks the newest content of `Documents/a` after a recovery. The writer has
  /// it locally and is offline. The reader has it as a placeholder. The store has its packs.
  /// `change`: of the device that recovers the store.
  private func withUnlistedContent(
    _ change: (EngineDevice) throws -> Void,
    _ body: (
      _ writer: EngineDevice, _ other: EngineDevice, _ reader: EngineDevice, OneRefusedSegment
    ) async throws -> Void
  ) async throws {
    try await withRestorableStore { house in
      let (writer, other) = (try house.device(), try house.device())
      let store = OneRefusedSegment(house.store)
      let reader = try house.device(through: store)
      try writer.write("Documents/a", [1])
      try await settle(writer, other, reader)
      other.offline.set(offline: true)
      var earlier = try await house.copy()
      try writer.write("Documents/a", [2, 2])
      try await writer.sync.sync()
      try await reader.sync.sync()
      #expect(try reader.find("Documents/a")?.content == .remote)
      writer.offline.set(offline: true)
      // The log is set back, the packs are not.
      for (key, bytes) in try await house.copy() where StoreKey.isPack(key) { earlier[key] = bytes }
      try await house.restore(earlier)
      other.offline.set(offline: false)
      try change(other)
      try await other.sync.sync()
      try await house.restore(earlier)
      for device in [other, reader] {
        await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      }
      _ = try await other.sync.recoverStore()
      try await other.sync.sync()
      try await body(writer, other, reader, store)
    }
  }

  @Test("a device supplies the content of a placeholder after its first segment was refused")
  func aPlaceholderIsSupplied() async throws {
    let rename = { (device: EngineDevice) in try device.rename("Documents/a", "Documents/b") }
    try await withUnlistedContent(rename) { _, other, reader, store in
      // The reader applies the rename, and its segment with the content is refused.
      store.refuses.withLock { $0 = true }
      try? await reader.sync.sync(timeout: .seconds(240))
      #expect(!store.refuses.withLock { $0 })
      try await settle(reader, other)
      for device in [reader, other] {
        #expect(try await device.read("Documents/b") == [2, 2])
      }
    }
  }

  @Test("a sync ends though the store lost the content that a placeholder was to supply")
  func aLostPlaceholderIsGivenUp() async throws {
    let rename = { (device: EngineDevice) in try device.rename("Documents/a", "Documents/b") }
    try await withUnlistedContent(rename) { writer, other, reader, store in
      store.refuses.withLock { $0 = true }
      try? await reader.sync.sync(timeout: .seconds(240))
      #expect(!store.refuses.withLock { $0 })
      let keys = try await store.store.list(prefix: "containers/", after: nil, limit: .max)
      for key in keys where StoreKey.isPack(key) { try await store.store.delete(key) }
      try await reader.sync.sync(timeout: .seconds(240))

      // The device that has the content locally supplies it.
      writer.offline.set(offline: false)
      try await settle(writer, reader, other)
      for device in [writer, reader, other] {
        #expect(try await device.read("Documents/b") == [2, 2])
      }
    }
  }

  @Test("a placeholder that another device supplied is no edit beside later contents")
  func aSuppliedPlaceholderIsNoEdit() async throws {
    let write = { (device: EngineDevice) in try device.write("Documents/other", [1]) }
    try await withUnlistedContent(write) { writer, other, reader, _ in
      writer.offline.set(offline: false)
      try await writer.sync.sync()
      try await reader.sync.sync()
      // The reader sees the second of two contents alone.
      reader.offline.set(offline: true)
      for content in [[3], [4, 4]] as [[UInt8]] {
        try writer.write("Documents/a", content)
        try await writer.sync.sync()
      }
      reader.offline.set(offline: false)
      try await settle(reader, writer, other)
      for device in [writer, other, reader] {
        #expect(try await device.read("Documents/a") == [4, 4])
        #expect(try versions(device, "Documents/a").count == 1)
      }
    }
  }

  private func versions(_ device: EngineDevice, _ path: String) throws -> [FileVersion] {
    try device.sync.versions(of: #require(try device.find(path)).number)
  }

  @Test("after a recovery the log has a package's conflict version once", arguments: [false, true])
  func aPackageConflictIsThereOnce(recoversWinner: Bool) async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      let root = "Documents/p.pages"
      try first.makeDirectory(root)
      for name in ["a", "b"] { try first.write("\(root)/\(name)", Array("one \(name)".utf8)) }
      try await settle(first, second)
      for name in ["a", "b"] { _ = try await second.read("\(root)/\(name)") }
      try second.write("\(root)/a", Array("second a".utf8))
      try first.write("\(root)/b", Array("first b".utf8))
      try await second.sync.sync()
      let earlier = try await house.copy()
      try second.write("Documents/lost", [1])
      try await second.sync.sync()
      second.offline.set(offline: true)
      // The later content is current; the other device's is kept as a conflict version.
      try await first.sync.sync()
      let kept = try versions(first, root).filter(\.isConflict).map(\.id)
      #expect(kept.count == 1)
      try await house.restore(earlier)
      second.offline.set(offline: false)
      for device in [first, second] {
        await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      }
      let outcome = try await (recoversWinner ? first : second).sync.recoverStore()
      #expect(outcome.missing.contains("\(root) (a conflict version)") == recoversWinner)
      try await settle(first, second)
      let third = try house.device()
      try await settle(first, second, third)
      for device in [first, second, third] {
        #expect(try await device.read("\(root)/a") == Array("one a".utf8))
        #expect(try await device.read("\(root)/b") == Array("first b".utf8))
        #expect(try versions(device, root).filter(\.isConflict).map(\.id) == kept)
      }
    }
  }

  @Test("an edit of a conflict's winner spares the loser, which is current again after a recovery")
  func theLoserOfAConflictIsNoBase() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try first.write("Documents/f", Array("one".utf8))
      try await settle(first, second)
      try second.write("Documents/f", Array("second".utf8))
      try first.write("Documents/f", Array("first".utf8))
      try await second.sync.sync()
      let earlier = try await house.copy()
      try second.write("Documents/g", [1])
      try await second.sync.sync()
      second.offline.set(offline: true)
      try await first.sync.sync()
      #expect(try versions(first, "Documents/f").map(\.isConflict) == [false, true])
      try first.write("Documents/f", Array("first again".utf8))
      try await house.restore(earlier)
      second.offline.set(offline: false)
      _ = try await second.sync.recoverStore()
      try await settle(first, second)
      for device in [first, second] {
        let current = String(decoding: try await device.read("Documents/f"), as: UTF8.self)
        #expect(
          try await Set(device.conflicts("Documents/f") + [current]) == ["first again", "second"])
      }
    }
  }

  @Test("a device that was away for the recovery joins it and supplies what it has")
  func aDeviceThatWasAwayJoins() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try first.write("Documents/a", [1])
      try await settle(first, second)
      let earlier = try await house.copy()
      for number in 0..<5 { try second.write("Documents/n\(number)", [UInt8(number), 9]) }
      try await second.sync.sync()
      try await first.sync.sync()
      for number in 0..<3 { try second.write("Documents/n\(number)", [UInt8(number), 8]) }
      try await second.sync.sync()
      second.offline.set(offline: true)
      try second.remove("Documents/n4")
      try await house.restore(earlier)
      await #expect(throws: SyncFailure.self) { try await first.sync.sync() }
      let outcome = try await first.sync.recoverStore()
      #expect(outcome.missing.count == 5)
      #expect(try first.find("Documents/n1") != nil)
      second.offline.set(offline: false)
      try await settle(first, second)
      for number in 0..<3 {
        #expect(try await first.read("Documents/n\(number)") == [UInt8(number), 8])
      }
      #expect(try await first.read("Documents/n3") == [3, 9])
      #expect(try first.sync.missingPaths() == [])
      #expect(try first.find("Documents/n4") == nil)
    }
  }

  @Test("a removed file of which only a device that was away has the bytes comes back")
  func aRemovedFileComesBack() async throws {
    try await withRestorableStore { house in
      let (first, second, earlier) = try await house.pair()
      try first.makeDirectory("Documents/d")
      try first.write("Documents/d/f", [5, 6])
      try await settle(first, second)
      #expect(try await second.read("Documents/d/f") == [5, 6])
      second.offline.set(offline: true)
      try first.remove("Documents/d/f")
      try first.remove("Documents/d", directory: true)
      try await first.sync.sync()
      try await house.restore(earlier)
      await #expect(throws: SyncFailure.self) { try await first.sync.sync() }
      _ = try await first.sync.recoverStore()
      #expect(try first.find("Documents/d") == nil)
      second.offline.set(offline: false)
      try await settle(first, second)
      #expect(try await second.read("Documents/d/f") == [5, 6])
      #expect(try await first.read("Documents/d/f") == [5, 6])
    }
  }

  @Test("two devices that recover at once end on one log")
  func twoRecoverAtOnce() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try await settle(first, second)
      let earlier = try await house.copy()
      try first.write("Documents/a", [1])
      try second.write("Documents/b", [2])
      try await settle(first, second)
      try await house.restore(earlier)
      for device in [first, second] {
        await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      }
      async let one = try? await first.sync.recoverStore()
      async let two = try? await second.sync.recoverStore()
      _ = await (one, two)
      for _ in 0..<3 {
        for device in [first, second] { try? await device.sync.sync(timeout: .seconds(240)) }
      }
      try await settle(first, second)
      let third = try house.device()
      try await settle(first, second, third)
      #expect(try await third.read("Documents/a") == [1])
      #expect(try await third.read("Documents/b") == [2])
    }
  }

  @Test("a log with a gap becomes whole when a new device recovers it")
  func aNewDeviceRecovers() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      for number in 0..<6 {
        try first.write("Documents/\(number)", [UInt8(number)])
        try await first.sync.sync()
      }
      for key in try await house.store.list(prefix: "containers/", after: nil, limit: .max)
      where key.contains("/log/") && key.hasSuffix("5") {
        try await house.store.delete(key)
      }
      let second = try house.device()
      await #expect(throws: SyncFailure.self) { try await second.sync.sync() }
      _ = try await second.sync.recoverStore()
      try await settle(first, second)
      for number in 0..<6 {
        #expect(try await second.read("Documents/\(number)") == [UInt8(number)])
      }
    }
  }

  @Test("a second rollback is seen and recovered like the first")
  func rollbacksAfterARecovery() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try await settle(first, second)
      let earlier = try await house.copy()
      for round in 0..<3 {
        try first.write("Documents/\(round)", [UInt8(round)])
        try await settle(first, second)
        _ = try await second.read("Documents/\(round)")
        try await house.restore(earlier)
        for device in [first, second] {
          await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
        }
        _ = try await [first, second][round % 2].sync.recoverStore()
        try await settle(first, second)
      }
      let third = try house.device()
      try await settle(first, second, third)
      for round in 0..<3 {
        #expect(try await third.read("Documents/\(round)") == [UInt8(round)])
      }
    }
  }

  @Test("recovering a sound store changes nothing")
  func aSoundStoreStays() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      try device.write("Documents/a", [1])
      try await device.sync.sync()
      let before = try await house.copy()
      #expect(try await device.sync.recoverStore().sequence == nil)
      #expect(try await house.copy() == before)
    }
  }

  @Test("an upload that ended before the rollback was noticed is sent again")
  func aLostUploadIsSentAgain() async throws {
    try await withRestorableStore { house in
      let slow = SlowAnswers(house.store)
      let device = try house.device(through: slow)
      try await device.sync.sync()
      let earlier = try await house.copy()
      try device.write("Documents/small", [1])
      try await device.sync.sync()
      slow.holds.withLock { $0 = true }
      var bytes = [UInt8](repeating: 0, count: 24 << 20)
      for index in stride(from: 0, to: bytes.count, by: 7) {
        bytes[index] = .random(in: 0 ... .max)
      }
      try device.write("Documents/large", bytes)
      let upload = Task { try? await device.sync.sync(timeout: .seconds(120)) }
      try await eventually("the store holds an answer") { slow.held > 0 }

      try await house.restore(earlier)
      try device.write("Documents/other", [2])
      await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      slow.letGo()
      _ = await upload.value
      _ = try await device.sync.recoverStore()
      try await settle(device)
      let second = try house.device()
      try await settle(device, second)
      #expect(try await second.read("Documents/large") == bytes)
      #expect(try await second.read("Documents/small") == [1])
    }
  }

  @Test("a removal of the older content that another device supplied spares the newer one")
  func aRemovalSparesWhatItDidNotKnow() async throws {
    try await withRestorableStore { house in
      let holder = try house.device()
      let reader = try house.device()
      let behind = try house.device()
      try holder.write("Documents/a", [1])
      try await settle(holder, reader, behind)
      #expect(try await behind.read("Documents/a") == [1])
      let earlier = try await house.copy()
      behind.offline.set(offline: true)
      try holder.write("Documents/a", [2, 2])
      try await holder.sync.sync()
      try await reader.sync.sync()
      holder.offline.set(offline: true)
      try await house.restore(earlier)
      behind.offline.set(offline: false)
      try behind.write("Documents/b", [3])
      try await behind.sync.sync()
      await #expect(throws: SyncFailure.self) { try await reader.sync.sync() }
      _ = try await reader.sync.recoverStore()
      try await behind.sync.sync()
      try behind.remove("Documents/a")
      try await behind.sync.sync()

      holder.offline.set(offline: false)
      try await settle(holder, reader, behind)
      #expect(try await holder.read("Documents/a") == [2, 2])
      #expect(try await behind.read("Documents/a") == [2, 2])
    }
  }
}

/// A store that has taken packs, and answers when it is let go.
private final class SlowAnswers: PassingStore {
  let store: any ObjectStore
  let holds = Lock(false)
  private let waiting = Lock(0)

  init(_ store: any ObjectStore) { self.store = store }

  var held: Int { waiting.withLock(\.self) }

  func letGo() { holds.withLock { $0 = false } }

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    let answer = try await body(store)
    guard call.kind == .put, call.isBulk, holds.withLock(\.self) else {
      return answer
    }
    waiting.withLock { $0 += 1 }
    let deadline = Deadline("the test lets answers through", within: .seconds(600))
    while holds.withLock(\.self), !Task.isCancelled {
      if deadline.isOver { throw .unavailable("\(deadline.timeout)") }
      try? await Task.sleep(for: .milliseconds(5))
    }
    return answer
  }
}
