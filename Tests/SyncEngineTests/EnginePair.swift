import Backend
import Platform
import RemoteStore
import SyncEngine
import Testing

/// Two devices of one account on one memory backend, until `body` ends.
func withDevices(_ body: (EngineDevice, EngineDevice) async throws -> Void) async throws {
  let store = MemoryStore()
  let secret = AccountSecret.generate()
  let first = try EngineDevice(store: store, secret: secret)
  let second = try EngineDevice(store: store, secret: secret)
  let result: Result<Void, any Error>
  do { result = .success(try await body(first, second)) } catch { result = .failure(error) }
  await first.end()
  await second.end()
  try result.get()
}

/// Each in turn, until all show the same and nothing differs.
func settle(_ devices: EngineDevice...) async throws {
  for _ in 0..<3 {
    // All suites begin at the same time, on few processors.
    for device in devices { try await device.sync.sync(timeout: .seconds(240)) }
  }
  let listings = try devices.map { try $0.listing() }
  #expect(listings.dropFirst().allSatisfy { $0 == listings[0] })
  for device in devices { #expect(try device.catalog.differing() == []) }
}

/// A store that refuses one segment.
final class OneRefusedSegment: PassingStore {
  let store: any ObjectStore
  let refuses = Lock(false)

  init(_ store: any ObjectStore) { self.store = store }

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    if call.kind == .put, call.key.contains("/log/"), refuses.withLock(\.self) {
      refuses.withLock { $0 = false }
      throw .unreachable("the segment is refused")
    }
    return try await body(store)
  }
}

/// A store that answers calls with an error, as `refusal` says.
final class CallRefusingStore: PassingStore {
  let store: any ObjectStore
  private let refusal = Lock<@Sendable (StoreCall) -> StoreError?>({ _ in nil })

  init(_ store: any ObjectStore) { self.store = store }

  /// From now on; nil for a call that is let through.
  func refuse(_ refusal: @escaping @Sendable (StoreCall) -> StoreError? = { _ in nil }) {
    self.refusal.withLock { $0 = refusal }
  }

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    if let error = refusal.withLock(\.self)(call) { throw error }
    return try await body(store)
  }
}
