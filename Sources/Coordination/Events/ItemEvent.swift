package import Model

/// Something that happened to an item, as it is told to who listens.
package struct ItemEvent: Hashable, Sendable {
  package enum Kind: String, Sendable, CaseIterable {
    case created
    /// The content. Of a change through this mount: when the last who wrote has closed the file.
    case changed
    case moved
    case removed
    /// Mode, owner, times that were set, the user's attributes.
    case attributes
    /// Its content is no longer here.
    case evicted
    /// Its content is here, all of it.
    case downloaded
    case versionGained
    case versionsResolved
    /// The container was deleted on another device. What is local stays.
    case containerDeleted
    /// The listener was too slow: what came next is not told, and everything is to be looked at
    /// anew.
    case overflow
    /// Something that `status` tells of it: a transfer, whether it is uploaded. For who wants that.
    case status
    /// As `status`, of it and of all below it.
    case statusBelow
    /// The container was mounted or unmounted, or may be another in all that `status` tells. For
    /// who wants `status`.
    case container

    var isStatus: Bool { self == .status || self == .statusBelow || self == .container }
  }

  package enum Origin: String, Sendable {
    case local
    case remote
  }

  package let time: Timestamp
  package let kind: Kind
  package let container: ContainerID
  /// From the mount's directory; empty for that, and for an overflow.
  package let path: [ItemName]
  /// Of what was moved.
  package let oldPath: [ItemName]?
  package let origin: Origin
  /// The device that did it, where that is known.
  package let device: DeviceID?
  /// Which versions were gained, or are resolved.
  package let versions: [VersionID]

  package init(
    time: Timestamp, kind: Kind, container: ContainerID, path: [ItemName],
    oldPath: [ItemName]? = nil, origin: Origin = .local, device: DeviceID? = nil,
    versions: [VersionID] = []
  ) {
    self.versions = versions
    self.time = time
    self.kind = kind
    self.container = container
    self.path = path
    self.oldPath = oldPath
    self.origin = origin
    self.device = device
  }
}

/// What a listener wants to hear of: everything, or what is at or below a place of one container.
package struct EventScope: Sendable {
  package let container: ContainerID?
  package let path: [ItemName]

  package static let everything = EventScope(container: nil, path: [])

  private init(container: ContainerID?, path: [ItemName]) {
    self.container = container
    self.path = path
  }

  package init(container: ContainerID, path: [ItemName]) {
    self.init(container: .some(container), path: path)
  }

  func contains(_ event: ItemEvent) -> Bool {
    guard let container else { return true }
    return container == event.container
      && (event.path.starts(with: path) || event.oldPath?.starts(with: path) ?? false)
  }
}
