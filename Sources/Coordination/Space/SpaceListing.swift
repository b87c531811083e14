internal import Catalog
internal import ContentStore
internal import Model

/// What of one container's contents can be given back, and why the rest cannot.
final class SpaceListing {
  private struct Place {
    var isKept: Bool
    /// The outermost package that it is in, or is.
    var package: InodeNumber?
  }

  private struct Package {
    var bytes: UInt64 = 0
    var size: UInt64 = 0
    var files = 0
    var lastUse: Int64 = 0
    /// Something in it cannot go, so nothing does.
    var stays = false
  }

  private let coordinator: ContainerCoordinator
  private var places: [InodeNumber: Place] = [:]
  private var packages: [InodeNumber: Package] = [:]
  private(set) var candidates: [LocalSpace.Candidate] = []
  private(set) var tally = SpaceTally()

  init(_ coordinator: ContainerCoordinator) { self.coordinator = coordinator }

  func list() {
    try? coordinator.catalog.forEachHeldFile { self.add($0) }
    for partial in coordinator.content.allPartials() { add(partial.key, partial.heldBytes) }
    for (number, package) in packages {
      guard !package.stays else {
        tally.open &+= package.bytes
        continue
      }
      tally.evictable &+= package.bytes
      candidates.append(
        EvictionCandidate(
          id: SpaceItem(container: coordinator.container, number: number, isPackage: true),
          freed: package.bytes, size: package.size, files: package.files,
          lastUse: package.lastUse))
    }
  }

  /// Whether it has a name that does not sync.
  private func isLinkedOutside(_ file: HeldFile) -> Bool {
    guard file.isLinked else { return false }
    return (try? coordinator.catalog.hasExcludedName(file.number)) ?? true
  }

  private func add(_ file: HeldFile) {
    let bytes = file.bytes
    let place = place(around: file.number)
    var stays = true
    if file.isExcluded {
      tally.excluded &+= bytes
      // It belongs to no document that is sent.
      return
    } else if file.isEdited {
      tally.unsent &+= bytes
    } else if file.isOrphan || coordinator.isOpen(file.number) {
      tally.open &+= bytes
    } else if file.isPinned || place.isKept || isLinkedOutside(file) {
      tally.kept &+= bytes
    } else {
      stays = false
    }
    // Without a use that was noted, whatever the file's own times say. One in the future counts as
    // now.
    let noted = coordinator.lastUse(of: file.number)
    let lastUse =
      noted > 0
      ? noted : min(max(file.accessed, file.modified), coordinator.catalog.now).nanoseconds
    if let number = place.package {
      packages[number, default: Package()].lastUse = max(
        packages[number]?.lastUse ?? 0, lastUse)
      if stays {
        packages[number]?.stays = true
      } else {
        packages[number]?.bytes &+= bytes
        packages[number]?.size &+= file.size
        packages[number]?.files += 1
      }
    } else if !stays, bytes > 0 {
      tally.evictable &+= bytes
      add(file.number, freed: bytes, size: file.size, lastUse: lastUse)
    }
  }

  /// What is here of a content that did not come whole.
  private func add(_ key: ContentKey, _ bytes: UInt64) {
    guard bytes > 0, let number = (try? coordinator.catalog.inodeNumber(of: key.item)) ?? nil,
      let inode = try? coordinator.catalog.inode(number), inode.content == .remote,
      inode.generation == key.generation
    else { return }
    guard !coordinator.isOpen(number), !coordinator.transferState(of: number).isDownloading else {
      tally.open &+= bytes
      return
    }
    guard !inode.isPinned, !place(around: number).isKept else {
      tally.kept &+= bytes
      return
    }
    tally.evictable &+= bytes
    add(number, freed: bytes, size: bytes, lastUse: coordinator.lastUse(of: number))
  }

  private func add(_ number: InodeNumber, freed: UInt64, size: UInt64, lastUse: Int64) {
    candidates.append(
      EvictionCandidate(
        id: SpaceItem(container: coordinator.container, number: number, isPackage: false),
        freed: freed, size: size, lastUse: lastUse))
  }

  // MARK: Where it is

  private func place(around number: InodeNumber) -> Place {
    guard let parent = (try? coordinator.catalog.parent(of: number)) ?? nil else {
      return Place(isKept: false, package: nil)
    }
    return place(parent)
  }

  /// What holds for all that is in a directory. Asked once for each.
  private func place(_ directory: InodeNumber) -> Place {
    if let known = places[directory] { return known }
    var result = Place(isKept: false, package: nil)
    if let inode = try? coordinator.catalog.inode(directory) {
      result.isKept = coordinator.keeping(of: inode).isKept
      if directory != .root {
        result.package = place(around: directory).package
        if result.package == nil, (try? coordinator.isPackage(inode)) ?? false {
          result.package = directory
        }
      }
    }
    places[directory] = result
    return result
  }
}
