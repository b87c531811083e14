internal import ControlProtocol
internal import MetadataQueries
internal import Model
internal import Platform

/// The queries that there are.
final class QueryRegistry: Sendable {
  private struct Entry {
    let query: LiveQuery
    let connection: ObjectIdentifier
  }

  private struct State {
    var entries: [UInt64: Entry] = [:]
    var next: UInt64 = 1
  }

  private let state = Lock(State())

  private static let limit = 32

  /// Nil where the connection has as many as it may have.
  func add(_ connection: ClientConnection, _ make: (UInt64) -> LiveQuery) -> LiveQuery? {
    let owner = ObjectIdentifier(connection)
    return state.withLock { state in
      guard state.entries.values.count(where: { $0.connection == owner }) < Self.limit else {
        return nil
      }
      let query = make(state.next)
      state.entries[state.next] = Entry(query: query, connection: owner)
      state.next += 1
      return query
    }
  }

  func stop(_ id: UInt64, of connection: ClientConnection) {
    let owner = ObjectIdentifier(connection)
    let query = state.withLock { state -> LiveQuery? in
      guard let entry = state.entries[id], entry.connection == owner else { return nil }
      state.entries[id] = nil
      return entry.query
    }
    query?.stop()
  }

  func ended(_ query: LiveQuery) { _ = state.withLock { $0.entries.removeValue(forKey: query.id) } }

  func stopAll(of connection: ClientConnection) {
    let owner = ObjectIdentifier(connection)
    let queries = state.withLock { state -> [LiveQuery] in
      let ended = state.entries.values.filter { $0.connection == owner }.map(\.query)
      for query in ended { state.entries[query.id] = nil }
      return ended
    }
    for query in queries { query.stop() }
  }
}

/// Metadata queries over the control socket.
extension DaemonService {
  func addQueryMethods(_ table: inout MethodTable) {
    table.addLater(Methods.StartQuery.self) { request, connection, reply throws(ControlError) in
      try self.startQuery(request, connection, reply)
    }
    table.add(Methods.StopQuery.self) { request, connection throws(ControlError) in
      self.queries.stop(request.query, of: connection)
      return Nothing()
    }
  }

  /// Replies at once; items follow, and updates until the query is stopped or the connection ends.
  private func startQuery(
    _ request: QueryRequest, _ connection: ClientConnection, _ reply: LaterReply<QueryReference>
  ) throws(ControlError) {
    _ = try requireAccount()
    let predicate: QueryPredicate
    do throws(PredicateError) {
      predicate = try QueryPredicate(request.predicate)
    } catch {
      throw ControlError(.usage, error.description)
    }
    let scopes = request.scopes.isEmpty ? QueryScope.allCases : request.scopes
    let limits = try request.within?.map { item throws(ControlError) in try limit(item) }
    let selection = QuerySelection(scopes: Set(scopes), limits: limits)
    let matcher = PredicateMatcher(predicate)
    guard
      let query = queries.add(
        connection,
        {
          LiveQuery(id: $0, matcher: matcher, selection: selection, watches: request.watch)
        })
    else { throw ControlError(.busy, "this connection has too many queries; stop one") }
    connection.onEnd { [queries] in queries.stopAll(of: connection) }
    // Before anything is looked at: what happens from here on is looked at again.
    let subscription =
      request.watch
      ? events.subscribe(to: .everything, withStatus: true) { event in
        query.note(event)
        return true
      } : nil
    if let subscription { events.start(subscription) }
    reply.give(.success(QueryReference(query: query.id)))
    _ = startThread { [self] in
      QueryRun(query, self, connection).run()
      if let subscription { events.unsubscribe(subscription) }
      queries.ended(query)
    }
  }

  private func limit(_ item: ItemReference) throws(ControlError) -> QuerySelection.Limit {
    let session = try mounted(item.mountpoint)
    do {
      return QuerySelection.Limit(
        container: session.id,
        place: QueryPlace(
          try item.path.bytes.split(separator: 0x2F).map { try ItemName(Array($0)) }))
    } catch {
      throw ControlError(.notFound, "cannot access \"\(item.shown)\": no such file or directory")
    }
  }
}
