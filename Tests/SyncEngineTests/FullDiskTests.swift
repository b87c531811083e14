import Backend
import Catalog
import Coordination
import Foundation
import Glibc
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import Testing

/// Downloads to a disk that is full.
@Suite(.serialized) struct FullDiskTests {
  /// A store that notes how much is asked for at once.
  private final class AskedRanges: PassingStore {
    let store: any ObjectStore
    private let largest = Lock<UInt64>(0)

    init(_ store: any ObjectStore) { self.store = store }

    /// Since the last call.
    func takeLargest() -> UInt64 {
      largest.withLock { largest in
        defer { largest = 0 }
        return largest
      }
    }

    func pass<Answer: Sendable>(
      _ call: StoreCall, received: @Sendable (Answer) -> Int,
      _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
    ) async throws(StoreError) -> Answer {
      let answer = try await body(store)
      if call.kind == .get {
        let bytes = UInt64(received(answer))
        largest.withLock { $0 = max($0, bytes) }
      }
      return answer
    }
  }

  /// Takes its time for each look at the store.
  private struct SlowLooks: StoreConfirming {
    let inner: ContainerSync

    func evictionRefusal(since: UInt64) -> Errno? { inner.evictionRefusal(since: since) }

    func confirmStore(
      since: UInt64, _ completion: @escaping @Sendable (Errno?) -> Void
    ) {
      DispatchQueue.global().asyncAfter(deadline: .now() + 2.3) {
        inner.confirmStore(since: since, completion)
      }
    }
  }

  /// Bytes that do not compress.
  private func noise(_ count: Int, _ seed: UInt64) -> [UInt8] {
    var state = seed
    return (0..<count).map { _ in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return UInt8(truncatingIfNeeded: state >> 33)
    }
  }

  @Test(
    "making room on a full disk does not make later requests smaller", .enabled(if: getuid() == 0))
  func makingRoomIsNoSlowAnswer() async throws {
    let place = "/tmp/ubiquityfs-room-\(UUID().uuidString)"
    try Files.makeDirectories(place)
    #expect(system("mount -t tmpfs -o size=96m none \(place)") == 0)
    defer {
      _ = system("umount -l \(place)")
      try? Files.removeTree(place)
    }
    let store = AskedRanges(MemoryStore())
    let secret = AccountSecret.generate()
    let writer = try EngineDevice(store: store, secret: secret)
    let reader = try EngineDevice(store: store, secret: secret, in: place + "/reader")
    let space = LocalSpace(
      limits: SpaceLimits(limit: .bytes(1 << 40)), directory: reader.directory,
      confirmationLimit: 300_000)
    reader.coordinator.setSpace(space, uses: nil)
    space.add(LocalSpace.Member(reader.coordinator))
    let result: Result<Void, any Error>
    do {
      for index in 0..<4 {
        try writer.write("Documents/old \(index)", noise(8 << 20, UInt64(index)))
      }
      let new = noise(16 << 20, 10)
      try writer.write("Documents/new", new)
      try writer.write("Documents/next", noise(16 << 20, 11))
      try await settle(writer, reader)
      for index in 0..<4 { _ = try await reader.read("Documents/old \(index)") }
      reader.coordinator.setStoreConfirmer(SlowLooks(inner: reader.sync))
      let fill = place + "/fill"
      _ = system("dd if=/dev/zero of=\(fill) bs=64k 2>/dev/null")
      _ = store.takeLargest()
      let started = ContinuousClock.now
      #expect(try await reader.read("Documents/new") == new)
      #expect(started.duration(to: .now) > .seconds(2), "it had room")
      try Files.remove(fill)
      _ = store.takeLargest()
      #expect(try await reader.read("Documents/next").count == 16 << 20)
      let largest = store.takeLargest()
      #expect(largest > 3 << 20, "\(largest)")
      result = .success(())
    } catch { result = .failure(error) }
    space.stop()
    await writer.end()
    await reader.end()
    try result.get()
  }
}
