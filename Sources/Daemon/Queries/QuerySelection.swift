internal import ControlProtocol
internal import Model

/// Where a query looks.
struct QuerySelection: Sendable {
  struct Limit: Hashable, Sendable {
    let container: ContainerID
    let place: QueryPlace
  }

  let scopes: Set<QueryScope>
  /// Only below one of these, or one of these that is no directory; nil for everywhere.
  let limits: [Limit]?

  /// What has a longer path is no result: no program could open it by its path, and a line of the
  /// control socket has room for it.
  static let longestPath = 65_536

  private static let documents = QueryPlace("Documents".utf8)

  /// `Documents` itself is in neither scope.
  func takesIn(_ place: QueryPlace, of container: ContainerID, isDirectory: Bool = false) -> Bool {
    guard !place.isEmpty, place.count <= Self.longestPath else { return false }
    if place == Self.documents { return false }
    let scope: QueryScope = place.isAtOrBelow(Self.documents) ? .documents : .data
    guard scopes.contains(scope) else { return false }
    guard let limits else { return true }
    return limits.contains {
      $0.container == container && place.isAtOrBelow($0.place)
        && (!isDirectory || place != $0.place)
    }
  }

  /// Whether anything below may be a result.
  func mayTakeInBelow(_ place: QueryPlace, of container: ContainerID) -> Bool {
    if place.isAtOrBelow(Self.documents), !scopes.contains(.documents) { return false }
    if !place.isEmpty, !place.isAtOrBelow(Self.documents), !scopes.contains(.data) { return false }
    guard let limits else { return true }
    return limits.contains {
      $0.container == container
        && (place.isAtOrBelow($0.place) || $0.place.isAtOrBelow(place))
    }
  }

  /// Below which places results may be, none of them below another.
  func tops(of container: ContainerID) -> Set<QueryPlace> {
    guard let limits else { return [[]] }
    return Set(limits.filter { $0.container == container }.map(\.place)).withoutNested()
  }

  func mayTakeIn(_ container: ContainerID) -> Bool {
    limits?.contains { $0.container == container } ?? true
  }
}

extension Set<QueryPlace> {
  /// Whether the place is one of these or below one.
  func covers(_ place: QueryPlace) -> Bool {
    if count <= 8 { return contains { place.isAtOrBelow($0) } }
    var place = place
    while true {
      if contains(place) { return true }
      guard !place.isEmpty else { return false }
      place = place.parent
    }
  }

  func withoutNested() -> Set<QueryPlace> {
    filter { $0.isEmpty || !covers($0.parent) }
  }
}
