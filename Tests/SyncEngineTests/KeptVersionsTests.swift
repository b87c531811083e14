import Backend
import Model
import RemoteStore
import SyncEngine
import TestWaiting
import Testing

/// Contents that nobody wrote over are in a file, in a version, or in the trash, on two devices.
@Suite(.serialized) struct KeptVersionsTests {
  private static let path = "Documents/f"

  /// A file of both devices with the current version "winner" and the conflict version "loser".
  private func makeConflict(_ first: EngineDevice, _ second: EngineDevice) async throws {
    try first.write(Self.path, Array("base".utf8))
    try await settle(first, second)
    _ = try await second.read(Self.path)
    try first.write(Self.path, Array("loser".utf8))
    try second.write(Self.path, Array("winner".utf8))
    try await settle(second, first)
  }

  private func versions(_ device: EngineDevice, _ path: String = path) throws -> [FileVersion] {
    try device.sync.versions(of: #require(try device.find(path)).number)
  }

  private func text(_ device: EngineDevice, _ path: String = path) async throws -> String {
    String(decoding: try await device.read(path), as: UTF8.self)
  }

  /// The conflict versions as text, sorted.
  private func conflicts(_ device: EngineDevice, _ path: String = path) async throws -> [String] {
    try await device.conflicts(path)
  }

  private func trash(_ device: EngineDevice) throws -> [RemovedPlace] {
    try device.sync.removedItems()
  }

  private func paths(_ device: EngineDevice) throws -> [String] {
    try trash(device).map { $0.path.map(\.description).joined(separator: "/") }.sorted()
  }

  @Test("renaming an item over a file with conflict versions puts that file into the trash")
  func renameOver() async throws {
    try await withDevices { first, second in
      try await makeConflict(first, second)
      try first.write("Documents/other", Array("other".utf8))
      try await settle(first, second)
      try first.rename("Documents/other", Self.path)
      try await settle(first, second)
      for device in [first, second] {
        #expect(try paths(device) == [Self.path])
        #expect(try await text(device) == "other")
      }
      try await second.sync.restore(try trash(second).map(\.item.record.id))
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await text(device, "Documents/f 2") == "winner")
        #expect(try await conflicts(device, "Documents/f 2") == ["loser"])
        #expect(try paths(device).isEmpty)
      }
    }
  }

  @Test("an edit that outlives a removal gets the contents that it did not know as versions")
  func revival() async throws {
    try await withDevices { first, second in
      try await makeConflict(first, second)
      _ = try await first.read(Self.path)
      second.offline.set(offline: true)
      try second.write(Self.path, Array("offline".utf8))
      // Another conflict that `second` hears nothing of, then the last content, then the removal.
      try first.write(Self.path, Array("last".utf8))
      try await first.sync.sync()
      try first.remove(Self.path)
      try await first.sync.sync()
      #expect(try paths(first) == [Self.path])
      second.offline.set(offline: false)
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await text(device) == "offline")
        #expect(try await conflicts(device) == ["last", "loser"])
        #expect(try paths(device).isEmpty)
      }
    }
  }

  @Test("a version that was resolved before the removal does not come back with an edit")
  func revivalAfterResolution() async throws {
    try await withDevices { first, second in
      try await makeConflict(first, second)
      second.offline.set(offline: true)
      try second.write(Self.path, Array("offline".utf8))
      let current = try #require(try versions(first).first { $0.isCurrent }).id
      try await first.sync.resolve(
        try #require(try first.find(Self.path)).number, keep: [current])
      try first.remove(Self.path)
      try await first.sync.sync()
      second.offline.set(offline: false)
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await text(device) == "offline")
        #expect(try await conflicts(device).isEmpty)
        // The resolved version is in the trash as before.
        #expect(try paths(device) == [Self.path])
      }
    }
  }

  @Test(
    "a package that outlives its removal has the versions that wait, and none that was resolved",
    arguments: [false, true])
  func revivedPackage(isResolved: Bool) async throws {
    try await withDevices { first, second in
      let root = "Documents/p.pages"
      let (away, other) = (first, second)
      try away.makeDirectory(root)
      for name in ["a", "b"] { try away.write("\(root)/\(name)", Array("one".utf8)) }
      try await settle(away, other)
      for name in ["a", "b"] { _ = try await other.read("\(root)/\(name)") }
      try away.write("\(root)/a", Array("away's".utf8))
      try other.write("\(root)/b", Array("other's".utf8))
      try await settle(away, other)
      let number = try #require(try other.find(root)).number
      #expect(try versions(other, root).map(\.isConflict) == [false, true])

      away.offline.set(offline: true)
      try away.write("\(root)/a", Array("edited".utf8))
      let current = try #require(try versions(other, root).first { $0.isCurrent }).id
      if isResolved { try await other.sync.resolve(number, keep: [current]) }
      for name in ["a", "b"] { try other.remove("\(root)/\(name)") }
      try other.remove(root, directory: true)
      try await other.sync.sync(timeout: .seconds(240))
      away.offline.set(offline: false)
      try await settle(away, other)
      for device in [away, other] {
        #expect(try await text(device, "\(root)/a") == "edited")
        #expect(
          try versions(device, root).map(\.isConflict) == (isResolved ? [false] : [false, true]))
      }
    }
  }

  @Test("a conflict that another device resolved stays resolved before the winner is here")
  func resolvedElsewhere() async throws {
    let secret = AccountSecret.generate()
    let memory = MemoryStore()
    let store = CallRefusingStore(memory)
    let first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: memory, secret: secret)
    try first.write(Self.path, Array("base".utf8))
    try await settle(first, second)
    _ = try await second.read(Self.path)
    try first.write(Self.path, Array("loser".utf8))
    try second.write(Self.path, Array("winner".utf8))
    try await second.sync.sync(timeout: .seconds(240))
    // The first device sends its content and cannot get the other one.
    store.refuse { call in
      call.kind == .get && StoreKey.isPack(call.key) ? .unavailable("no pack is given") : nil
    }
    try await eventually("the conflict is in the log") {
      try? await first.sync.sync(timeout: .seconds(2))
      try await second.sync.sync(timeout: .seconds(240))
      return try await conflicts(second) == ["loser"]
    }
    let current = try #require(try versions(second).first { $0.isCurrent }).id
    try await second.sync.resolve(try #require(try second.find(Self.path)).number, keep: [current])

    store.refuse()
    try await settle(first, second)
    for device in [first, second] {
      #expect(try await text(device) == "winner")
      #expect(try await conflicts(device).isEmpty)
    }
    await first.end()
    await second.end()
  }

  @Test("what a resolution drops goes to the trash and comes back as a file")
  func resolution() async throws {
    try await withDevices { first, second in
      try await makeConflict(first, second)
      let loser = try #require(try versions(first).first { $0.isConflict }).id
      try await first.sync.resolve(try #require(try first.find(Self.path)).number, keep: [loser])
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await text(device) == "loser")
        #expect(try await conflicts(device).isEmpty)
        #expect(try paths(device) == [Self.path])
      }
      // An edit of what was kept is an edit like any other.
      try first.write(Self.path, Array("edited".utf8))
      try await settle(first, second)
      let kept = try trash(second)
      #expect(kept.count == 1 && kept[0].item.record.content?.device == second.id)
      try await second.sync.restore(kept.map(\.item.record.id))
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await text(device) == "edited")
        #expect(try await text(device, "Documents/f 2") == "winner")
        #expect(try paths(device).isEmpty)
      }
    }
  }

  @Test("a version that is removed by name goes to the trash; one that is kept as a file does not")
  func removalByName() async throws {
    try await withDevices { first, second in
      try await makeConflict(first, second)
      let all = try versions(first)
      let number = try #require(try first.find(Self.path)).number
      try await first.sync.remove(all.filter(\.isConflict).map(\.id), of: number)
      try await settle(first, second)
      #expect(try trash(second).map(\.item.record.content?.size) == [5])
      try await first.sync.restore(try trash(first).map(\.item.record.id))
      try await settle(first, second)
      #expect(try await text(second, "Documents/f 2") == "loser")
    }
    try await withDevices { first, second in
      try await makeConflict(first, second)
      let number = try #require(try first.find(Self.path)).number
      try await first.sync.resolve(number, keep: try versions(first).map(\.id))
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await text(device, "Documents/f 2") == "loser")
        #expect(try paths(device).isEmpty)
      }
    }
  }

  @Test("resolving with a list that is out of date fails and drops nothing")
  func staleList() async throws {
    try await withDevices { first, second in
      try await makeConflict(first, second)
      let number = try #require(try first.find(Self.path)).number
      let listed = try versions(first)
      let loser = try #require(listed.first { $0.isConflict }).id
      let shown = ShownVersions(
        current: listed.first { $0.isCurrent }?.id, all: Set(listed.map(\.id)))
      _ = try await second.read(Self.path)
      try second.write(Self.path, Array("edited since".utf8))
      try await second.sync.sync()
      // It may have arrived before the command, or arrive with it.
      for arrives in [false, true] {
        if arrives { try await first.sync.sync() }
        let failure = await #expect(throws: VersionFailure.self) {
          try await first.sync.resolve(number, keep: [loser], shown: shown)
        }
        guard case .conflict(let text) = failure else {
          Issue.record("\(String(describing: failure))")
          continue
        }
        #expect(text.contains("current version"))
        #expect(try await self.text(first) == "edited since")
        #expect(try await conflicts(first) == ["loser"])
        #expect(try paths(first).isEmpty)
      }
      // Named explicitly, it may go; and it goes to the trash.
      let current = try #require(try versions(first).first { $0.isCurrent }).id
      try await first.sync.resolve(
        number, keep: [loser], shown: ShownVersions(current: current))
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await text(device) == "loser")
        #expect(try trash(device).map(\.item.record.content?.id) == [current])
      }
    }
  }

  @Test("a conflict version that was not in the list keeps the conflict from being resolved")
  func unseenConflict() async throws {
    try await withDevices { first, second in
      try await makeConflict(first, second)
      let number = try #require(try first.find(Self.path)).number
      let listed = try versions(first)
      let current = try #require(listed.first { $0.isCurrent }).id
      let shown = ShownVersions(current: current, all: Set(listed.map(\.id)))
      // A second loser arrives, below the same current version.
      _ = try await first.read(Self.path)
      _ = try await second.read(Self.path)
      try second.write(Self.path, Array("loser 2".utf8))
      try first.write(Self.path, Array("winner 2".utf8))
      try await settle(second, first)
      await #expect(throws: VersionFailure.self) {
        try await first.sync.resolve(number, keep: [current], shown: shown)
      }
      let winner = try #require(try versions(first).first { $0.isCurrent }).id
      await #expect(throws: VersionFailure.self) {
        try await first.sync.resolve(
          number, keep: [winner], shown: ShownVersions(current: winner, all: shown.all))
      }
      #expect(try await conflicts(first) == ["loser", "loser 2"])
    }
  }

  @Test("what the resolution of a package drops is in the trash, file by file or as a package")
  func packages() async throws {
    try await withDevices { first, second in
      let root = "Documents/p.pages"
      try first.makeDirectory(root)
      for name in ["a", "b"] { try first.write("\(root)/\(name)", Array("one \(name)".utf8)) }
      try await settle(first, second)
      for name in ["a", "b"] { _ = try await second.read("\(root)/\(name)") }
      try first.write("\(root)/b", Array("first b".utf8))
      try second.write("\(root)/a", Array("second a".utf8))
      try await first.sync.sync(timeout: .seconds(240))
      try await settle(second, first)
      let number = try #require(try first.find(root)).number
      let all = try versions(first, root)
      let loser = try #require(all.first { $0.isConflict })
      // The version that is dropped becomes a package again.
      try await first.sync.remove([loser.id], of: number)
      try await settle(first, second)
      #expect(try paths(second) == [root])
      try await second.sync.restore(try trash(second).map(\.item.record.id))
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await text(device, "Documents/p 2.pages/a") == "one a")
        #expect(try await text(device, "Documents/p 2.pages/b") == "first b")
        #expect(try await text(device, "\(root)/a") == "second a")
        #expect(try versions(device, "Documents/p 2.pages").count == 1)
        #expect(try paths(device).isEmpty)
      }
    }
    try await withDevices { first, second in
      let root = "Documents/p.pages"
      try first.makeDirectory(root)
      for name in ["a", "b"] { try first.write("\(root)/\(name)", Array("one \(name)".utf8)) }
      try await settle(first, second)
      for name in ["a", "b"] { _ = try await second.read("\(root)/\(name)") }
      try first.write("\(root)/b", Array("first b".utf8))
      try second.write("\(root)/a", Array("second a".utf8))
      try await first.sync.sync(timeout: .seconds(240))
      try await settle(second, first)
      let loser = try #require(try versions(first, root).first { $0.isConflict })
      try await first.sync.resolve(
        try #require(try first.find(root)).number, keep: [loser.id])
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await text(device, "\(root)/b") == "first b")
        // Beside them is the version that took their place, as it was kept.
        #expect(try paths(device) == [root, "\(root)/a", "\(root)/b"])
      }
    }
  }
}
