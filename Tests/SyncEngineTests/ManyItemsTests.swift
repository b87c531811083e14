import Backend
import Catalog
import Model
import Platform
import RemoteStore
import SyncEngine
import Testing

/// Very many items at once, with the numbers from which on that is so made small.
@Suite(.serialized) struct ManyItemsTests {
  private func withDevices(
    asksFrom least: Int = 100, _ body: (EngineDevice, EngineDevice) async throws -> Void
  ) async throws {
    let settings = Self.settings(asksFrom: least)
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let first = try EngineDevice(store: store, secret: secret, settings: settings)
    let second = try EngineDevice(store: store, secret: secret, settings: settings)
    let result: Result<Void, any Error>
    do { result = .success(try await body(first, second)) } catch { result = .failure(error) }
    await first.end()
    await second.end()
    try result.get()
  }

  private static func settings(asksFrom least: Int) -> SyncSettings {
    var settings = SyncSettings(
      packageQuiet: .zero, deletions: DeletionGuard(share: 0.5, least: least))
    settings.manyItems.arrivals = 3
    settings.manyItems.arrivalPart = 5
    settings.manyItems.departures = 3
    settings.manyItems.departurePart = 5
    return settings
  }

  private func problems(_ device: EngineDevice) throws -> [Problem] {
    let content = device.content
    return try device.catalog.check(contentKeys: try content.keys()) {
      (try? content.found($0))??.size
    }
  }

  private func makeTree(_ device: EngineDevice, _ root: String) throws {
    try device.makeDirectory(root)
    for directory in 0..<6 {
      try device.makeDirectory("\(root)/d\(directory)")
      for file in 0..<8 {
        try device.write(
          "\(root)/d\(directory)/f\(file)", Array("\(root) \(directory) \(file)".utf8))
      }
    }
    try device.write("\(root)/empty", [])
    try device.makeDirectory("\(root)/p.pages")
    for file in 0..<4 { try device.write("\(root)/p.pages/\(file)", [UInt8(file)]) }
    // A directory that is older than the one it is in.
    try device.makeDirectory("\(root)/later")
    try device.rename("\(root)/d3", "\(root)/later/d3")
  }

  @Test("very many removals are sent and applied in batches")
  func removalsGoInBatches() async throws {
    try await withDevices { first, second in
      try makeTree(first, "Documents/a")
      try makeTree(first, "Documents/b")
      try await settle(first, second)
      let before = try first.catalog.position().sequence
      for directory in ["d0", "d1", "d2"] {
        for file in 0..<8 { try first.remove("Documents/a/\(directory)/f\(file)") }
        try first.remove("Documents/a/\(directory)", directory: true)
      }
      // Not gone, but another one in its place; changed on the other device; and in a package.
      try first.remove("Documents/a/d4/f0")
      try first.write("Documents/a/d4/f0", Array("new".utf8))
      try first.remove("Documents/a/d4/f1")
      try second.write("Documents/a/d4/f1", Array("changed".utf8))
      try first.remove("Documents/a/p.pages/2")
      try await second.sync.sync()
      try await settle(first, second)
      // In batches of five, each directory with its last file or after it.
      #expect(try first.catalog.position().sequence >= before + 6)
      for device in [first, second] {
        for directory in ["d0", "d1", "d2"] {
          #expect(try device.find("Documents/a/\(directory)") == nil)
        }
        #expect(try await device.read("Documents/a/d4/f0") == Array("new".utf8))
        #expect(try await device.read("Documents/a/d4/f1") == Array("changed".utf8))
        #expect(try device.find("Documents/a/p.pages/2") == nil)
        #expect(try await device.read("Documents/b/d0/f0") == Array("Documents/b 0 0".utf8))
        #expect(try problems(device).isEmpty)
      }
      #expect(try first.listing() == second.listing())
      // They are in the trash of both.
      #expect(try second.sync.removedItems().count >= 27)
    }
  }

  @Test("very many removals wait for the user as a whole")
  func removalsInBatchesAreAskedFor() async throws {
    try await withDevices(asksFrom: 10) { first, second in
      try first.makeDirectory("Documents/a")
      for number in 0..<60 { try first.write("Documents/a/\(number)", [UInt8(number)]) }
      try await settle(first, second)
      for number in 0..<20 { try first.remove("Documents/a/\(number)") }
      try await settle(first, second)
      #expect(try second.find("Documents/a/19") == nil)
      // Together with those before they are more than half: nothing of it goes before it is
      // confirmed.
      let before = try first.catalog.position()
      for number in 20..<40 { try first.remove("Documents/a/\(number)") }
      for _ in 0..<2 {
        await #expect {
          try await first.sync.sync(timeout: .seconds(20))
        } throws: { error in
          if case SyncFailure.held = error { true } else { false }
        }
      }
      #expect(try first.catalog.position() == before)
      try await first.sync.confirmDeletions()
      try await settle(first, second)
      #expect(try second.find("Documents/a/39") == nil && second.find("Documents/a/40") != nil)
    }
  }

  @Test("remote changes arrive while very many removals are held, and the user restores them")
  func removalsInBatchesComeBack() async throws {
    try await withDevices(asksFrom: 10) { first, second in
      for directory in 0..<6 {
        try first.makeDirectory("Documents/\(directory)")
        for file in 0..<8 {
          try first.write("Documents/\(directory)/\(file)", Array("\(directory) \(file)".utf8))
        }
      }
      try first.makeDirectory("Documents/0/p.pages")
      try first.write("Documents/0/p.pages/part", [7])
      try await settle(first, second)
      let listing = try first.listing()
      try first.remove("Documents/0/p.pages/part")
      try first.remove("Documents/0/p.pages", directory: true)
      for directory in 0..<5 {
        for file in 0..<8 { try first.remove("Documents/\(directory)/\(file)") }
        if directory != 1 { try first.remove("Documents/\(directory)", directory: true) }
      }
      // A directory keeps its name, which a held removal has in the log.
      try first.makeDirectory("Documents/1/1")
      try second.write("Documents/5/3", Array("changed".utf8))
      try second.write("Documents/2/3", Array("changed".utf8))
      try second.write("Documents/news", Array("new".utf8))
      try await second.sync.sync()
      let before = try second.catalog.position()
      for _ in 0..<2 {
        await #expect {
          try await first.sync.sync(timeout: .seconds(20))
        } throws: { error in
          if case SyncFailure.held = error { true } else { false }
        }
        #expect(try await first.sync.heldDeletions() != nil)
        #expect(try await first.read("Documents/5/3") == Array("changed".utf8))
        #expect(try await first.read("Documents/2/3") == Array("changed".utf8))
        #expect(try await first.read("Documents/news") == Array("new".utf8))
        #expect(try first.find("Documents/2/4") == nil && first.find("Documents/0") == nil)
        #expect(try first.find("Documents/1/1")?.kind == .directory)
      }
      #expect(try first.catalog.position() == before)
      try first.remove("Documents/1/1", directory: true)
      try await first.sync.restoreDeletions()
      try await settle(first, second)
      for device in [first, second] {
        #expect(try device.listing().count == listing.count + 1)
        #expect(try await device.read("Documents/4/7") == Array("4 7".utf8))
        #expect(try await device.read("Documents/0/p.pages/part") == [7])
        #expect(try problems(device).isEmpty)
      }
      #expect(try first.listing() == second.listing())
    }
  }

  @Test("very many directories are removed in batches too, the deepest first")
  func directoriesGoInBatches() async throws {
    try await withDevices { first, second in
      let chain = (1...12).map { depth in
        "Documents/c/" + (1...depth).map { "n\($0)" }.joined(separator: "/")
      }
      try first.makeDirectory("Documents/c")
      for path in chain { try first.makeDirectory(path) }
      for number in 0..<12 {
        try first.makeDirectory("Documents/e\(number)")
        try first.makeDirectory("Documents/e\(number)/below")
      }
      try await settle(first, second)
      let before = try first.catalog.position().sequence
      for path in chain.reversed() { try first.remove(path, directory: true) }
      for number in 0..<12 {
        try first.remove("Documents/e\(number)/below", directory: true)
        if number != 5 { try first.remove("Documents/e\(number)", directory: true) }
      }
      // A file that never leaves the other device keeps its directory there, and there alone.
      try second.write("Documents/e7/mine.nosync", [1])
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try first.catalog.position().sequence >= before + 35 / 5)
      for device in [first, second] {
        #expect(try device.find("Documents/c/n1") == nil)
        #expect(try device.find("Documents/e5")?.kind == .directory)
        #expect(try device.find("Documents/e5/below") == nil)
        #expect(try device.find("Documents/e6") == nil)
        #expect(try problems(device).isEmpty)
      }
      #expect(try first.find("Documents/e7") == nil)
      #expect(try second.find("Documents/e7/mine.nosync") != nil)
    }
  }

  @Test("files removed during a bulk removal are confirmed with it")
  func removalsDuringTheBatchesAreAskedFor() async throws {
    let (store, device) = try await self.deviceWithSixtyFiles()
    for number in 0..<25 { try device.remove("Documents/a/\(number)") }
    let next = Lock(25)
    store.segmentPut.withLock {
      $0 = {
        let number = next.withLock { next in
          defer { next += 5 }
          return next
        }
        for number in number..<min(number + 5, 58) { try? device.remove("Documents/a/\(number)") }
      }
    }
    await #expect {
      try await device.sync.sync(timeout: .seconds(240))
    } throws: { error in
      if case SyncFailure.held = error { true } else { false }
    }
    let logged = try device.catalog.loggedLeafCount()
    #expect(logged >= 30, "\(logged) of 60 are left in the log")
    await device.end()
  }

  private func deviceWithSixtyFiles() async throws -> (TellingStore, EngineDevice) {
    let store = TellingStore(MemoryStore())
    let device = try EngineDevice(
      store: store, secret: .generate(), settings: Self.settings(asksFrom: 10))
    try device.makeDirectory("Documents/a")
    for number in 0..<60 { try device.write("Documents/a/\(number)", [UInt8(number)]) }
    try await device.sync.sync()
    return (store, device)
  }

  @Test("a bulk removal ends when the user restores what was removed")
  func restoringEndsTheBatches() async throws {
    let (store, device) = try await self.deviceWithSixtyFiles()
    for number in 0..<40 { try device.remove("Documents/a/\(number)") }
    await #expect(throws: SyncFailure.self) { try await device.sync.sync(timeout: .seconds(240)) }
    try await device.sync.confirmDeletions()
    let isFirst = Lock(true)
    store.segmentPut.withLock {
      $0 = {
        guard
          isFirst.withLock({ first in
            defer { first = false }
            return first
          })
        else { return }
        try? await device.sync.restoreDeletions()
      }
    }
    try await device.sync.sync(timeout: .seconds(240))
    // The batch that was on its way is gone.
    #expect(try device.catalog.loggedLeafCount() == 55)
    let names = (0..<60).map { "Documents/a/\($0)" }
    #expect(try names.count { try device.find($0) != nil } == 55)
    await device.end()
  }

  /// The answer to a batch is lost, and the device finds the batch in the log. Its directories are
  /// empty now, and count for nothing, as if the answer had come.
  @Test("directories that a lost answer left empty do not count as removals")
  func aLostAnswerLeavesNoRemovals() async throws {
    let settings = Self.settings(asksFrom: 3)
    let store = TellingStore(MemoryStore())
    let device = try EngineDevice(store: store, secret: .generate(), settings: settings)
    // All directories before all files, so that no directory is in one batch with its file.
    for number in 0..<12 { try device.makeDirectory("Documents/\(number)") }
    for number in 0..<12 { try device.write("Documents/\(number)/file", [UInt8(number)]) }
    try await device.sync.sync()
    for number in 0..<5 {
      try device.remove("Documents/\(number)/file")
      try device.remove("Documents/\(number)", directory: true)
    }
    store.isSilent.withLock { $0 = true }
    await #expect(throws: SyncFailure.self) { try await device.sync.sync(timeout: .seconds(5)) }
    store.isSilent.withLock { $0 = false }
    try await device.sync.sync(timeout: .seconds(240))
    #expect(try device.catalog.loggedLeafCount() == 7)
    await device.end()
  }

  @Test func allOfALargeTreeArrives() async throws {
    try await withDevices { first, second in
      try makeTree(first, "Documents/a")
      try await settle(first, second)
      #expect(try await second.read("Documents/a/later/d3/f7") == Array("Documents/a 3 7".utf8))
      #expect(try await second.read("Documents/a/p.pages/3") == [3])
      let directory = try #require(try second.find("Documents/a"))
      #expect(directory.linkCount == 2 + 7)
      #expect(try second.find("Documents/a/d0/f0")?.linkCount == 1)
      #expect(try second.find("Documents/a/d0/f0")?.content == .remote)
      #expect(try problems(second).isEmpty)
      #expect(try problems(first).isEmpty)
      // What was brought and sent like that can be changed and removed like all else.
      try second.write("Documents/a/d0/f0", Array("changed".utf8))
      try second.rename("Documents/a/d1", "Documents/a/d0/d1")
      try second.remove("Documents/a/d2/f2")
      try await settle(second, first)
      #expect(try await first.read("Documents/a/d0/f0") == Array("changed".utf8))
      #expect(try first.find("Documents/a/d0/d1/f1") != nil)
      #expect(try first.find("Documents/a/d2/f2") == nil)
    }
  }

  @Test func whatMeetsSomethingIsLeftToThePlan() async throws {
    try await withDevices { first, second in
      try makeTree(first, "Documents/a")
      try makeTree(second, "Documents/a")
      try second.write("Documents/a/d0/f0 of mine", [1])
      try makeTree(first, "Documents/b")
      try second.write("Documents/b", [2])
      try await settle(first, second)
      for device in [first, second] {
        // Directories of one name are one; of two files each is kept.
        #expect(try device.find("Documents/a 2") == nil)
        #expect(try device.find("Documents/a/d0/f0 2") != nil)
        #expect(try await device.read("Documents/a/d0/f0 of mine") == [1])
        #expect(
          try device.find("Documents/b/later/d3/f7") ?? device.find("Documents/b 2/d0") != nil)
        #expect(try problems(device).isEmpty)
      }
    }
  }

  @Test func editsOfManyFilesGoInParts() async throws {
    try await withDevices { first, second in
      try makeTree(first, "Documents/a")
      try await settle(first, second)
      for directory in [0, 1, 2, 4, 5] {
        for file in 0..<8 {
          try first.write("Documents/a/d\(directory)/f\(file)", Array("edited \(file)".utf8))
        }
      }
      try first.rename("Documents/a/d1/f1", "Documents/renamed")
      try first.rename("Documents/a/d0", "Documents/a/d1/d0")
      try second.write("Documents/a/d5/f5", Array("edited elsewhere".utf8))
      try first.remove("Documents/a/d4/f0")
      try await settle(first, second)
      #expect(try await second.read("Documents/a/d2/f3") == Array("edited 3".utf8))
      #expect(try await second.read("Documents/renamed") == Array("edited 1".utf8))
      #expect(try second.find("Documents/a/d1/f1") == nil)
      #expect(try first.catalog.conflictCount() == 1)
      #expect(try second.catalog.conflictCount() == 1)
      #expect(try second.find("Documents/a/d4/f0") == nil)
    }
  }
}

/// Tells when a segment is about to be put.
private final class TellingStore: PassingStore {
  let store: any ObjectStore
  let segmentPut = Lock<(@Sendable () async -> Void)?>(nil)
  /// From the next segment on: it is put, and nothing is answered.
  let isSilent = Lock(false)
  private let hasPut = Lock(false)

  init(_ store: any ObjectStore) { self.store = store }

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    let isSegment = call.kind == .put && call.key.contains("/log/")
    if isSegment { await segmentPut.withLock(\.self)?() }
    guard isSilent.withLock(\.self) else { return try await body(store) }
    let wasPut = hasPut.withLock { hasPut in
      defer { hasPut = hasPut || isSegment }
      return hasPut
    }
    if !wasPut {
      let answer = try await body(store)
      guard isSegment else { return answer }
    }
    throw .unavailable("the store does not answer")
  }
}
