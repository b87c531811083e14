package import Catalog
package import Model

/// Telling those who listen what happens in this container. Never with the catalog's lock held:
/// paths are asked of it.
extension ContainerCoordinator {
  /// Something that was done here to the name in the directory.
  package func tell(_ kind: ItemEvent.Kind, _ name: ItemName, in parent: InodeNumber) {
    if claims.isPresenting { present(kind, name, in: parent) }
    guard events.isActive else { return }
    post(kind, path(name, in: parent))
  }

  /// Something that was done here to the inode, whatever its name is.
  package func tell(_ kind: ItemEvent.Kind, _ number: InodeNumber) {
    if claims.isPresenting { present(kind, number) }
    guard events.isActive else { return }
    post(kind, (try? catalog.path(of: number)) ?? nil)
  }

  /// Whether anybody hears of what happens.
  package var hasListeners: Bool { events.isActive || claims.isPresenting }

  /// `status` tells something else of it now. Costs one load while nobody wants to know.
  package func tellStatus(_ number: InodeNumber) {
    guard events.isStatusActive else { return }
    post(.status, (try? catalog.path(of: number)) ?? nil)
  }

  package func tellStatus(of item: ItemID) {
    guard events.isStatusActive, let number = (try? catalog.inodeNumber(of: item)) ?? nil else {
      return
    }
    tellStatus(number)
  }

  package func tellStatus(below number: InodeNumber) {
    guard events.isStatusActive else { return }
    post(.statusBelow, (try? catalog.path(of: number)) ?? nil)
  }

  /// The container was mounted or unmounted, or anything may be another.
  package func tellContainer() {
    guard events.isStatusActive else { return }
    post(.container, [])
  }

  /// Another device deleted the container.
  package func tellDeleted(by device: DeviceID) {
    tellContainer()
    guard events.isActive else { return }
    post(.containerDeleted, [], origin: .remote, device: device)
  }

  package func tellMove(
    from name: ItemName, in parent: InodeNumber, to newName: ItemName, in newParent: InodeNumber
  ) {
    guard events.isActive else { return }
    post(.moved, path(newName, in: newParent), from: path(name, in: parent))
  }

  /// What came from other devices, and was invalidated. `device` gives who did it, if that is
  /// known.
  package func tell(_ changes: [ItemChange], by device: (ItemID) -> DeviceID?) {
    guard !changes.isEmpty else { return }
    noteRemote(changes)
    announce(changes)
    guard events.isActive else { return }
    // Of what is removed with its directory, no directory can be asked for the path any more.
    var removed: [InodeNumber: (parent: InodeNumber, name: ItemName)] = [:]
    for change in changes where change.kind == .directory && change.what == .removed {
      removed[change.number] = (change.parent, change.name)
    }
    for change in changes {
      let kind: ItemEvent.Kind
      var old: [ItemName]?
      switch change.what {
      case .created: kind = .created
      case .changed: kind = .changed
      case .moved(let parent, let name):
        kind = .moved
        old = path(name, in: parent, removed)
      case .removed: kind = .removed
      case .attributes: kind = .attributes
      }
      post(
        kind, path(change.name, in: change.parent, removed), from: old, origin: .remote,
        device: device(change.item))
    }
  }

  /// The item has other versions that wait to be resolved than it had.
  package func tellVersions(
    of item: ItemID, were old: [ContentVersion], are new: [ContentVersion], by device: DeviceID?
  ) {
    guard hasListeners, old != new, let number = (try? catalog.inodeNumber(of: item)) ?? nil else {
      return
    }
    let before = Set(old.map(\.id))
    let after = Set(new.map(\.id))
    let gained = new.map(\.id).filter { !before.contains($0) }
    let lost = old.map(\.id).filter { !after.contains($0) }
    // Marked as resolved one by one, or gone with the last that waited.
    let waited = Set(old.filter { !$0.isResolved }.map(\.id))
    let settled = new.filter { $0.isResolved && waited.contains($0.id) }.map(\.id)
    if claims.isPresenting {
      let isOver = new.allSatisfy(\.isResolved)
      presentVersions(
        of: number, gained: gained, lost: lost,
        resolved: settled + (isOver ? lost.filter(waited.contains) : []))
    }
    guard events.isActive else { return }
    let gone = lost.filter(waited.contains) + settled
    let origin: ItemEvent.Origin = device == nil ? .local : .remote
    let path = (try? catalog.path(of: number)) ?? nil
    if !gained.isEmpty {
      post(.versionGained, path, origin: origin, device: device, versions: gained)
    }
    if !gone.isEmpty {
      post(.versionsResolved, path, origin: origin, device: device, versions: gone)
    }
  }

  private func post(
    _ kind: ItemEvent.Kind, _ path: [ItemName]?, from old: [ItemName]? = nil,
    origin: ItemEvent.Origin = .local, device: DeviceID? = nil, versions: [VersionID] = []
  ) {
    guard let path else { return }
    events.post(
      ItemEvent(
        time: catalog.now, kind: kind, container: container, path: path, oldPath: old,
        origin: origin, device: device, versions: versions))
  }

  private func path(
    _ name: ItemName, in parent: InodeNumber,
    _ removed: [InodeNumber: (parent: InodeNumber, name: ItemName)] = [:]
  ) -> [ItemName]? {
    var below = [name]
    var directory = parent
    while let (above, name) = removed[directory], below.count <= removed.count {
      below.append(name)
      directory = above
    }
    return ((try? catalog.path(of: directory)) ?? nil).map { $0 + below.reversed() }
  }
}
