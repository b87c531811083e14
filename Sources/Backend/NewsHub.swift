internal import Platform

/// Hands hints on to any number of listeners. A listener that is slow gets one hint for many.
package final class NewsHub: Sendable {
  private struct State {
    var next = 0
    var listeners: [Int: (prefix: String, continuation: AsyncStream<Void>.Continuation)] = [:]
  }

  private let state = Lock(State())

  package init() {}

  package func listen(prefix: String = "") -> AsyncStream<Void> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let id = state.withLock { state in
      state.next += 1
      state.listeners[state.next] = (prefix, continuation)
      return state.next
    }
    continuation.onTermination = { [weak self] _ in
      self?.state.withLock { _ = $0.listeners.removeValue(forKey: id) }
    }
    return stream
  }

  /// Tells those whose prefix `key` starts with; without a key, all.
  package func tell(_ key: String? = nil) {
    // Outside the lock: a continuation may run its termination handler, which takes it.
    let told = state.withLock { state in
      state.listeners.values.filter { key?.hasPrefix($0.prefix) ?? true }.map(\.continuation)
    }
    for continuation in told { continuation.yield() }
  }
}
