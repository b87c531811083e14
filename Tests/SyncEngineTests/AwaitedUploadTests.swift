import Backend
import Catalog
import Model
import Platform
import RemoteStore
import SyncEngine
import TestWaiting
import Testing

/// Files that a caller waits for, and the other uploads of their lane.
@Suite(.serialized) struct AwaitedUploadTests {
  /// A device at work, whose store holds its packs.
  private func withDevice(
    settings: SyncSettings = SyncSettings(),
    _ body: (EngineDevice, PackGate) async throws -> Void
  ) async throws {
    let store = PackGate(MemoryStore())
    let device = try EngineDevice(store: store, secret: .generate(), settings: settings)
    let result: Result<Void, any Error>
    do {
      await device.sync.start()
      try await device.sync.sync(timeout: .seconds(240))
      store.hold()
      result = .success(try await body(device, store))
    } catch {
      result = .failure(error)
    }
    store.letGo()
    await device.end()
    try result.get()
  }

  private func isUploading(_ path: String, _ device: EngineDevice) throws -> Bool {
    let inode = try #require(try device.find(path))
    return try device.coordinator.status(of: inode.number).isUploading
  }

  /// A caller that waits for a file.
  private func wait(for path: String, _ device: EngineDevice) throws -> Task<Void, any Error> {
    let number = try #require(try device.find(path)).number
    return Task { try await device.sync.sync(awaiting: [number]) }
  }

  private func isUploaded(_ path: String, _ device: EngineDevice) throws -> Bool {
    try device.find(path)?.version != nil
  }

  @Test("a file that a caller waits for is uploaded before the rest of its lane")
  func anAwaitedFilePassesItsLane() async throws {
    try await withDevice { device, store in
      try device.write("Documents/first", incompressible(20 << 20))
      try await eventually("its packs are held") { store.heldOthers > 0 }
      try device.write("Documents/second", incompressible(16 << 20, seed: 2))
      try device.write("Documents/awaited", incompressible(24 << 20, seed: 3))
      let caller = try wait(for: "Documents/awaited", device)
      try await eventually("no other pack is in the store's hands") {
        store.heldAwaited > 0 && store.heldOthers == 0
      }
      store.let(through: 4)
      try await eventually("it is uploaded") { try isUploaded("Documents/awaited", device) }
      #expect(try !isUploaded("Documents/first", device))
      #expect(try !isUploaded("Documents/second", device))
      store.letGo()
      try await caller.value
      #expect(try isUploaded("Documents/first", device))
      #expect(try isUploaded("Documents/second", device))
    }
  }

  @Test("the priority of an upload ends when its caller goes away")
  func thePriorityEndsWithTheCaller() async throws {
    try await withDevice { device, store in
      try device.write("Documents/first", incompressible(20 << 20))
      try await eventually("its packs are held") { store.heldOthers > 0 }
      try device.write("Documents/awaited", incompressible(24 << 20, seed: 3))
      let caller = try wait(for: "Documents/awaited", device)
      try await eventually("the awaited file is sent alone") {
        store.heldAwaited > 0 && store.heldOthers == 0
      }
      caller.cancel()
      try await eventually("the first file is sent again") {
        store.heldAwaited == 0 && store.heldOthers > 0
      }
      store.let(through: 3)
      try await eventually("the first file is uploaded") {
        try isUploaded("Documents/first", device)
      }
      #expect(try !isUploaded("Documents/awaited", device))
      _ = await caller.result
    }
  }

  @Test("an awaited file leaves a run of many files that has not reached it")
  func anAwaitedFileLeavesItsRun() async throws {
    try await withDevice { device, store in
      device.offline.set(offline: true)
      for number in 10..<40 {
        try device.write("Documents/file\(number)", incompressible(2 << 20, seed: UInt64(number)))
      }
      try device.write("Documents/last", incompressible(3 << 20, seed: 100))
      device.offline.set(offline: false)
      try await eventually("the packs of the run are held") { store.heldOthers > 0 }
      let caller = try wait(for: "Documents/last", device)
      try await eventually("only the awaited file is sent") {
        store.heldAwaited > 0 && store.heldOthers == 0
      }
      store.let(through: 1)
      try await eventually("it is uploaded") { try isUploaded("Documents/last", device) }
      #expect(try (10..<40).allSatisfy { try !isUploaded("Documents/file\($0)", device) })
      store.letGo()
      try await caller.value
    }
  }

  @Test("a file below an awaited directory is awaited")
  func anAwaitedDirectoryMeansItsFiles() async throws {
    try await withDevice { device, store in
      try device.write("Documents/first", incompressible(20 << 20))
      try await eventually("its packs are held") { store.heldOthers > 0 }
      try device.makeDirectory("Documents/folder")
      try device.write("Documents/folder/awaited", incompressible(24 << 20, seed: 3))
      let caller = try wait(for: "Documents/folder", device)
      try await eventually("its file is sent alone") {
        store.heldAwaited > 0 && store.heldOthers == 0
      }
      store.letGo()
      try await caller.value
    }
  }

  @Test("a file that is saved again and again goes last, and first while a caller waits for it")
  func anAwaitedRestlessFileIsNotLast() async throws {
    // A run has at most two packs on their way and one more in memory: a file of four is still
    // being read when the store holds its packs.
    let size = 64 << 20
    try await withDevice { device, store in
      try device.write("Documents/restless", incompressible(size))
      try await eventually("it is sent") {
        try isUploading("Documents/restless", device) && store.heldOthers > 0
      }
      try device.write("Documents/other", incompressible(size, seed: 2))
      try device.write("Documents/restless", incompressible(size, seed: 3))
      try await eventually("then the other one is sent") {
        try isUploading("Documents/other", device) && store.heldOthers > 0
      }
      #expect(try !isUploading("Documents/restless", device))
      let caller = try wait(for: "Documents/restless", device)
      try await eventually("the restless one is sent alone") {
        try isUploading("Documents/restless", device) && store.heldAwaited > 0
          && store.heldOthers == 0
      }
      store.letGo()
      try await caller.value
    }
  }
}

/// Bytes that do not compress.
func incompressible(_ count: Int, seed: UInt64 = 11) -> [UInt8] {
  var state = seed
  var words = [UInt64](repeating: 0, count: count / 8)
  for index in words.indices {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    words[index] = state ^ state >> 29
  }
  return words.withUnsafeBytes { Array($0) }
}

/// A backend that holds packs of more than a mebibyte until it is told how many may pass.
final class PackGate: PassingStore {
  private struct State {
    var isHolding = false
    var passes = 0
    var awaited = 0
    var others = 0
  }

  let store: any ObjectStore
  private let state = Lock(State())

  init(_ store: any ObjectStore) { self.store = store }

  /// Packs that are held and that the caller of the store marked as awaited.
  var heldAwaited: Int { state.withLock { $0.awaited } }
  var heldOthers: Int { state.withLock { $0.others } }

  func hold() { state.withLock { $0.isHolding = true } }
  func letGo() { state.withLock { $0.isHolding = false } }
  func `let`(through count: Int) { state.withLock { $0.passes += count } }

  private func count(_ change: Int, isAwaited: Bool) {
    state.withLock { state in
      if isAwaited { state.awaited += change } else { state.others += change }
    }
  }

  private func wait() async throws(StoreError) {
    let isAwaited = Transfers.isAwaited
    count(1, isAwaited: isAwaited)
    defer { count(-1, isAwaited: isAwaited) }
    let deadline = Deadline("the test lets packs through", within: .seconds(600))
    while true {
      if Task.isCancelled { throw .cancelled }
      if deadline.isOver { throw .unavailable("\(deadline.timeout)") }
      let passes = state.withLock { state in
        guard state.isHolding else { return true }
        guard state.passes > 0 else { return false }
        state.passes -= 1
        return true
      }
      if passes { return }
      try? await Task.sleep(for: .milliseconds(5))
    }
  }

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    if call.kind == .put, StoreKey.isPack(call.key), call.sends > 1 << 20 { try await wait() }
    return try await body(store)
  }
}
