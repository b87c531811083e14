import Backend
import SyncEngine
import TestWaiting
import Testing

/// Contents of which a recovered log has the name only, or nothing. Their device was away.
@Suite(.serialized) struct LostAfterRecoveryTests {
  @Test("an edit in a package that wins has no parent that it was not made of")
  func winnerInAPackage() async throws {
    try await withRestorableStore { house in
      let (holder, behind, reader) = (try house.device(), try house.device(), try house.device())
      let (package, file) = ("Documents/p.pages", "Documents/p.pages/a")
      try holder.makeDirectory(package)
      try holder.write(file, [1])
      try holder.write("\(package)/b", [9])
      try await settle(holder, behind, reader)
      _ = try await behind.read(file)
      behind.offline.set(offline: true)
      let earlier = try await house.copy()
      try holder.write(file, Array("holder's".utf8))
      try await holder.sync.sync(timeout: .seconds(240))
      try await reader.sync.sync(timeout: .seconds(240))
      holder.offline.set(offline: true)
      try behind.write(file, Array("behind's".utf8))
      try await recover(reader, on: house, from: earlier)

      behind.offline.set(offline: false)
      try await behind.sync.sync(timeout: .seconds(240))
      holder.offline.set(offline: false)
      try await settle(holder, behind, reader)
      for device in [holder, behind, reader] {
        let texts = try await contents(device, file) + contents(device, package)
        for text in ["holder's", "behind's"] {
          #expect(texts.contains { $0.contains(text) }, "\(text)")
        }
      }
    }
  }

  @Test(
    "an edit of a conflict's winner does not follow the loser that its own device made",
    arguments: [false, true])
  func editOfAWinner(isRenamed: Bool) async throws {
    try await withRestorableStore { house in
      let (writer, other) = (try house.device(), try house.device())
      let (holder, reader) = (try house.device(), try house.device())
      let file = "Documents/f"
      try writer.write(file, Array("base".utf8))
      try await settle(writer, other, holder, reader)
      for device in [other, holder] { _ = try await device.read(file) }
      let earlier = try await house.copy()
      try writer.write(file, Array("loser".utf8))
      try await writer.sync.sync(timeout: .seconds(240))
      try await holder.sync.sync(timeout: .seconds(240))
      #expect(try await holder.read(file) == Array("loser".utf8))
      try await reader.sync.sync(timeout: .seconds(240))
      for device in [holder, reader] { device.offline.set(offline: true) }
      try other.write(file, Array("winner".utf8))
      try await settle(other, writer)
      #expect(try await writer.read(file) == Array("winner".utf8))
      for device in [other, writer] { device.offline.set(offline: true) }
      let renamed = isRenamed ? "Documents/g" : file
      if isRenamed { try writer.rename(file, renamed) }
      let number = try #require(try writer.find(renamed)).number
      if isRenamed { writer.coordinator.opened(number, forWriting: true) }
      try writer.write(renamed, Array("edit".utf8))
      reader.offline.set(offline: false)
      try await recover(reader, on: house, from: earlier)

      writer.offline.set(offline: false)
      if isRenamed {
        // Device and recovered log agreed on nothing so far, so the log has its way.
        try await eventually("the name is that of the log") {
          try? await writer.sync.sync(timeout: .seconds(2))
          return try writer.find(file) != nil
        }
        writer.coordinator.closed(number, forWriting: true)
      }
      try await writer.sync.sync(timeout: .seconds(240))
      holder.offline.set(offline: false)
      try await settle(writer, reader, holder)
      for device in [writer, reader, holder] {
        let texts = try await contents(device, file)
        for text in ["edit", "loser"] { #expect(texts.contains(text), "\(text)") }
      }
    }
  }

  @Test(
    "an older content stays while nobody can read the newer one, or if that is removed",
    arguments: ["Documents/d", "Documents/p.pages"], Meanwhile.allCases)
  fileprivate func olderContent(directory: String, meanwhile: Meanwhile) async throws {
    try await withRestorableStore { house in
      let (away, writer) = (try house.device(), try house.device())
      let reader = try house.device(settings: SyncSettings(compaction: .eager))
      let file = "\(directory)/a"
      try away.makeDirectory(directory)
      let earlier = try await house.copy()
      try away.write(file, [1])
      try await settle(away, writer, reader)
      away.offline.set(offline: true)
      try writer.write(file, [2, 2])
      try await writer.sync.sync(timeout: .seconds(240))
      writer.offline.set(offline: true)
      try await reader.sync.sync(timeout: .seconds(240))
      try await recover(reader, on: house, from: earlier)
      if meanwhile == .removal {
        try reader.remove(file)
        try await reader.sync.sync(timeout: .seconds(240))
      }

      away.offline.set(offline: false)
      try await settle(reader, away)
      for device in [reader, away] { #expect(try await device.read(file) == [1]) }
      if meanwhile == .compaction { try await compact(reader) }
      writer.offline.set(offline: false)
      try await settle(writer, reader, away)
      for device in [writer, reader, away] { #expect(try await device.read(file) == [2, 2]) }
    }
  }

  @Test(
    "a recovery on a device that knows a pack as deleted gives up nothing in that pack",
    arguments: Knowledge.allCases)
  fileprivate func contentOfADeletedPack(knowledge: Knowledge) async throws {
    try await withRestorableStore { house in
      var policy = CompactionPolicy.eager
      if knowledge == .condemned { policy.grace = 30 * CompactionPolicy.day }
      let cleaner = try house.device(settings: SyncSettings(compaction: policy))
      let other = try house.device()
      for number in 0..<10 {
        try cleaner.write("Documents/\(number)", Array("content \(number)".utf8))
      }
      try await settle(cleaner, other)
      try await cleaner.evict("Documents/0")
      other.offline.set(offline: knowledge != .moved)
      let earlier = try await house.copy()
      for number in 1..<10 { try cleaner.remove("Documents/\(number)") }
      try await cleaner.sync.sync(timeout: .seconds(240))
      try await cleaner.sync.forget(nil)
      for _ in 0..<6 { try await cleaner.sync.compact() }
      let packs = try await house.packs()
      #expect(packs.isDisjoint(with: earlier.keys) == (knowledge != .condemned))
      if knowledge == .moved {
        try await settle(cleaner, other)
        other.offline.set(offline: true)
      }

      try await recover(cleaner, on: house, from: earlier)
      if knowledge == .condemned {
        for _ in 0..<6 { try await cleaner.sync.compact() }
        #expect(try !cleaner.catalog.condemnedPacks().isEmpty)
      }
      other.offline.set(offline: false)
      try await settle(other, cleaner)
      for device in [cleaner, other] {
        #expect(try await device.read("Documents/0") == Array("content 0".utf8))
      }
    }
  }

  @Test("an evicted content stays though another device brings its file with another one")
  func evictedContentOfAMissingItem() async throws {
    try await withRestorableStore { house in
      let (reader, writer) = (try house.device(), try house.device())
      let keeper = try house.device()
      let file = "Documents/f"
      try writer.makeDirectory("Documents/d")
      try await settle(writer, reader, keeper)
      var earlier = try await house.copy()
      try reader.makeDirectory("Documents/r")
      try await settle(reader, writer, keeper)
      reader.offline.set(offline: true)
      try writer.write(file, Array("base".utf8))
      try await settle(writer, keeper)
      _ = try await keeper.read(file)
      writer.offline.set(offline: true)
      try writer.write(file, Array("writer's".utf8))
      try keeper.write(file, Array("keeper's".utf8))
      try await keeper.sync.sync(timeout: .seconds(240))
      try await keeper.evict(file)
      keeper.offline.set(offline: true)

      // The log goes back, and all packs stay.
      for (key, bytes) in try await house.copy() where StoreKey.isPack(key) { earlier[key] = bytes }
      reader.offline.set(offline: false)
      try await recover(reader, on: house, from: earlier)
      writer.offline.set(offline: false)
      try await writer.sync.sync(timeout: .seconds(240))
      keeper.offline.set(offline: false)
      try await settle(keeper, writer, reader)
      for device in [keeper, writer, reader] {
        let texts = try await contents(device, file)
        for text in ["keeper's", "writer's"] { #expect(texts.contains(text), "\(text)") }
      }
    }
  }

  @Test("an edit after a recovery and a compaction replaces no newer content that it does not know")
  func editBeforeACompaction() async throws {
    try await withRestorableStore { house in
      let holder = try house.device()
      let reader = try house.device(settings: SyncSettings(compaction: .eager))
      let file = "Documents/f"
      try holder.write(file, Array("base".utf8))
      try await settle(holder, reader)
      let earlier = try await house.copy()
      try holder.write("Documents/other", [1])
      try await settle(holder, reader)
      _ = try await reader.read(file)
      reader.offline.set(offline: true)
      try holder.write(file, Array("holder's".utf8))
      try await holder.sync.sync(timeout: .seconds(240))
      holder.offline.set(offline: true)
      reader.offline.set(offline: false)
      try await recover(reader, on: house, from: earlier)
      try reader.write(file, Array("reader's".utf8))
      try await reader.sync.sync(timeout: .seconds(240))
      try await compact(reader)

      holder.offline.set(offline: false)
      try await settle(holder, reader)
      for device in [holder, reader] {
        let texts = try await contents(device, file)
        for text in ["holder's", "reader's"] { #expect(texts.contains(text), "\(text)") }
      }
    }
  }

  @Test(
    "a loser that a recovered log has by name only outlives a change of its winner",
    arguments: [false, true])
  func loserByNameOnly(isRemoved: Bool) async throws {
    try await withRestorableStore { house in
      let (loser, winner, reader) = (try house.device(), try house.device(), try house.device())
      let file = "Documents/d/f"
      try loser.makeDirectory("Documents/d")
      try loser.write(file, Array("base".utf8))
      try await settle(loser, winner, reader)
      _ = try await winner.read(file)
      let earlier = try await house.copy()
      winner.offline.set(offline: true)
      try loser.write(file, Array("loser".utf8))
      try await loser.sync.sync(timeout: .seconds(240))
      loser.offline.set(offline: true)
      try winner.write(file, Array("winner".utf8))
      winner.offline.set(offline: false)
      try await settle(winner, reader)
      winner.offline.set(offline: true)
      try await recover(reader, on: house, from: earlier)

      winner.offline.set(offline: false)
      try await settle(winner, reader)
      if isRemoved {
        try winner.remove(file)
      } else {
        try winner.rename("Documents/d", "Documents/d.pages")
      }
      try await settle(winner, reader)
      loser.offline.set(offline: false)
      try await settle(loser, winner)
      for device in [loser, winner] {
        var texts: [String] = []
        for path in ["Documents/d", file, "Documents/d.pages", "Documents/d.pages/f"]
        where try device.find(path) != nil {
          texts += try await contents(device, path)
        }
        #expect(texts.contains { $0.contains("loser") })
      }
    }
  }

  @Test("a conflict version that the log has by name only does not replace readable content")
  func choiceByNameOnly() async throws {
    try await withRestorableStore { house in
      let (loser, winner, reader) = (try house.device(), try house.device(), try house.device())
      let file = "Documents/f"
      try loser.write(file, Array("base".utf8))
      try await settle(loser, winner, reader)
      _ = try await winner.read(file)
      let earlier = try await house.copy()
      winner.offline.set(offline: true)
      try loser.write(file, Array("loser".utf8))
      try await loser.sync.sync(timeout: .seconds(240))
      loser.offline.set(offline: true)
      try winner.write(file, Array("winner".utf8))
      winner.offline.set(offline: false)
      try await settle(winner, reader)
      winner.offline.set(offline: true)
      try await recover(reader, on: house, from: earlier)
      winner.offline.set(offline: false)
      try await settle(winner, reader)

      let number = try #require(try winner.find(file)).number
      let unsent = try #require(try winner.sync.versions(of: number).first { $0.isConflict }).id
      await #expect(throws: VersionFailure.self) {
        try await winner.sync.resolve(number, keep: [unsent])
      }
      #expect(try await winner.read(file) == Array("winner".utf8))
      loser.offline.set(offline: false)
      try await settle(loser, winner)
      try await winner.sync.resolve(number, keep: [unsent])
      try await settle(winner, loser)
      for device in [loser, winner] {
        #expect(try await device.read(file) == Array("loser".utf8))
      }
    }
  }

  @Test("a removal before the first segment after a recovery loses no conflict version")
  func removalBeforeTheFirstSegment() async throws {
    try await withRestorableStore { house in
      let store = CallRefusingStore(house.store)
      let (device, reader) = (try house.device(through: store), try house.device())
      let file = "Documents/f"
      try device.write(file, Array("base".utf8))
      try await settle(device, reader)
      _ = try await device.read(file)
      _ = try await reader.read(file)
      device.offline.set(offline: true)
      try device.write(file, Array("loser".utf8))
      try reader.write(file, Array("winner".utf8))
      try await reader.sync.sync(timeout: .seconds(240))
      try reader.makeDirectory("Documents/before")
      try await reader.sync.sync(timeout: .seconds(240))
      let earlier = try await house.copy()
      try reader.makeDirectory("Documents/later")
      try await reader.sync.sync(timeout: .seconds(240))
      reader.offline.set(offline: true)
      device.offline.set(offline: false)
      try await device.sync.sync(timeout: .seconds(240))
      #expect(try await contents(device, file).sorted() == ["loser", "winner"])

      // The log goes back, and all packs stay.
      var former = earlier
      for (key, bytes) in try await house.copy() where StoreKey.isPack(key) { former[key] = bytes }
      reader.offline.set(offline: false)
      try await recover(reader, on: house, from: former)
      store.refuse { call in
        call.kind == .put && call.key.contains("/log/") ? .unavailable("no segment is taken") : nil
      }
      try await eventually("the device has read the recovery") {
        try? await device.sync.sync(timeout: .seconds(2))
        return try device.catalog.recovery() != nil
      }
      try device.remove(file)
      store.refuse()
      try await settle(device, reader)
      for device in [device, reader] {
        #expect(try await contents(device, file).contains("loser"))
      }
    }
  }

  /// Until the log before a snapshot is gone.
  private func compact(_ device: EngineDevice) async throws {
    for _ in 0..<4 { try await device.sync.compact() }
  }

  /// Sets the store back. The device recovers it.
  private func recover(
    _ device: EngineDevice, on house: RestorableHousehold, from earlier: [String: [UInt8]]
  ) async throws {
    try await house.restore(earlier)
    await #expect(throws: SyncFailure.self) { try await device.sync.sync(timeout: .seconds(240)) }
    _ = try await device.sync.recoverStore()
  }

  /// A file or package as text: the content, if it is a file, and the conflict versions.
  private func contents(_ device: EngineDevice, _ path: String) async throws -> [String] {
    guard let inode = try device.find(path) else { return [] }
    var result: [String] = []
    if inode.kind == .file {
      result.append(String(decoding: try await device.read(path), as: UTF8.self))
    }
    guard let versions = try? device.sync.versions(of: inode.number) else { return result }
    for version in versions where version.isConflict {
      let collected = Collected()
      try await device.sync.read(version.id, of: inode.number) { await collected.add($0) }
      result.append(String(decoding: await collected.bytes, as: UTF8.self))
    }
    return result
  }
}

/// The event between a recovery and the return of a device.
private enum Meanwhile: CaseIterable { case nothing, removal, compaction }

/// The other device's knowledge of a pack whose content was moved.
private enum Knowledge: CaseIterable {
  /// It has not heard of that.
  case place
  /// Nor has it, and the pack is condemned when it comes back.
  case condemned
  /// It knows that the content was moved.
  case moved
}
