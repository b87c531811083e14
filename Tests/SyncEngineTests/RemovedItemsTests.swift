import Backend
import Model
import RemoteStore
import SyncEngine
import SystemPackage
import Testing

/// Recently deleted, on two devices without mounts.
@Suite(.serialized) struct RemovedItemsTests {
  private func paths(_ device: EngineDevice) throws -> [String] {
    try device.sync.removedItems().map { $0.path.map(\.description).joined(separator: "/") }
      .sorted()
  }

  private func id(_ path: String, on device: EngineDevice) throws -> ItemID {
    let found = try device.sync.removedItems().first {
      $0.path.map(\.description).joined(separator: "/") == path
    }
    return try #require(found).item.record.id
  }

  @Test func whatOneDeviceRemovedTheOtherBringsBack() async throws {
    try await withDevices { first, second in
      try first.write("Documents/letter", [1, 2, 3])
      try first.write("Documents/other", [4])
      try await settle(first, second)
      try first.remove("Documents/letter")
      try await settle(first, second)
      for device in [first, second] { #expect(try paths(device) == ["Documents/letter"]) }
      let removed = try #require(try second.sync.removedItems().first)
      #expect(removed.item.device == first.id)
      #expect(removed.expires > removed.item.removed)
      try await second.sync.restore([removed.item.record.id])
      try await settle(first, second)
      #expect(try await first.read("Documents/letter") == [1, 2, 3])
      #expect(try await second.read("Documents/letter") == [1, 2, 3])
      for device in [first, second] { #expect(try paths(device).isEmpty) }
    }
  }

  /// A directory comes back with what was in it; one file of it brings the directory along, alone.
  @Test func treesComeBack() async throws {
    try await withDevices { first, second in
      try first.makeDirectory("Documents/a")
      try first.makeDirectory("Documents/a/b")
      for name in ["a/1", "a/2", "a/b/3"] { try first.write("Documents/\(name)", [7]) }
      try await settle(first, second)
      let before = try first.listing()
      for name in ["a/1", "a/2", "a/b/3"] { try first.remove("Documents/\(name)") }
      for name in ["a/b", "a"] { try first.remove("Documents/\(name)", directory: true) }
      try await settle(first, second)
      #expect(try paths(second).count == 5)
      try await second.sync.restore([try id("Documents/a/b/3", on: second)])
      try await settle(first, second)
      #expect(try first.find("Documents/a/b/3") != nil && first.find("Documents/a/1") == nil)
      try first.remove("Documents/a/b/3")
      for name in ["a/b", "a"] { try first.remove("Documents/\(name)", directory: true) }
      try await settle(first, second)
      try await first.sync.restore([try id("Documents/a", on: first)])
      try await settle(first, second)
      #expect(
        try first.listing().map { $0.split(separator: " ")[0] }
          == before.map { $0.split(separator: " ")[0] })
      #expect(try await second.read("Documents/a/b/3") == [7])
    }
  }

  @Test func aNameThatIsTakenIsKept() async throws {
    try await withDevices { first, second in
      try first.write("Documents/note.txt", [1])
      try await settle(first, second)
      try first.remove("Documents/note.txt")
      try await settle(first, second)
      try first.write("Documents/note.txt", [2])
      try await settle(first, second)
      try await first.sync.restore([try id("Documents/note.txt", on: first)])
      try await settle(first, second)
      #expect(try await second.read("Documents/note.txt") == [2])
      #expect(try await second.read("Documents/note 2.txt") == [1])
    }
  }

  /// A file that was saved over by renaming was not removed, nor was what nobody else ever had.
  @Test func whatWasReplacedIsNotListed() async throws {
    try await withDevices { first, second in
      try first.write("Documents/file", [1])
      try await settle(first, second)
      try first.write("Documents/file.new", [2])
      try first.rename("Documents/file.new", "Documents/file")
      try first.write("Documents/short", [3])
      try first.remove("Documents/short")
      try await settle(first, second)
      #expect(try paths(first).isEmpty && paths(second).isEmpty)
    }
  }

  @Test func whatIsForgottenIsForgottenEverywhere() async throws {
    try await withDevices { first, second in
      for number in 0..<3 { try first.write("Documents/\(number)", [1]) }
      try await settle(first, second)
      for number in 0..<3 { try first.remove("Documents/\(number)") }
      try await settle(first, second)
      let one = try id("Documents/0", on: second)
      try await second.sync.forget([one])
      try await settle(first, second)
      #expect(try paths(first) == ["Documents/1", "Documents/2"])
      await #expect(throws: RestoreFailure.notFound) { try await first.sync.restore([one]) }
      try await first.sync.forget(nil)
      try await settle(first, second)
      #expect(try paths(second).isEmpty)
    }
  }

  /// An edit that did not know of the removal brings the file back by itself.
  @Test func anEditBringsItBack() async throws {
    try await withDevices { first, second in
      try first.write("Documents/file", [1])
      try await settle(first, second)
      _ = try await second.read("Documents/file")
      second.offline.set(offline: true)
      try second.write("Documents/file", [2])
      try first.remove("Documents/file")
      try await first.sync.sync()
      #expect(try paths(first) == ["Documents/file"])
      second.offline.set(offline: false)
      try await settle(second, first)
      #expect(try await first.read("Documents/file") == [2])
      #expect(try paths(first).isEmpty && paths(second).isEmpty)
    }
  }
}
