import Backend
import Catalog
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import TestWaiting
import Testing

extension CompactionPolicy {
  /// Does at once all that there is to do, and only when it is asked.
  static var eager: CompactionPolicy {
    var policy = CompactionPolicy()
    policy.isEnabled = false
    policy.removesPacks = true
    policy.snapshotSegments = 1
    policy.snapshotWeight = 0
    policy.leastSegments = 1
    policy.keepSegments = 0
    policy.keepLog = 0
    policy.grace = 0
    policy.garbageInterval = 0
    policy.leastPackAge = 0
    policy.liveShare = 0.9
    policy.strayInterval = 0
    policy.strayAge = 0
    return policy
  }
}

/// Devices of one account that compact when they are told to.
private final class Household {
  let store = MemoryStore()
  let secret = AccountSecret.generate()
  var devices: [EngineDevice] = []

  func device(
    _ policy: CompactionPolicy = .eager, after former: EngineDevice? = nil,
    through other: (any ObjectStore)? = nil
  ) throws -> EngineDevice {
    let made = try EngineDevice(
      store: other ?? store, secret: secret, settings: SyncSettings(compaction: policy),
      after: former)
    devices.append(made)
    return made
  }

  func keys(_ part: String) async throws -> [String] {
    try await store.list(prefix: "containers/", after: nil, limit: 100_000).filter {
      $0.contains("/\(part)/")
    }
  }

  /// The first segment that is there.
  func firstSegment() async throws -> Int {
    try await Int(keys("log").first?.split(separator: "/").last ?? "") ?? 0
  }
}

private func household(_ body: (Household) async throws -> Void) async throws {
  let household = Household()
  let result: Result<Void, any Error>
  do { result = .success(try await body(household)) } catch { result = .failure(error) }
  for device in household.devices { await device.end() }
  try result.get()
}

@Suite(.serialized) struct CompactionTests {
  /// Until nothing is left to do.
  private func compact(_ device: EngineDevice, times: Int = 4) async throws {
    for _ in 0..<times { try await device.sync.compact() }
  }

  private func bytes(_ count: Int, _ seed: UInt64) -> [UInt8] {
    var random = SystemRandomNumberGenerator()
    return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next() &+ seed) }
  }

  @Test func aNewDeviceReadsTheSnapshot() async throws {
    try await household { house in
      let first = try house.device()
      try first.makeDirectory("Documents/d")
      for number in 0..<30 {
        try first.write("Documents/d/\(number)", [UInt8(number), 7])
        if number % 10 == 9 { try await first.sync.sync() }
      }
      try first.remove("Documents/d/3")
      try await settle(first)
      try await compact(first)
      #expect(try await house.keys("snapshots").contains { $0.hasSuffix("/index") })
      #expect(try await house.firstSegment() > 3)
      let second = try house.device()
      try await settle(first, second)
      #expect(try await second.read("Documents/d/4") == [4, 7])
      #expect(try second.sync.removedItems().count == 1)
      try second.write("Documents/d/new", [1])
      try await settle(first, second)
      #expect(try await first.read("Documents/d/new") == [1])
      try await second.sync.restore(second.sync.removedItems().map(\.item.record.id))
      try await settle(first, second)
      #expect(try await first.read("Documents/d/3") == [3, 7])
    }
  }

  /// Away for longer than the log reaches: what others did is applied, what was done here is sent.
  @Test func aDeviceThatWasAwayLosesNothing() async throws {
    try await household { house in
      let first = try house.device()
      let second = try house.device()
      try first.makeDirectory("Documents/gone")
      for name in ["edited", "renamed", "removed", "gone/both", "gone/alone", "theirs", "quiet"] {
        try first.write("Documents/\(name)", Array(name.utf8))
      }
      try await settle(first, second)
      for name in ["edited", "theirs", "gone/both", "quiet"] {
        _ = try await second.read("Documents/\(name)")
      }
      second.offline.set(offline: true)
      let away = try second.catalog.position().sequence
      try second.write("Documents/edited", [1, 1])
      try second.write("Documents/gone/both", [2, 2])
      try second.rename("Documents/renamed", "Documents/renamed here")
      try second.remove("Documents/removed")
      try second.write("Documents/new", [3, 3])
      try second.makeDirectory("Documents/made")
      try second.write("Documents/made/in it", [4, 4])

      try first.remove("Documents/edited")
      try first.remove("Documents/gone/both")
      try first.remove("Documents/gone/alone")
      try first.remove("Documents/gone", directory: true)
      try first.write("Documents/theirs", [5, 5])
      try first.remove("Documents/quiet")
      for number in 0..<12 {
        try first.write("Documents/more", [UInt8(number)])
        try await first.sync.sync()
      }
      try await first.sync.forget(nil)
      try await compact(first, times: 8)
      #expect(try await house.firstSegment() > Int(away) + 1)

      second.offline.set(offline: false)
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await device.read("Documents/edited") == [1, 1])
        #expect(try await device.read("Documents/gone/both") == [2, 2])
        #expect(try await device.read("Documents/renamed here") == Array("renamed".utf8))
        #expect(try await device.read("Documents/new") == [3, 3])
        #expect(try await device.read("Documents/made/in it") == [4, 4])
        #expect(try await device.read("Documents/theirs") == [5, 5])
        for name in ["removed", "gone/alone", "quiet", "renamed"] {
          #expect(try device.find("Documents/\(name)") == nil, "\(name)")
        }
      }
    }
  }

  /// Where the log is still whole a damaged snapshot costs nothing; where it is not, sync says what
  /// is wrong, changes nothing, and goes on when the object is back.
  @Test func aDamagedSnapshotHarmsNothing() async throws {
    try await household { house in
      var policy = CompactionPolicy.eager
      policy.keepLog = .max
      let first = try house.device(policy)
      for number in 0..<10 {
        try first.write("Documents/\(number)", [UInt8(number)])
        try await first.sync.sync()
      }
      try await compact(first)
      #expect(try await house.firstSegment() == 1)
      func damage() async throws -> [String: [UInt8]] {
        var good: [String: [UInt8]] = [:]
        for key in try await house.keys("snapshots") where !key.hasSuffix("/index") {
          let bytes = try await house.store.get(key)
          good[key] = bytes
          try await house.store.replace(key, Array(bytes.dropLast(3)) + [0, 0, 0])
        }
        return good
      }
      _ = try await damage()
      let second = try house.device()
      try await settle(first, second)
      #expect(try await second.read("Documents/4") == [4])

      // The next life of the first device keeps no log.
      await first.stop()
      let next = try house.device(.eager, after: first)
      try next.write("Documents/10", [10])
      try await next.sync.sync()
      try await compact(next)
      #expect(try await house.firstSegment() > 5)
      let good = try await damage()
      let third = try house.device()
      try await eventually("the damaged snapshot is refused") {
        do {
          try await third.sync.sync(timeout: .seconds(5))
          Issue.record("it read a damaged snapshot")
          return true
        } catch {
          return "\(error)".contains("damaged")
        }
      }
      #expect(try third.catalog.position() == .start)
      for (key, bytes) in good { try await house.store.replace(key, bytes) }
      try await settle(next, third)
      #expect(try await third.read("Documents/10") == [10])
    }
  }

  @Test func twoDevicesCompactAtOnce() async throws {
    try await household { house in
      let first = try house.device()
      let second = try house.device()
      for round in 0..<6 {
        for number in 0..<5 {
          try first.write("Documents/a\(number)", bytes(3000, UInt64(round)))
          try second.write("Documents/b\(number)", bytes(3000, UInt64(round)))
        }
        if round > 0 { try second.remove("Documents/b\(round % 5)") }
        try await settle(first, second)
        try await first.sync.forget(nil)
        async let one: Void = compact(first, times: 2)
        async let two: Void = compact(second, times: 2)
        _ = try await (one, two)
        try await settle(first, second)
      }
      let third = try house.device()
      try await settle(first, second, third)
      for number in 0..<5 {
        #expect(try await third.read("Documents/a\(number)").count == 3000)
      }
      #expect(try await house.keys("snapshots").count { $0.hasSuffix("/index") } <= 2)
    }
  }

  /// What nothing names is condemned, then removed; emptying recently deleted frees its space.
  @Test func emptyingFreesSpace() async throws {
    try await household { house in
      let first = try house.device()
      let second = try house.device()
      for number in 0..<4 {
        try first.write("Documents/\(number)", bytes(40_000, 0))
        try await first.sync.sync()
      }
      try await settle(first, second)
      #expect(try await house.keys("packs").count == 4)
      for number in 1..<4 { try second.remove("Documents/\(number)") }
      try await settle(first, second)
      try await compact(first)
      // They can still be brought back.
      #expect(try await house.keys("packs").count == 4)
      try await first.sync.forget(nil)
      try await compact(first)
      #expect(try await house.keys("packs").count == 1)
      try await settle(first, second)
      #expect(try await second.read("Documents/0").count == 40_000)
    }
  }

  @Test("a pack that cannot be read whole holds up no other")
  func damagedSparsePack() async throws {
    try await household { house in
      let first = try house.device()
      for number in 0..<4 { try first.write("Documents/\(number)", bytes(20_000, 3)) }
      try await first.sync.sync()
      let sparse = try await house.keys("packs")
      #expect(sparse.count == 1)
      try first.write("Documents/dead", bytes(20_000, 90))
      try await first.sync.sync()
      let number = try #require(try first.find("Documents/0")).number
      try await first.coordinator.evictAfterLook(number)
      var damaged = try await house.store.get(sparse[0])
      for index in damaged.indices.dropFirst(16) { damaged[index] ^= 0xFF }
      try await house.store.replace(sparse[0], damaged)

      for name in ["1", "2", "3", "dead"] { try first.remove("Documents/\(name)") }
      try await first.sync.sync()
      try await first.sync.forget(nil)
      try await compact(first, times: 6)
      // The one is damaged, and the other is gone.
      #expect(try await house.keys("packs") == sparse)
    }
  }

  @Test("an upload that goes on is told of with its content, and is not garbage before")
  func unfinishedUpload() async throws {
    try await household { house in
      let store = CallRefusingStore(house.store)
      // Packs that no log names are let be for longer.
      var policy = CompactionPolicy.eager
      policy.strayAge = 30 * CompactionPolicy.day
      let (first, second) = (try house.device(policy, through: store), try house.device(policy))
      try await settle(first, second)
      let allowed = Lock(2)
      store.refuse { call in
        guard call.kind == .put, call.sends > 1 << 20, StoreKey.isPack(call.key) else { return nil }
        let isAllowed = allowed.withLock { left in
          left -= 1
          return left >= 0
        }
        return isAllowed ? nil : .unavailable("no more packs")
      }
      let large = bytes(40 << 20, 5)
      try first.write("Documents/large", large)
      try await eventually("a part of it is uploaded") {
        try? await first.sync.sync(timeout: .seconds(2))
        return allowed.withLock(\.self) < 0
      }
      let parts = Set(try await house.keys("packs"))
      #expect(parts.count == 2)
      try first.write("Documents/small", [1])
      try await eventually("the small file is on the other device") {
        try? await first.sync.sync(timeout: .seconds(2))
        try await second.sync.sync(timeout: .seconds(240))
        return try second.find("Documents/small")?.size == 1
      }
      try await compact(second)
      #expect(try second.catalog.condemnedPacks().isEmpty)

      store.refuse()
      try await settle(first, second)
      #expect(parts.isSubset(of: try await house.keys("packs")))
      #expect(try await second.read("Documents/large") == large)
      // Nothing of it was sent twice.
      let all = try await house.keys("packs").count
      try await compact(second)
      #expect(try await house.keys("packs").count == all)
    }
  }

  /// A pack of which little is live is written anew; a device whose catalog is behind still reads.
  @Test func whoIsBehindFindsWhatWasMoved() async throws {
    try await household { house in
      let first = try house.device()
      let second = try house.device()
      for number in 0..<10 { try first.write("Documents/\(number)", bytes(20_000, 3)) }
      try await settle(first, second)
      #expect(try await house.keys("packs").count == 1)
      let old = try await house.keys("packs")
      let expected = try await first.read("Documents/7")
      for number in 0..<7 { try first.remove("Documents/\(number)") }
      try await first.sync.sync()
      try await first.sync.forget(nil)
      try await compact(first, times: 6)
      #expect(try await house.keys("packs").count == 1)
      #expect(try await house.keys("packs") != old)
      // It has read nothing of all that.
      #expect(try second.find("Documents/0") != nil)
      await second.sync.start()
      #expect(try await second.read("Documents/7") == expected)
      try await settle(first, second)
    }
  }

  /// The bytes that another device did away with meanwhile are sent again by who has them.
  @Test func whatWasCondemnedIsSentAgain() async throws {
    try await household { house in
      let first = try house.device()
      let second = try house.device()
      let content = bytes(30_000, 9)
      try first.write("Documents/a", content)
      try await settle(first, second)
      _ = try await second.read("Documents/a")
      second.offline.set(offline: true)
      try second.write("Documents/copy", content)
      try first.remove("Documents/a")
      try await first.sync.sync()
      try await first.sync.forget(nil)
      try await compact(first, times: 3)
      second.offline.set(offline: false)
      try await settle(second, first)
      try await compact(first, times: 3)
      let third = try house.device()
      try await settle(first, second, third)
      #expect(try await third.read("Documents/copy") == content)
    }
  }

  /// An edit brings back a file of which the conflict versions are nowhere any more.
  @Test func anEditOutlivesForgottenConflicts() async throws {
    try await household { house in
      let first = try house.device()
      let second = try house.device()
      try first.write("Documents/a", [1])
      try await settle(first, second)
      _ = try await second.read("Documents/a")
      try first.write("Documents/a", bytes(9_000, 1))
      try second.write("Documents/a", bytes(9_000, 2))
      try await settle(first, second)
      #expect(try second.catalog.conflictCount() == 1)
      second.offline.set(offline: true)
      try second.write("Documents/a", [7, 7])
      try first.remove("Documents/a")
      try await first.sync.sync()
      try await first.sync.forget(nil)
      try await compact(first, times: 4)
      second.offline.set(offline: false)
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await device.read("Documents/a") == [7, 7])
        #expect(try device.catalog.conflictCount() == 0)
      }
    }
  }

  /// Packs that were uploaded and never told of go in the end, but not those of who comes back. As
  /// long as their packs are there, an edit that brings back a file brings back its conflict
  /// versions.
  @Test func conflictVersionsInCondemnedPacksAreKept() async throws {
    try await household { house in
      var policy = CompactionPolicy.eager
      policy.grace = CompactionPolicy.day
      let first = try house.device(policy)
      let second = try house.device(policy)
      try first.write("Documents/a", [1])
      try await settle(first, second)
      _ = try await second.read("Documents/a")
      let contents = [bytes(9_000, 1), bytes(9_000, 2)]
      try first.write("Documents/a", contents[0])
      try second.write("Documents/a", contents[1])
      try await settle(first, second)
      second.offline.set(offline: true)
      try second.write("Documents/a", [7, 7])
      try first.remove("Documents/a")
      try await first.sync.sync()
      try await first.sync.forget(nil)
      try await compact(first, times: 4)
      #expect(try !first.catalog.condemnedPacks().isEmpty)
      second.offline.set(offline: false)
      try await settle(second, first)
      for device in [first, second] {
        let inode = try #require(try device.find("Documents/a"))
        let kept = try device.sync.versions(of: inode.number).filter(\.isConflict)
        #expect(kept.count == 1)
        for version in kept {
          let read = Lock<[UInt8]>([])
          try await device.sync.read(version.id, of: inode.number) { part in
            read.withLock { $0 += part }
          }
          #expect(contents.contains(read.withLock { $0 }))
        }
      }
    }
  }

  /// A package that was removed elsewhere comes back since it was edited here; of its other files,
  /// which were never downloaded, the bytes are nowhere.
  @Test func aPackageComesBackWithoutWhatIsNowhere() async throws {
    try await household { house in
      var policy = CompactionPolicy.eager
      policy.away = 0
      let first = try house.device(policy)
      let second = try house.device(policy)
      try first.makeDirectory("Documents/p.pages")
      for name in ["edited", "here", "away"] {
        try first.write("Documents/p.pages/\(name)", bytes(9_000, 1))
      }
      try await settle(first, second)
      let here = try await second.read("Documents/p.pages/here")
      second.offline.set(offline: true)
      try second.write("Documents/p.pages/edited", [7, 7])
      for name in ["edited", "here", "away"] { try first.remove("Documents/p.pages/\(name)") }
      try first.remove("Documents/p.pages", directory: true)
      try await first.sync.sync()
      try await first.sync.forget(nil)
      try await compact(first, times: 6)
      #expect(try await house.keys("packs").isEmpty)
      second.offline.set(offline: false)
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await device.read("Documents/p.pages/edited") == [7, 7])
        #expect(try await device.read("Documents/p.pages/here") == here)
        #expect(try device.find("Documents/p.pages/away") == nil)
      }
    }
  }

  @Test func straysGo() async throws {
    try await household { house in
      let first = try house.device()
      try first.write("Documents/a", [1])
      try await settle(first)
      let prefix = try #require(try await house.keys("packs").first).split(separator: "/")
      let stray = "\(prefix[0])/\(prefix[1])/packs/\(PackID.random())"
      try await house.store.replace(stray, [1, 2, 3])
      // Seen, condemned, deleted: a step each.
      for number in 0..<8 {
        try first.write("Documents/b", [UInt8(number)])
        try await first.sync.sync()
        try await compact(first, times: 1)
      }
      #expect(try await !house.keys("packs").contains(stray))
      #expect(try await first.read("Documents/a") == [1])
    }
  }

  /// A device at rest asks the backend nothing for it.
  @Test func atRestNothingIsAsked() async throws {
    let meter = MeteredStore(MemoryStore())
    let device = try EngineDevice(store: meter, secret: AccountSecret.generate())
    try device.write("Documents/a", [1])
    try await settle(device)
    try await device.sync.compact()
    let before = meter.traffic
    for _ in 0..<5 { try await device.sync.compact() }
    #expect(meter.traffic == before)
    await device.end()
  }
}

@Suite struct CompactionPolicyTests {
  private let device = Model.DeviceID(high: 1, low: 1)
  private let day = CompactionPolicy.day

  private func length(_ segments: UInt64, _ weight: UInt64, author: Model.DeviceID? = nil)
    -> LogLength
  {
    LogLength(
      position: LogPosition(sequence: segments, hash: []), weight: weight,
      author: author ?? device)
  }

  @Test func aLongLogIsDue() {
    let policy = CompactionPolicy()
    #expect(!policy.isSnapshotDue(length(1_999, 0), for: device))
    #expect(policy.isSnapshotDue(length(2_000, 0), for: device))
    #expect(policy.isSnapshotDue(length(8, 8 << 20), for: device))
    #expect(!policy.isSnapshotDue(length(7, 8 << 30), for: device))
    var large = length(3_000, 1 << 20)
    large.snapshotBytes = 60 << 20
    #expect(!policy.isSnapshotDue(large, for: device))
  }

  /// Whoever wrote last goes first; in the end each other device would.
  @Test func oneGoesFirst() {
    let policy = CompactionPolicy()
    for low in UInt64(2)..<50 {
      let other = Model.DeviceID(high: low, low: low &* 7919)
      #expect(!policy.isSnapshotDue(length(2_900, 0), for: other))
      #expect(policy.isSnapshotDue(length(5_100, 0), for: other))
    }
  }

  /// Never before the grace by this device's own clock, nor before a cursor that is not away.
  @Test func deletionWaits() {
    let policy = CompactionPolicy()
    func may(_ age: Int64, _ cursors: [(UInt64, Int64)]) -> Bool {
      let now = Timestamp(nanoseconds: 400 * day)
      return policy.mayDelete(
        condemnedAt: 100, since: Timestamp(nanoseconds: now.nanoseconds - age),
        cursors: cursors.map {
          ($0.0, Timestamp(nanoseconds: now.nanoseconds - $0.1))
        }, now: now)
    }
    #expect(!may(7 * day - 1, []))
    #expect(may(7 * day, []))
    #expect(may(7 * day, [(100, 0), (300, 0)]))
    #expect(!may(300 * day, [(UInt64(99), 29 * day)]))
    #expect(may(300 * day, [(UInt64(99), 30 * day)]))
    // A clock that was set back.
    #expect(!may(-day, []))
  }
}
