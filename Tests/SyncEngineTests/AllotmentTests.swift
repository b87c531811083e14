import Backend
import Model
import Platform
import RemoteStore
import SyncEngine
import TestWaiting
import Testing

/// Who wakes whom, and what is left.
@Suite struct AllotmentTests {
  private let one = try! ContainerID("iCloud.one")
  private let two = try! ContainerID("iCloud.two")

  @Test func withoutALimitThereIsNoEnd() {
    let allotment = Allotment()
    allotment.opened(one, using: 500) {}
    #expect(allotment.figures == Allotment.Figures(limit: nil, used: 500))
    #expect(allotment.figures.left == nil)
  }

  @Test func whatAllContainersTakeIsOneSum() {
    let allotment = Allotment(limit: 1000)
    allotment.set(elsewhere: 100)
    allotment.opened(one, using: 200) {}
    allotment.opened(two, using: 300) {}
    #expect(allotment.figures == Allotment.Figures(limit: 1000, used: 600))
    #expect(allotment.figures.left == 400)
    #expect(allotment.used(by: two) == 300)
    allotment.set(limit: 500)
    #expect(allotment.figures.left == 0)
    allotment.closed(two)
    #expect(allotment.figures.left == 200)
  }

  @Test func sumsDoNotOverflow() {
    let allotment = Allotment(limit: .max)
    allotment.set(elsewhere: .max - 1)
    allotment.opened(one, using: 200) {}
    #expect(allotment.figures.used == .max && allotment.figures.left == 0)
  }
}

/// An account that has no room for everything, on devices without mounts.
@Suite(.serialized) struct QuotaTests {
  /// The first device knows the quota; the second only looks.
  private func withQuota(
    _ limit: UInt64?, settings: SyncSettings = SyncSettings(),
    _ body: (EngineDevice, EngineDevice, Allotment, MeteredStore) async throws -> Void
  ) async throws {
    let store = MeteredStore(MemoryStore())
    let secret = AccountSecret.generate()
    let allotment = Allotment(limit: limit)
    let first = try EngineDevice(
      store: store, secret: secret, settings: settings, allotment: allotment)
    let second = try EngineDevice(store: store, secret: secret)
    let result: Result<Void, any Error>
    do {
      result = .success(try await body(first, second, allotment, store))
    } catch { result = .failure(error) }
    await first.end()
    await second.end()
    try result.get()
  }

  private func bytes(_ count: Int, _ seed: UInt8 = 1) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) ^ seed }
  }

  private func isBeyond(_ device: EngineDevice, _ path: String) throws -> Bool {
    let inode = try #require(try device.find(path))
    device.coordinator.setTransferReporter(device.sync)
    let status = try device.coordinator.status(of: inode.number)
    if status.uploadingError != nil {
      #expect(status.uploadingError?.hasPrefix("quotaExceeded: ") == true)
      #expect(!status.isUploaded)
    }
    return status.uploadingError != nil
  }

  /// Everything goes but what has no room.
  private func syncsInPart(_ device: EngineDevice) async {
    do {
      try await device.sync.sync(timeout: .seconds(240))
      Issue.record("there was room for everything")
    } catch {
      #expect(error.description.hasPrefix("quotaExceeded: "), "\(error)")
    }
  }

  @Test func whatHasNoRoomStaysAndWhatFitsGoesOn() async throws {
    try await withQuota(1000) { first, second, allotment, _ in
      try first.write("Documents/large", bytes(700))
      try await first.sync.sync(timeout: .seconds(240))
      try first.write("Documents/beyond", bytes(400))
      try first.write("Documents/small", bytes(200))
      try first.write("Documents/smaller", bytes(100))
      try first.write("Documents/no more", bytes(201))
      try first.makeDirectory("Documents/directory")
      await syncsInPart(first)
      #expect(try isBeyond(first, "Documents/beyond") && isBeyond(first, "Documents/no more"))
      #expect(try !isBeyond(first, "Documents/small"))
      // One line for the container, however many files.
      let status = await first.sync.status()
      #expect(status.errors.count == 1 && status.pendingUploads == 2)
      #expect(status.errors.first?.contains("2 files of 601 bytes") == true, "\(status.errors)")
      #expect(allotment.figures == Allotment.Figures(limit: 1000, used: 1000))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try second.find("Documents/beyond") == nil && second.find("Documents/no more") == nil)
      #expect(try second.find("Documents/directory") != nil)
      #expect(try await second.read("Documents/small") == bytes(200))
      #expect(try await first.read("Documents/beyond") == bytes(400))

      // Room is made here, and on the other device.
      try first.remove("Documents/smaller")
      try first.remove("Documents/small")
      await syncsInPart(first)
      #expect(try !isBeyond(first, "Documents/no more"))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read("Documents/no more") == bytes(201))
      try second.remove("Documents/large")
      try await second.sync.sync(timeout: .seconds(240))
      try await settle(first, second)
      #expect(try await second.read("Documents/beyond") == bytes(400))
      #expect(await first.sync.status().errors == [])
      #expect(try first.catalog.usage() == 601 && second.catalog.usage() == 601)
    }
  }

  @Test func aChangedFilesFormerContentStaysElsewhere() async throws {
    try await withQuota(1000) { first, second, allotment, _ in
      try first.write("Documents/a", bytes(600))
      try await settle(first, second)
      try first.write("Documents/a", bytes(1100, 2))
      // What takes no room goes on.
      try first.rename("Documents/a", "Documents/b")
      try first.write("Documents/empty", [])
      await syncsInPart(first)
      #expect(try isBeyond(first, "Documents/b"))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read("Documents/b") == bytes(600))
      #expect(try second.find("Documents/a") == nil && second.find("Documents/empty") != nil)
      // A smaller content always has room.
      try first.write("Documents/b", bytes(599, 3))
      try await settle(first, second)
      #expect(try await second.read("Documents/b") == bytes(599, 3))
      try first.write("Documents/b", bytes(1100, 4))
      await syncsInPart(first)
      allotment.set(limit: 1100)
      try await settle(first, second)
      #expect(try await second.read("Documents/b") == bytes(1100, 4))
    }
  }

  /// An account that is over its quota already: nothing grows, everything else goes on.
  @Test func aQuotaBelowWhatIsThereStopsWhatGrowsAlone() async throws {
    try await withQuota(nil) { first, second, allotment, _ in
      try first.write("Documents/a", bytes(600))
      try first.write("Documents/b", bytes(600))
      try await settle(first, second)
      allotment.set(limit: 500)
      #expect(allotment.figures.left == 0)
      try first.write("Documents/a", bytes(600, 5))
      try first.write("Documents/b", bytes(10, 5))
      try first.rename("Documents/b", "Documents/c")
      try await settle(first, second)
      #expect(try await second.read("Documents/a") == bytes(600, 5))
      try first.write("Documents/c", bytes(11))
      await syncsInPart(first)
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read("Documents/c") == bytes(10, 5))
    }
  }

  @Test func aPackageGoesWholeOrNotAtAll() async throws {
    try await withQuota(1000) { first, second, allotment, _ in
      try first.makeDirectory("Documents/p.pages")
      for name in ["a", "b", "c"] { try first.write("Documents/p.pages/\(name)", bytes(300)) }
      try await settle(first, second)
      // Two of the three would fit.
      for name in ["a", "b", "c"] { try first.write("Documents/p.pages/\(name)", bytes(340, 2)) }
      try first.write("Documents/beside", bytes(100))
      await syncsInPart(first)
      #expect(try isBeyond(first, "Documents/p.pages"))
      try await second.sync.sync(timeout: .seconds(240))
      for name in ["a", "b", "c"] {
        #expect(try await second.read("Documents/p.pages/\(name)") == bytes(300))
      }
      #expect(try await second.read("Documents/beside") == bytes(100))
      allotment.set(limit: 1120)
      try await settle(first, second)
      for name in ["a", "b", "c"] {
        #expect(try await second.read("Documents/p.pages/\(name)") == bytes(340, 2))
      }
    }
  }

  /// As editors save: a new package takes the place of the old one.
  @Test func aPackageThatReplacesAnotherNeedsNoMoreRoomThanTheDifference() async throws {
    try await withQuota(1000) { first, second, _, _ in
      try first.makeDirectory("Documents/p.pages")
      try first.write("Documents/p.pages/a", bytes(900))
      try await settle(first, second)
      try first.makeDirectory("Documents/new.pages")
      try first.write("Documents/new.pages/a", bytes(950, 2))
      try first.remove("Documents/p.pages/a")
      try first.remove("Documents/p.pages", directory: true)
      try first.rename("Documents/new.pages", "Documents/p.pages")
      try await settle(first, second)
      #expect(try await second.read("Documents/p.pages/a") == bytes(950, 2))
    }
  }

  /// Both contents of a conflict count, and both are kept.
  @Test func aConflictWithoutRoomWaits() async throws {
    try await withQuota(1000) { first, second, allotment, _ in
      try first.write("Documents/a", bytes(400))
      try await settle(first, second)
      try second.write("Documents/a", bytes(500, 2))
      try await second.sync.sync(timeout: .seconds(240))
      try first.write("Documents/a", bytes(501, 3))
      await syncsInPart(first)
      #expect(try isBeyond(first, "Documents/a"))
      #expect(try await first.read("Documents/a") == bytes(501, 3))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read("Documents/a") == bytes(500, 2))
      allotment.set(limit: 1001)
      try await settle(first, second)
      #expect(try first.catalog.usage() == 1001)
      let inode = try #require(try second.find("Documents/a"))
      let versions = try second.sync.versions(of: inode.number)
      #expect(versions.map(\.size).sorted() == [500, 501])
    }
  }

  /// One is kept as a version, an archive of all that is in it: that was not to be foreseen
  /// exactly.
  @Test func aPackagesConflictWithoutRoomWaits() async throws {
    try await withQuota(5000) { first, second, allotment, _ in
      try first.makeDirectory("Documents/p.pages")
      for name in ["a", "b"] { try first.write("Documents/p.pages/\(name)", bytes(900)) }
      try await settle(first, second)
      try second.write("Documents/p.pages/a", bytes(900, 2))
      try await second.sync.sync(timeout: .seconds(240))
      try first.write("Documents/p.pages/b", bytes(900, 3))
      await syncsInPart(first)
      #expect(try first.catalog.usage() == 1800)
      #expect(try await first.read("Documents/p.pages/b") == bytes(900, 3))
      allotment.set(limit: 50_000)
      try await settle(first, second)
      let inode = try #require(try second.find("Documents/p.pages"))
      #expect(try second.sync.versions(of: inode.number).count == 2)
    }
  }

  @Test("a package conflict without room is told, and goes on when there is room")
  func deniedPackageWaits() async throws {
    try await withQuota(5000) { first, second, allotment, _ in
      try first.makeDirectory("Documents/p.pages")
      for name in ["a", "b"] { try first.write("Documents/p.pages/\(name)", bytes(900)) }
      try await settle(first, second)
      try second.write("Documents/p.pages/a", bytes(900, 2))
      try await second.sync.sync(timeout: .seconds(240))
      try first.write("Documents/p.pages/b", bytes(900, 3))
      // Beside it, what makes the cycle go round again.
      try first.write("Documents/small", bytes(10))
      await syncsInPart(first)
      #expect(try isBeyond(first, "Documents/p.pages"))
      #expect(await first.sync.status().errors.contains { $0.hasPrefix("quotaExceeded: ") })
      await first.sync.start()
      let inode = try #require(try first.find("Documents/p.pages"))
      allotment.set(limit: 50_000)
      try await eventually("the package has two versions") {
        try first.sync.versions(of: inode.number).count >= 2
      }
      #expect(try first.sync.versions(of: inode.number).count == 2)
      #expect(try !isBeyond(first, "Documents/p.pages"))
    }
  }

  @Test func nothingIsTriedAgainBeforeSomethingChanged() async throws {
    try await withQuota(100) { first, _, allotment, store in
      try first.write("Documents/beyond", bytes(400))
      await syncsInPart(first)
      let before = store.traffic
      for _ in 0..<5 { await syncsInPart(first) }
      let after = store.traffic
      // Each `sync` compares the head of the log, and asks for nothing else.
      #expect(after.puts == before.puts && after.gets == before.gets + 5)
      #expect(after.bytesUploaded == before.bytesUploaded)
      allotment.set(limit: 400)
      try await first.sync.sync(timeout: .seconds(240))
      #expect(store.traffic.puts > after.puts)
    }
  }

  /// By itself, when another container makes room: nobody calls `sync`.
  @Test func whatWaitsGoesByItself() async throws {
    try await withQuota(500) { first, _, allotment, _ in
      allotment.set(elsewhere: 300)
      await first.sync.start()
      try first.write("Documents/a", bytes(300))
      let inode = try #require(try first.find("Documents/a"))
      func status() throws -> (isUploaded: Bool, error: String?) {
        let status = try first.coordinator.status(of: inode.number)
        return (status.isUploaded, status.uploadingError)
      }
      try await eventually("the status says why the upload waits") { try status().error != nil }
      #expect(try !status().isUploaded)
      #expect(first.coordinator.allotted?.limit == 500 && first.coordinator.allotted?.left == 200)
      allotment.set(elsewhere: 200)
      try await eventually("the file is uploaded") { try status().isUploaded }
      #expect(try status().error == nil)
      #expect(allotment.figures.left == 0)
    }
  }

  @Test func veryManyItemsAreHeldToItTooPartByPart() async throws {
    var settings = SyncSettings()
    settings.manyItems.departures = 5
    settings.manyItems.departurePart = 4
    try await withQuota(1000, settings: settings) { first, second, allotment, _ in
      for number in 0..<30 { try first.write("Documents/\(number)", bytes(90, UInt8(number))) }
      await syncsInPart(first)
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try second.catalog.usage() == 990)
      #expect(first.sync.waitingForRoom.files == 19)
      allotment.set(limit: nil)
      try await settle(first, second)
      #expect(try second.catalog.usage() == 2700)
    }
  }

  @Test func whatIsBroughtBackNeedsRoomToo() async throws {
    try await withQuota(1000) { first, second, allotment, _ in
      try first.write("Documents/old", bytes(600))
      try await settle(first, second)
      try first.remove("Documents/old")
      try first.write("Documents/new", bytes(500))
      try first.write("Documents/beyond", bytes(600))
      await syncsInPart(first)
      let removed = try #require(try first.sync.removedItems().first).item.record.id
      await #expect {
        try await first.sync.restore([removed])
      } throws: { error in
        guard case RestoreFailure.failed(let text) = error else { return false }
        return text.hasPrefix("quotaExceeded: ")
      }
      // What waits for room does not keep others from being brought back.
      allotment.set(limit: 1200)
      try first.write("Documents/beyond", bytes(1201))
      try await first.sync.restore([removed])
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try second.find("Documents/old") != nil)
    }
  }

  /// A catalog from before there was such a sum.
  @Test func theSumIsTheSameAfterARestart() async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let first = try EngineDevice(store: store, secret: secret)
    for number in 0..<20 { try first.write("Documents/\(number)", bytes(number)) }
    try await first.sync.sync(timeout: .seconds(240))
    #expect(try first.catalog.usage() == 190)
    await first.stop()
    let again = try EngineDevice(store: store, secret: secret, after: first)
    #expect(try again.catalog.usage() == 190)
    try again.remove("Documents/10")
    try await again.sync.sync(timeout: .seconds(240))
    #expect(try again.catalog.usage() == 180)
    await again.end()
  }
}
