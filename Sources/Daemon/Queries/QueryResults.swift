internal import Catalog
internal import ControlProtocol
internal import Model

/// What was told to a client, as far as it takes to tell what has changed since.
struct QueryResults {
  struct Known {
    let id: UInt64
    var number: InodeNumber
    /// Of all that was told of it.
    var fingerprint: Int
    /// When it was last found.
    var pass: UInt32
  }

  private(set) var parts: [ContainerID: [QueryPlace: Known]] = [:]
  /// Where a container was mounted when it was last looked at.
  private var mountpoints: [ContainerID: [UInt8]] = [:]
  private var nextID: UInt64 = 1

  var containers: [ContainerID] { Array(parts.keys) }

  mutating func newID() -> UInt64 {
    defer { nextID += 1 }
    return nextID
  }

  mutating func noteMount(_ container: MountedContainer) {
    mountpoints[container.session.id] = container.mountpoint
  }

  func path(of place: QueryPlace, in container: ContainerID) -> PathBytes {
    PathBytes((mountpoints[container] ?? []) + [0x2F] + place)
  }

  subscript(container: ContainerID, place: QueryPlace) -> Known? {
    get { parts[container].flatMap { $0[place] } }
    set { parts[container, default: [:]][place] = newValue }
  }

  mutating func remove(_ container: ContainerID) -> [QueryPlace: Known] {
    parts.removeValue(forKey: container) ?? [:]
  }
}
