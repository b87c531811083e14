import Backend
import Catalog
import Model
import RemoteStore
import SyncEngine
import SystemPackage
import Testing

/// A device that removes most of a container asks before the other loses it.
@Suite(.serialized) struct MassDeletionTests {
  private final class Pair {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    var first: EngineDevice
    let second: EngineDevice

    init() throws {
      first = try EngineDevice(store: store, secret: secret)
      second = try EngineDevice(store: store, secret: secret)
    }

    func restart() async throws {
      await first.stop()
      first = try EngineDevice(store: store, secret: secret, after: first)
    }

    func end() async {
      await first.end()
      await second.end()
    }
  }

  /// Two devices that have 300 files in a directory, with what is in them here on the first alone.
  private func withFiles(_ body: (Pair) async throws -> Void) async throws {
    let pair = try Pair()
    do {
      try pair.first.makeDirectory("Documents/d")
      for number in 0..<300 { try pair.first.write("Documents/d/\(number)", bytes(number)) }
      try await settle(pair)
      try await body(pair)
    } catch {
      await pair.end()
      throw error
    }
    await pair.end()
  }

  private func bytes(_ number: Int) -> [UInt8] { Array("content of \(number)".utf8) }

  private func settle(_ pair: Pair) async throws {
    for _ in 0..<2 {
      // All other suites begin at the same time as this one.
      try await pair.first.sync.sync(timeout: .seconds(240))
      try await pair.second.sync.sync(timeout: .seconds(240))
    }
    #expect(try pair.first.listing() == pair.second.listing())
    for device in [pair.first, pair.second] { #expect(try device.catalog.differing() == []) }
  }

  private func remove(_ numbers: Range<Int>, on device: EngineDevice) throws {
    for number in numbers { try device.remove("Documents/d/\(number)") }
  }

  private func count(_ device: EngineDevice) throws -> Int {
    let directory = try #require(try device.find("Documents/d"))
    return try device.catalog.readDirectory(directory.number, after: 0, limit: 1000).count
  }

  private func expectPaused(
    _ device: EngineDevice, _ words: String = "paused",
    sourceLocation: SourceLocation = #_sourceLocation
  ) async {
    do throws(SyncFailure) {
      try await device.sync.sync()
      Issue.record("it did not ask", sourceLocation: sourceLocation)
    } catch {
      guard case .held(let text) = error else {
        Issue.record("\(error)", sourceLocation: sourceLocation)
        return
      }
      #expect(text.contains(words), sourceLocation: sourceLocation)
      #expect(text.contains("--confirm-deletions"), sourceLocation: sourceLocation)
      #expect(text.contains("--restore-deletions"), sourceLocation: sourceLocation)
    }
    let errors = await device.sync.status().errors
    #expect(errors.contains { $0.contains("paused") }, sourceLocation: sourceLocation)
  }

  @Test func whatWasRemovedStaysElsewhereUntilItIsConfirmed() async throws {
    try await withFiles { pair in
      try remove(0..<200, on: pair.first)
      await expectPaused(pair.first, "200 of its 300 items")
      try await pair.second.sync.sync()
      #expect(try count(pair.second) == 300)
      #expect(try await pair.second.read("Documents/d/7") == bytes(7))
      // What it does besides waits; what others do arrives.
      try pair.first.write("Documents/mine", [1])
      try pair.second.write("Documents/theirs", [2])
      try await pair.second.sync.sync()
      await expectPaused(pair.first)
      #expect(try await pair.first.read("Documents/theirs") == [2])
      try await pair.second.sync.sync()
      #expect(try pair.second.find("Documents/mine") == nil)

      try await pair.first.sync.confirmDeletions()
      try await settle(pair)
      #expect(try count(pair.second) == 100)
      #expect(try await pair.second.read("Documents/mine") == [1])
      #expect(await pair.first.sync.status().errors == [])
    }
  }

  @Test func whatWasRemovedComesBackAsPlaceholders() async throws {
    try await withFiles { pair in
      try remove(0..<300, on: pair.first)
      try pair.first.remove("Documents/d", directory: true)
      await expectPaused(pair.first)
      // Made under an old name since, and a directory of the old one's name.
      try pair.first.makeDirectory("Documents/d")
      try pair.first.write("Documents/d/5", Array("new".utf8))
      await expectPaused(pair.first)
      try await pair.first.sync.restoreDeletions()
      try await settle(pair)
      #expect(try count(pair.first) == 301)
      #expect(try pair.first.find("Documents/d/7")?.content == .remote)
      for device in [pair.first, pair.second] {
        #expect(try await device.read("Documents/d/7") == bytes(7))
        #expect(try await device.read("Documents/d/5") == bytes(5))
        #expect(try await device.read("Documents/d/5 2") == Array("new".utf8))
      }
    }
  }

  @Test func aPauseAndWhatWasSaidOfItOutliveARestart() async throws {
    try await withFiles { pair in
      try remove(0..<200, on: pair.first)
      await expectPaused(pair.first)
      try await pair.restart()
      await expectPaused(pair.first, "200 of its 300 items")
      try await pair.first.sync.restoreDeletions()
      try await pair.restart()
      try await settle(pair)
      #expect(try count(pair.second) == 300)

      try remove(0..<200, on: pair.first)
      await expectPaused(pair.first)
      try await pair.first.sync.confirmDeletions()
      try await pair.restart()
      try await settle(pair)
      #expect(try count(pair.second) == 100)
    }
  }

  /// What is brought back in several transactions is not removed by half where it stops between
  /// two: the rest alone would not be asked about.
  @Test func whatIsBroughtBackByHalfIsBroughtBackAfterARestart() async throws {
    try await withFiles { pair in
      try remove(0..<200, on: pair.first)
      await expectPaused(pair.first)
      try await pair.first.sync.restoreDeletions()
      let gone = try pair.first.catalog.differing().filter {
        try pair.first.catalog.local($0) == nil
      }
      #expect(gone.count == 200)
      _ = try pair.first.catalog.apply(
        gone.prefix(150).map { .forgetBase($0) }, isOpen: { _ in false },
        isOpenForWriting: { _ in false })
      try await pair.restart()
      try await settle(pair)
      #expect(try count(pair.second) == 300)
    }
  }

  @Test func aSlowRemovalIsCountedOverItsCyclesAndARestart() async throws {
    try await withFiles { pair in
      for start in [0, 50] {
        try remove(start..<start + 50, on: pair.first)
        try await settle(pair)
        try await pair.restart()
      }
      try remove(100..<149, on: pair.first)
      try await settle(pair)
      // With one more it is half of it.
      try remove(149..<150, on: pair.first)
      await expectPaused(pair.first, "150 of its 300 items")
      #expect(try count(pair.second) == 151)
      try await pair.first.sync.restoreDeletions()
      try await settle(pair)
      #expect(try count(pair.second) == 151)
    }
  }

  @Test("removing half of the files at once asks, whatever directories they are in")
  func halfAsks() async throws {
    try await withFiles { pair in
      for number in 0..<20 { try pair.first.makeDirectory("Documents/d/empty \(number)") }
      for number in 0..<20 { try pair.first.write("Documents/d/empty \(number)/file", [1]) }
      try await settle(pair)
      try remove(0..<159, on: pair.first)
      try await settle(pair)
    }
    try await withFiles { pair in
      for number in 0..<20 { try pair.first.makeDirectory("Documents/d/empty \(number)") }
      for number in 0..<20 { try pair.first.write("Documents/d/empty \(number)/file", [1]) }
      try await settle(pair)
      try remove(0..<160, on: pair.first)
      await expectPaused(pair.first, "160 of its 320 items")
    }
  }

  @Test func aLaterMassDeletionAsksAgain() async throws {
    try await withFiles { pair in
      try remove(0..<180, on: pair.first)
      // Said at once, nobody having asked: it lets go what is gone now.
      try await pair.first.sync.confirmDeletions()
      try await settle(pair)
      #expect(try count(pair.second) == 120)
      try remove(180..<300, on: pair.first)
      await expectPaused(pair.first, "120 of its 120 items")
      #expect(try count(pair.second) == 120)
    }
  }

  @Test func whatIsPutBackEndsThePause() async throws {
    try await withFiles { pair in
      try remove(0..<300, on: pair.first)
      await expectPaused(pair.first)
      for number in 0..<200 { try pair.first.write("Documents/d/\(number)", [1]) }
      try await settle(pair)
      #expect(try count(pair.second) == 200)
    }
  }

  @Test func onlyWhatIsLostCounts() async throws {
    try await withFiles { pair in
      // Renamed and moved.
      for number in 0..<300 {
        try pair.first.rename("Documents/d/\(number)", "Documents/d/moved \(number)")
      }
      try await settle(pair)
      // Saved by renaming, and by removing first.
      for number in 0..<300 {
        let name = "Documents/d/moved \(number)"
        try pair.first.write("Documents/d/new", [2])
        if number.isMultiple(of: 2) { try pair.first.remove(name) }
        try pair.first.rename("Documents/d/new", name)
      }
      try await settle(pair)
      // Known here alone.
      for number in 0..<900 { try pair.first.write("Documents/temporary \(number)", [3]) }
      for number in 0..<900 { try pair.first.remove("Documents/temporary \(number)") }
      try await settle(pair)
      // Removed by the other device, which was asked.
      for number in 0..<250 { try pair.second.remove("Documents/d/moved \(number)") }
      await expectPaused(pair.second)
      try await pair.second.sync.confirmDeletions()
      try await settle(pair)
      #expect(try count(pair.first) == 50)
    }
  }

  @Test func leavingForANameThatStaysHereIsARemoval() async throws {
    try await withFiles { pair in
      try pair.first.rename("Documents/d", "Documents/d.nosync")
      await expectPaused(pair.first, "300 of its 300 items")
      #expect(try count(pair.second) == 300)
      try await pair.first.sync.restoreDeletions()
      try await pair.first.sync.sync()
      try await pair.second.sync.sync()
      #expect(try count(pair.second) == 300)
      #expect(try count(pair.first) == 300)
      #expect(try await pair.first.read("Documents/d.nosync/7") == bytes(7))
      #expect(try await pair.first.read("Documents/d/7") == bytes(7))
    }
  }

  /// The first device stops after its segment is in the log and before it knows: what it removed
  /// there counts when it finds it.
  @Test func removalsThatWereNotAcknowledgedCount() async throws {
    try await withFiles { pair in
      let device = pair.first
      try remove(0..<120, on: device)
      let remote = try await RemoteAccount.open(
        store: pair.store, secret: pair.secret, createIfMissing: false
      ).createContainer(EngineDevice.container, device: device.id, time: Timestamp(nanoseconds: 1))
      var gone: [ItemID] = []
      for id in try device.catalog.differing() where try device.catalog.local(id) == nil {
        gone.append(id)
      }
      #expect(gone.count == 120)
      let position = try device.catalog.position()
      _ = try #require(
        try await remote.commit(
          LogChanges(removals: gone), after: position,
          from: LogOrigin(device: device.id, time: Timestamp(nanoseconds: 1))))
      try await settle(pair)
      try remove(120..<160, on: device)
      await expectPaused(device, "160 of its 300 items")
    }
  }
}
