internal import ControlProtocol
internal import Platform

/// The query was stopped, or its client is gone.
struct QueryStopped: Error {}

/// What a query sends, in lines that have room for it. A client that does not read keeps the
/// query's thread waiting and nobody else.
final class QueryOutput {
  private let query: LiveQuery
  private let connection: ClientConnection
  private var items: [QueryResult] = []
  private var update: QueryUpdate
  /// Bytes of what waits, about.
  private var size = 0
  private var lastFlush = monotonicNanoseconds()

  /// Less than a line and the outbox hold.
  private static let batchSize = 1 << 17
  /// What waits goes after this time, in nanoseconds.
  private static let patience: UInt64 = 100_000_000

  init(_ query: LiveQuery, _ connection: ClientConnection) {
    self.query = query
    self.connection = connection
    update = QueryUpdate(query: query.id)
  }

  // MARK: While it gathers

  func gathered(_ result: QueryResult) throws {
    items.append(result)
    try note(result.item.path)
  }

  func end(count: UInt64, error: String?) throws {
    try flush()
    try post(
      Notifications.queryGathered, QueryGathered(query: query.id, count: count, error: error))
  }

  // MARK: After

  func added(_ result: QueryResult) throws {
    update.added.append(result)
    try note(result.item.path)
  }

  func changed(_ result: QueryResult) throws {
    update.changed.append(result)
    try note(result.item.path)
  }

  func removed(_ removal: QueryRemoval) throws {
    update.removed.append(removal)
    try note(removal.path)
  }

  // MARK: Sending

  private func note(_ path: PathBytes) throws {
    // A path that is no text takes two digits a byte.
    size += 2 * path.bytes.count + 1000
    if size >= Self.batchSize || monotonicNanoseconds() - lastFlush > Self.patience { try flush() }
  }

  func flush() throws {
    defer { lastFlush = monotonicNanoseconds() }
    size = 0
    if !items.isEmpty {
      let batch = QueryBatch(query: query.id, items: items)
      items = []
      try post(Notifications.queryItems, batch)
    }
    if !update.added.isEmpty || !update.changed.isEmpty || !update.removed.isEmpty {
      let batch = update
      update = QueryUpdate(query: query.id)
      try post(Notifications.queryUpdated, batch)
    }
  }

  private func post(_ method: String, _ parameters: some Encodable) throws {
    var pause = 1
    while true {
      guard !query.isStopped else { throw QueryStopped() }
      if connection.notify(method, parameters) { return }
      if query.waitForStop(milliseconds: pause) { throw QueryStopped() }
      pause = min(pause * 2, 20)
    }
  }
}
