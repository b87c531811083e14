import Backend
import Platform

/// Does with each call what its script says, then works as memory does.
final class ScriptedStore: ObjectStore {
  enum Step: Sendable {
    case work
    case fail(StoreError)
    /// Until the test ends, whether cancelled or not.
    case hang
  }

  private let script: Lock<[Step]>
  private let memory = MemoryStore()
  private let called = AsyncStream<Void>.makeStream()

  private let rest: Step

  /// `rest`: what it does when the script is over.
  init(script: [Step] = [], then rest: Step = .work) {
    self.script = Lock(script.reversed())
    self.rest = rest
  }

  /// So many calls came.
  var calls: Int { count.withLock { $0 } }
  private let count = Lock(0)

  var description: String { "script" }

  func waitForCall() async {
    var calls = called.stream.makeAsyncIterator()
    await calls.next()
  }

  private func step() async throws(StoreError) {
    called.continuation.yield()
    count.withLock { $0 += 1 }
    switch script.withLock({ $0.popLast() }) ?? rest {
    case .work: return
    case .fail(let error): throw error
    case .hang:
      let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
      let waiting = Task.detached { for await _ in stream {} }
      await waiting.value
      continuation.finish()
    }
  }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await step()
    return try await memory.get(key, range: range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try await step()
    return try await memory.putIfAbsent(key, bytes)
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await step()
    try await memory.replace(key, bytes)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    try await step()
    return try await memory.list(prefix: prefix, after: after, limit: limit)
  }

  func delete(_ key: String) async throws(StoreError) {
    try await step()
    try await memory.delete(key)
  }

  func news(prefix: String) -> AsyncStream<Void> { memory.news(prefix: prefix) }
}
