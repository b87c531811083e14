import Backend
import Catalog
import ContentStore
import Coordination
import Model
import Platform
import RemoteStore
import SyncEngine
import TestWaiting
import Testing

/// The kernel keeps the blocks of a placeholder for a second. A program that has read a part of it
/// and asks for its blocks then is not to get those from before.
@Suite struct DownloadedBlocksTests {
  private static let bytes = (0..<1 << 20).map { UInt8(truncatingIfNeeded: $0 &* 7 ^ $0 >> 8) }

  /// A kernel that hears when the test lets it.
  private final class SlowKernel: KernelInvalidating {
    let unheard = Lock<[@Sendable () -> Void]>([])

    func invalidate(_ list: [Invalidation]) {}
    func announce(_ changes: [ItemChange]) {}
    func waitForInvalidations(milliseconds: Int) -> Bool { true }

    func invalidate(_ list: [Invalidation], heard: @escaping @Sendable () -> Void) {
      guard case .attributes = list.first, list.count == 1 else { return heard() }
      unheard.withLock { $0.append(heard) }
    }
  }

  private func withPlaceholder(
    _ body: (EngineDevice, InodeNumber, SlowKernel) async throws -> Void
  ) async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: store, secret: secret)
    let result: Result<Void, any Error>
    do {
      try first.write("Documents/file", Self.bytes)
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      let kernel = SlowKernel()
      second.coordinator.setInvalidator(kernel)
      let number = try #require(try second.find("Documents/file")).number
      result = .success(try await body(second, number, kernel))
    } catch {
      result = .failure(error)
    }
    await first.end()
    await second.end()
    try result.get()
  }

  @Test("a reader of a part is answered when the kernel has forgotten the blocks from before")
  func theKernelForgetsFirst() async throws {
    try await withPlaceholder { (device, number, kernel) async throws in
      let answer = Lock<Result<Void, FetchFailure>?>(nil)
      let fetcher = device.sync.fetcher
      _ = fetcher.fetch(number, range: 0..<4096, cause: DownloadCause(.other)) { result in
        answer.withLock { $0 = result }
      }
      try await eventually("the kernel is told", within: .seconds(20)) {
        kernel.unheard.withLock { !$0.isEmpty }
      }
      // The bytes are here already.
      let inode = try device.catalog.inode(number)
      let key = ContentKey(item: inode.item, generation: inode.generation)
      #expect(device.content.existingPartial(key)?.isPresent(0..<4096) == true)
      for heard in kernel.unheard.withLock({ $0 }) { heard() }
      try await eventually("the reader is answered") { answer.withLock { $0 != nil } }
      try #require(answer.withLock { $0 }).get()
    }
  }

  @Test("a reader is answered though the kernel does not hear")
  func aDeafKernelHoldsNobodyUp() async throws {
    try await withPlaceholder { (device, number, _) async throws in
      #expect(try await device.readOpen(number) == Self.bytes)
    }
  }
}
