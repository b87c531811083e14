internal import ControlProtocol
internal import DaemonClient
internal import Foundation
internal import Platform

/// Gives what the daemon tells to the query that it is for, and starts queries anew at another
/// daemon.
final class QueryRouter: Sendable {
  static let shared = QueryRouter(Service.shared)

  private struct Weak {
    weak var query: NSMetadataQuery?
  }

  private struct State {
    /// Of the connection that there is, by the daemon's numbers.
    var routes: [UInt64: Weak] = [:]
    /// Those that are started.
    var running: [ObjectIdentifier: Weak] = [:]
    var isSetUp = false
  }

  private let service: Service
  /// A leaf.
  private let state = Lock(State())

  private init(_ service: Service) { self.service = service }

  private func setUp() {
    let mustSetUp = state.withLock { state in
      defer { state.isSetUp = true }
      return !state.isSetUp
    }
    guard mustSetUp else { return }
    service.handle(Notifications.queryItems) { [self] _, line in
      guard let batch = try? Message.parameters(QueryBatch.self, in: line) else { return }
      query(batch.query)?.received(added: batch.items)
    }
    service.handle(Notifications.queryGathered) { [self] _, line in
      guard let end = try? Message.parameters(QueryGathered.self, in: line) else { return }
      query(end.query)?.receivedEnd(error: end.error)
    }
    service.handle(Notifications.queryUpdated) { [self] _, line in
      guard let update = try? Message.parameters(QueryUpdate.self, in: line) else { return }
      query(update.query)?.received(
        added: update.added, changed: update.changed, removed: update.removed)
    }
    service.onConnect { [self] connection in
      let running = state.withLock { state in
        state.routes = [:]
        state.running = state.running.filter { $0.value.query != nil }
        return state.running.values.compactMap(\.query)
      }
      for query in running { begin(query, on: connection) }
    }
  }

  private func query(_ id: UInt64) -> NSMetadataQuery? {
    state.withLock { $0.routes[id]?.query }
  }

  /// Starts it at the daemon, which is started if none runs. May block as long as that takes.
  func start(_ query: NSMetadataQuery) {
    setUp()
    do throws(ControlError) {
      let connection = try service.connection()
      note(query)
      begin(query, on: connection)
    } catch {
      // The next daemon gets it.
      note(query)
      query.failed(error)
    }
  }

  private func note(_ query: NSMetadataQuery) {
    // It may have been stopped since it was started.
    guard query.isStarted else { return }
    state.withLock { $0.running[ObjectIdentifier(query)] = Weak(query: query) }
  }

  /// A scope may be in a container that is mounted later, as after the daemon is a new one.
  private func retry(_ query: NSMetadataQuery) {
    DispatchQueue.global().asyncAfter(deadline: .now() + Self.retryInterval) {
      [self, weak query] in
      guard let query, query.isStarted, let connection = service.existing else { return }
      let isWaiting = state.withLock { state in
        state.running[ObjectIdentifier(query)]?.query === query
          && !state.routes.values.contains { $0.query === query }
      }
      if isWaiting { begin(query, on: connection) }
    }
  }

  private static let retryInterval = 5.0

  private func begin(_ query: NSMetadataQuery, on connection: DaemonConnection) {
    let (request, run): (QueryRequest, UInt64)
    do throws(ControlError) {
      guard let made = try query.request() else { return }
      (request, run) = made
    } catch {
      query.failed(error)
      return retry(query)
    }
    // The answer comes on the connection's thread, before anything that the daemon tells of it.
    connection.call(Methods.StartQuery.self, request) { [self, weak query] result in
      switch result {
      case .success(let started):
        guard let query, query.begins(run: run) else {
          connection.call(Methods.StopQuery.self, started) { _ in }
          return
        }
        // One that was begun twice, since the daemon was another just then, has one route.
        let others = state.withLock { state in
          let others = state.routes.filter { $0.value.query === query }.map(\.key)
          for id in others { state.routes[id] = nil }
          // It was stopped meanwhile.
          guard state.running[ObjectIdentifier(query)]?.query === query else {
            return others + [started.query]
          }
          state.routes[started.query] = Weak(query: query)
          return others
        }
        for id in others {
          connection.call(Methods.StopQuery.self, QueryReference(query: id)) { _ in }
        }
      case .failure(let error): query?.failed(error)
      }
    }
  }

  func stop(_ query: NSMetadataQuery) {
    state.withLock { $0.running[ObjectIdentifier(query)] = nil }
    dropRoutes { $0 === query || $0 == nil }
  }

  /// Queries that nobody holds any more.
  func dropEnded() {
    state.withLock { state in state.running = state.running.filter { $0.value.query != nil } }
    dropRoutes { $0 == nil }
  }

  private func dropRoutes(_ isOver: (NSMetadataQuery?) -> Bool) {
    let ids = state.withLock { state in
      let ids = state.routes.filter { isOver($0.value.query) }.map(\.key)
      for id in ids { state.routes[id] = nil }
      return ids
    }
    guard let connection = service.existing else { return }
    for id in ids { connection.call(Methods.StopQuery.self, QueryReference(query: id)) { _ in } }
  }
}
