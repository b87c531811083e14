package import Model

// Metadata queries over the control socket. `docs/queries.md` has what they mean.

/// Where a query looks, in every mounted container.
package enum QueryScope: String, Codable, Hashable, Sendable, CaseIterable {
  /// What is below `Documents`.
  case documents
  /// What is anywhere else.
  case data
}

package struct QueryRequest: Codable, Sendable {
  /// As `QueryPredicate` parses it.
  package var predicate: String
  package var scopes: [QueryScope]
  /// Only what is below one of these, or is one of these and no directory; everything without any.
  package var within: [ItemReference]?
  /// Goes on after what is there now was told.
  package var watch: Bool

  package init(
    predicate: String, scopes: [QueryScope], within: [ItemReference]? = nil, watch: Bool
  ) {
    self.predicate = predicate
    self.scopes = scopes
    self.within = within
    self.watch = watch
  }
}

package struct QueryReference: Codable, Sendable {
  /// A number of this connection.
  package var query: UInt64

  package init(query: UInt64) { self.query = query }
}

/// What a query tells of an item: what `items.status` does, but for names that collide, with its
/// times.
@dynamicMemberLookup
package struct QueryItem: Codable, Hashable, Sendable {
  package var path: PathBytes
  package var name: String
  package var kind: String
  package var size: UInt64
  package var created: String
  package var modified: String
  /// Its fields stand beside the others in JSON.
  package var status: ItemSyncStatus

  package init(
    path: PathBytes, name: String, kind: String, size: UInt64, created: String, modified: String,
    status: ItemSyncStatus
  ) {
    self.path = path
    self.name = name
    self.kind = kind
    self.size = size
    self.created = created
    self.modified = modified
    self.status = status
  }

  package subscript<Value>(dynamicMember member: KeyPath<ItemSyncStatus, Value>) -> Value {
    status[keyPath: member]
  }

  private enum CodingKeys: String, CodingKey { case path, name, kind, size, created, modified }

  package init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    path = try container.decode(PathBytes.self, forKey: .path)
    name = try container.decode(String.self, forKey: .name)
    kind = try container.decode(String.self, forKey: .kind)
    size = try container.decode(UInt64.self, forKey: .size)
    created = try container.decode(String.self, forKey: .created)
    modified = try container.decode(String.self, forKey: .modified)
    status = try ItemSyncStatus(from: decoder)
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(path, forKey: .path)
    try container.encode(name, forKey: .name)
    try container.encode(kind, forKey: .kind)
    try container.encode(size, forKey: .size)
    try container.encode(created, forKey: .created)
    try container.encode(modified, forKey: .modified)
    try status.encode(to: encoder)
  }
}

/// An item that fits, by the number that it has in its query: the same as long as it fits, whatever
/// its name is.
package struct QueryResult: Codable, Hashable, Sendable {
  package var id: UInt64
  package var item: QueryItem

  package init(id: UInt64, item: QueryItem) {
    self.id = id
    self.item = item
  }
}

/// What no longer fits, or is no longer there, and the last path that was told of it.
package struct QueryRemoval: Codable, Hashable, Sendable {
  package var id: UInt64
  package var path: PathBytes

  package init(id: UInt64, path: PathBytes) {
    self.id = id
    self.path = path
  }
}

/// Some of what is there now.
package struct QueryBatch: Codable, Sendable {
  package var query: UInt64
  package var items: [QueryResult]

  package init(query: UInt64, items: [QueryResult]) {
    self.query = query
    self.items = items
  }
}

/// All that is there was told.
package struct QueryGathered: Codable, Sendable {
  package var query: UInt64
  package var count: UInt64
  /// Something could not be looked at, and is missing.
  package var error: String?

  package init(query: UInt64, count: UInt64, error: String? = nil) {
    self.query = query
    self.count = count
    self.error = error
  }
}

/// What has changed since.
package struct QueryUpdate: Codable, Sendable {
  package var query: UInt64
  package var added: [QueryResult]
  package var changed: [QueryResult]
  package var removed: [QueryRemoval]

  package init(
    query: UInt64, added: [QueryResult] = [], changed: [QueryResult] = [],
    removed: [QueryRemoval] = []
  ) {
    self.query = query
    self.added = added
    self.changed = changed
    self.removed = removed
  }
}

extension Methods {
  /// Answers at once. Then `query.items` come, and `query.gathered`; with `watch`, `query.updated`
  /// from then on, until `StopQuery` or the end of the connection.
  package enum StartQuery: ControlMethod {
    package typealias Parameters = QueryRequest
    package typealias Answer = QueryReference
    package static let name = "query.start"
  }

  /// Answered whether there is such a query or not.
  package enum StopQuery: ControlMethod {
    package typealias Parameters = QueryReference
    package typealias Answer = Nothing
    package static let name = "query.stop"
  }
}

extension Notifications {
  package static let queryItems = "query.items"
  package static let queryGathered = "query.gathered"
  package static let queryUpdated = "query.updated"
}
