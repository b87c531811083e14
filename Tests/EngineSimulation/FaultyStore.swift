import Backend

/// The cloud as one life of a device sees it: late, failing before or after it did something, and
/// at times without the newest objects.
final class FaultyStore: ObjectStore, @unchecked Sendable {
  // Unchecked: the simulation has one thread.
  private let cloud: Cloud
  private let scheduler: Scheduler
  private let name: String
  private let prefix: String
  private let owner: Int
  private let count: (String) -> Void
  private var random: SeededGenerator
  private var listeners: [(prefix: String, continuation: AsyncStream<Void>.Continuation)] = []
  var weather = Weather.fair
  /// The bytes that a put takes in a second; nil: it is as fast as the weather.
  var bytesPerSecond: Int64?
  /// How many are under way.
  private(set) var calls = 0

  /// What is younger than this may not be shown yet.
  private static let staleness: Int64 = 20_000_000_000

  init(
    _ cloud: Cloud, _ scheduler: Scheduler, name: String, prefix: String, owner: Int,
    seed: UInt64, count: @escaping (String) -> Void
  ) {
    self.prefix = prefix
    self.count = count
    self.cloud = cloud
    self.scheduler = scheduler
    self.name = name
    self.owner = owner
    random = SeededGenerator(seed: seed, stream: 1000 + UInt64(owner))
    cloud.listen(owner) { [weak self] key in self?.tell(key) }
  }

  var description: String { "simulated" }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await call("get", key) { () throws(StoreError) in
      guard let object = cloud.objects[prefix + key], !isHidden(object, hides()) else {
        throw .notFound(key)
      }
      return object.bytes(range)
    }
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    if let bytesPerSecond, StoreKey.isPack(key) {
      calls += 1
      defer { calls -= 1 }
      try? await Task.sleep(for: .seconds(Double(bytes.count) / Double(bytesPerSecond)))
      if Task.isCancelled { throw .cancelled }
    }
    let key = prefix + key
    return try await call("put \(bytes.count)", key) {
      let isFirst = cloud.putIfAbsent(key, bytes)
      // What a network repeats may come when much has happened since.
      if random.chance(weather.repeats) {
        count("store put repeated")
        let delay = Int64.random(in: 1...60_000_000_000, using: &random)
        scheduler.call(Scheduler.nobody, after: delay) { [cloud] in
          cloud.repeatPut(key, bytes)
        }
      }
      return isFirst
    }
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await call("replace", key) { cloud.store(prefix + key, bytes) }
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    try await call("list", prefix) {
      let hides = hides()
      return cloud.list(self.prefix, prefix, after: after, limit: limit) { !isHidden($0, hides) }
    }
  }

  func delete(_ key: String) async throws(StoreError) {
    try await call("delete", key) { cloud.delete(prefix + key) }
  }

  func news(prefix: String) -> AsyncStream<Void> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    listeners.append((prefix, continuation))
    return stream
  }

  // MARK: Faults

  /// From when on objects are not shown to this call.
  private func hides() -> Int64? {
    guard random.chance(weather.isStale) else { return nil }
    count("store stale")
    return scheduler.now - Int64.random(in: 0...Self.staleness, using: &random)
  }

  private func isHidden(_ object: Cloud.Object, _ since: Int64?) -> Bool {
    since.map { object.time > $0 } ?? false
  }

  private func call<Answer>(
    _ what: String, _ key: String, _ body: () throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    try StoreKey.checkPrefix(key)
    calls += 1
    defer { calls -= 1 }
    await wait()
    if weather.isDown || random.chance(weather.failsBefore) {
      scheduler.note("\(name) \(what) \(key): failed")
      count("store \(what.prefix(3)) failed")
      throw .unavailable("simulated")
    }
    let result: Result<Answer, StoreError>
    do throws(StoreError) { result = .success(try body()) } catch { result = .failure(error) }
    await wait()
    if Task.isCancelled { throw .cancelled }
    if weather.isDown || random.chance(weather.losesAnswers) {
      scheduler.note("\(name) \(what) \(key): answer lost")
      count("store \(what.prefix(3)) answer lost")
      throw .unavailable("simulated")
    }
    scheduler.note("\(name) \(what) \(key): \(Self.told(result))")
    count("store \(what.prefix(3)) answered")
    return try result.get()
  }

  private static func told(_ result: Result<some Any, StoreError>) -> String {
    switch result {
    case .success(let answer as Bool): "\(answer)"
    case .success(let keys as [String]): "\(keys.count) keys"
    case .success: "done"
    case .failure(let failure): "\(failure)"
    }
  }

  private func wait() async {
    var delay = Int64.random(in: 0...weather.longestDelay, using: &random)
    if random.chance(weather.stalls) { delay += Int64(random.number(10...90)) * 1_000_000_000 }
    try? await Task.sleep(for: .nanoseconds(delay / 2))
  }

  private func tell(_ key: String) {
    guard !weather.isDown, !random.chance(weather.losesNews) else { return }
    let delay = Int64.random(in: 0...max(1, weather.longestDelay), using: &random)
    scheduler.call(owner, after: delay) { [weak self] in
      guard let self else { return }
      for listener in listeners where key.hasPrefix(prefix + listener.prefix) {
        listener.continuation.yield()
      }
    }
  }
}
