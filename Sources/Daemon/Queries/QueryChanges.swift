internal import Coordination
internal import Model

/// A place in a container, as a key: the names from the container's own directory, with `/` between
/// them.
typealias QueryPlace = [UInt8]

extension QueryPlace {
  init(_ names: [ItemName]) {
    self = []
    reserveCapacity(names.reduce(0) { $0 + $1.bytes.count + 1 })
    for name in names {
      if !isEmpty { append(0x2F) }
      append(contentsOf: name.bytes)
    }
  }

  /// Whether it is that place or below it.
  func isAtOrBelow(_ other: QueryPlace) -> Bool {
    guard !other.isEmpty else { return true }
    return count >= other.count && starts(with: other)
      && (count == other.count || self[other.count] == 0x2F)
  }

  /// Empty for the container's own directory and what is in it.
  var parent: QueryPlace {
    lastIndex(of: 0x2F).map { Array(self[..<$0]) } ?? []
  }
}

/// What a query has to look at again. A place is looked at as it is then, so that it does not
/// matter how often or in which order things happened there.
struct QueryChanges: Sendable {
  struct Move: Hashable, Sendable {
    let old: QueryPlace
    let new: QueryPlace
  }

  struct Part: Sendable {
    /// That were at these alone.
    var places: Set<QueryPlace> = []
    /// And all that is or was below these.
    var trees: Set<QueryPlace> = []
    /// Of what was a directory, both with all that is and was below.
    var moves: Set<Move> = []
    /// Everything.
    var isWhole = false

    var count: Int { places.count + trees.count + moves.count }
  }

  /// With more places than this in a container all of it is looked at.
  static let limit = 10_000

  private(set) var parts: [ContainerID: Part] = [:]
  /// Every container.
  private(set) var isWhole = false

  var isEmpty: Bool { parts.isEmpty && !isWhole }

  mutating func note(_ event: ItemEvent) {
    if event.kind == .overflow {
      isWhole = true
      parts = [:]
    }
    guard !isWhole, parts[event.container]?.isWhole != true else { return }
    var part = parts.removeValue(forKey: event.container) ?? Part()
    let place = QueryPlace(event.path)
    switch event.kind {
    case .overflow: break
    case .container, .containerDeleted: part.isWhole = true
    case .statusBelow, .attributes:
      // A mark may have made it a package, or none.
      part.trees.insert(place)
    case .moved:
      let old = QueryPlace(event.oldPath ?? event.path)
      part.moves.insert(Move(old: old, new: place))
      part.places.insert(old.parent)
      part.places.insert(place.parent)
    case .created, .removed:
      part.places.insert(place)
      part.places.insert(place.parent)
    case .changed, .evicted, .downloaded, .versionGained, .versionsResolved, .status:
      part.places.insert(place)
    }
    if part.isWhole || part.count > Self.limit {
      part = Part()
      part.isWhole = true
    }
    parts[event.container] = part
  }
}
