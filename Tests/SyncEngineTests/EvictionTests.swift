import Backend
import Catalog
import Coordination
import Model
import Platform
import RemoteStore
import SystemPackage
import Testing

/// The eviction of a directory, while a look at the store holds for a moment only.
@Suite struct EvictionTests {
  private static let count = 30

  /// Looks that are good for one use each.
  private final class ShortGrants: StoreConfirming {
    private struct State {
      var looks = 0
      var isGranted = false
    }

    private let state = Lock(State())
    /// From this look on, nothing may be evicted.
    private let refusal: (look: Int, error: Errno)?

    init(refusal: (look: Int, error: Errno)? = nil) { self.refusal = refusal }

    var looks: Int { state.withLock { $0.looks } }

    func evictionRefusal(since: UInt64) -> Errno? {
      state.withLock { state in
        defer { state.isGranted = false }
        return state.isGranted ? nil : .resourceTemporarilyUnavailable
      }
    }

    func confirmStore(
      since: UInt64, _ completion: @escaping @Sendable (Errno?) -> Void
    ) {
      let look = state.withLock { state in
        state.looks += 1
        state.isGranted = true
        return state.looks
      }
      completion(refusal.flatMap { look >= $0.look ? $0.error : nil })
    }
  }

  /// A device with files in two directories that are all in the store.
  private func withFiles(
    _ confirmer: ShortGrants, _ body: (EngineDevice, Catalog.Inode) async throws -> Void
  ) async throws {
    let device = try EngineDevice(store: MemoryStore(), secret: AccountSecret.generate())
    let result: Result<Void, any Error>
    do {
      try device.makeDirectory("Documents/d")
      try device.makeDirectory("Documents/d/e")
      for index in 0..<Self.count {
        try device.write("Documents/d/\(index % 2 == 0 ? "" : "e/")\(index)", [UInt8(index), 7])
      }
      try await device.sync.sync(timeout: .seconds(240))
      device.coordinator.setStoreConfirmer(confirmer)
      result = .success(try await body(device, try #require(try device.find("Documents/d"))))
    } catch { result = .failure(error) }
    await device.end()
    try result.get()
  }

  private func local(_ device: EngineDevice) throws -> Int {
    try (0..<Self.count).count { index in
      try device.find("Documents/d/\(index % 2 == 0 ? "" : "e/")\(index)")?.content == .local
    }
  }

  @Test("the store is looked at before each part of an eviction, which goes on where it was")
  func longEviction() async throws {
    let confirmer = ShortGrants()
    try await withFiles(confirmer) { device, directory in
      try await device.coordinator.evictAfterLook(directory.number, batchSize: 4)
      #expect(try local(device) == 0)
      // The first is before the walk.
      #expect(confirmer.looks == 1 + (Self.count + 3) / 4)
    }
  }

  @Test("nothing is evicted after the engine stopped")
  func stoppedEngine() async throws {
    let device = try EngineDevice(store: MemoryStore(), secret: AccountSecret.generate())
    try device.write("Documents/a", [7])
    try await device.sync.sync(timeout: .seconds(240))
    await device.sync.stop()
    let file = try #require(try device.find("Documents/a"))
    await #expect(throws: Errno.networkDown) {
      try await device.coordinator.evictAfterLook(file.number)
    }
    #expect(try device.find("Documents/a")?.content == .local)
    try device.catalog.close()
    try Files.removeTree(device.directory)
  }

  @Test("a directory is evicted without the files to which somebody unseen may write")
  func unseenWriter() async throws {
    try await withFiles(ShortGrants()) { device, directory in
      let file = try #require(try device.find("Documents/d/0"))
      let key = ContentKey(item: file.item, generation: file.generation)
      let writer = try device.content.open(key, writable: true)
      try await device.coordinator.evictAfterLook(directory.number)
      #expect(try local(device) == 1)
      #expect(try device.find("Documents/d/0")?.content == .local)
      withExtendedLifetime(writer) {}
    }
  }

  @Test(
    "an eviction stops with the store's error, and evicted files stay evicted",
    arguments: [Errno.resourceBusy, .networkDown], [false, true])
  func refusedHalfway(error: Errno, isCallback: Bool) async throws {
    let confirmer = ShortGrants(refusal: (4, error))
    try await withFiles(confirmer) { device, directory in
      let failure = await stopped(directory.number, device, isCallback: isCallback)
      #expect(failure == error)
      #expect(confirmer.looks == 4)
      let left = try local(device)
      #expect(left == Self.count - 8)
    }
  }

  /// `isCallback`: as the file system does it.
  private func stopped(
    _ number: InodeNumber, _ device: EngineDevice, isCallback: Bool
  ) async -> Errno? {
    var eviction = Eviction(number, of: device.coordinator, batchSize: 4)
    if isCallback {
      let eviction = eviction
      return await withCheckedContinuation { done in
        eviction.start { done.resume(returning: $0) }
      }
    }
    do throws(Errno) { try await eviction.finish() } catch { return error }
    return nil
  }

  @Test("pinned and claimed files stay when the rest of a directory is evicted")
  func keptFiles() async throws {
    try await withFiles(ShortGrants()) { device, directory in
      let pinned = try #require(try device.find("Documents/d/4"))
      try device.catalog.setPinned(pinned.number, true)
      let claims = device.coordinator.claims
      let program = ClaimantID(claims.join(name: "a program"))
      let claimed = try #require(try device.find("Documents/d/e/5"))
      let place = try #require(try device.coordinator.claimed(claimed.number))
      _ = claims.claim([ClaimAccess(place.path, .reading([]))], by: program) { _, _ in }
      try await device.coordinator.evictAfterLook(directory.number, batchSize: 4)
      #expect(try local(device) == 2)
      #expect(try device.find("Documents/d/4")?.content == .local)
      #expect(try device.find("Documents/d/e/5")?.content == .local)
      claims.leave(program.party)
    }
  }
}
