package import Catalog
package import Model
internal import Platform
package import SystemPackage

/// An item that somebody wants to claim.
package struct ClaimedItem: Hashable, Sendable {
  /// The item's place; of what is in a package, the package's.
  package let path: ClaimPath
  /// From there to the item, where it is in a package.
  package let below: [ItemName]
}

/// An open that waits for claims.
package struct OpenWait: Sendable {
  let access: ClaimAccess
  let claimant: ClaimantID
  /// The claimant is there for this alone.
  let isNew: Bool
}

/// An open for writing that claims know of already. To be ended when the file is open or could not be
/// opened, before the kernel hears of that; it ends with the object at the latest.
package final class AnnouncedOpen: Sendable {
  private let coordinator: ContainerCoordinator
  private let isOver = Lock(false)
  private let number: InodeNumber
  private let process: Int32

  fileprivate init(_ coordinator: ContainerCoordinator, _ number: InodeNumber, _ process: Int32) {
    self.coordinator = coordinator
    self.number = number
    self.process = process
    coordinator.announced(number, by: process)
    coordinator.noteWriter(number, by: process)
  }

  deinit {
    // The program gave up, and the kernel may have forgotten the file meanwhile.
    if endOnce() { coordinator.reclaimIfOrphan(number) }
  }

  package func end() { _ = endOnce() }

  private func endOnce() -> Bool {
    let wasOver = isOver.withLock { isOver in
      defer { isOver = true }
      return isOver
    }
    guard !wasOver else { return false }
    coordinator.closed(number, forWriting: true, by: process, isAnnounced: true)
    return true
  }
}

/// What claims of this container's items are: names to places and back, and files that are open.
extension ContainerCoordinator {
  /// Where the names lead. The last need not be there yet; ENOENT when another is not, ENOTDIR when
  /// another is no directory.
  package func claimed(_ names: [ItemName]) throws(Errno) -> ClaimedItem {
    var places = [top]
    var directory = InodeNumber.root
    for (index, name) in names.enumerated() {
      places.append(Place(top.container, directory, name))
      let rest = Array(names[(index + 1)...])
      guard let found = try catalog.lookup(name, in: directory) else {
        guard rest.isEmpty else { throw .noSuchFileOrDirectory }
        break
      }
      let isDocument =
        found.kind == .directory && found.item != .documents
        && (found.isPackage || packages.contains(name))
      if isDocument { return ClaimedItem(path: ClaimPath(places), below: rest) }
      guard rest.isEmpty || found.kind == .directory else { throw .notDirectory }
      directory = found.number
    }
    return ClaimedItem(path: ClaimPath(places), below: [])
  }

  /// Nil for what has no name any more.
  package func claimed(_ number: InodeNumber) throws(Errno) -> ClaimedItem? {
    guard let names = try catalog.path(of: number) else { return nil }
    return try claimed(names)
  }

  /// The names that lead to the place now; nil when the directory is gone.
  package func names(of path: ClaimPath) throws(Errno) -> [ItemName]? {
    guard let last = path.places.last, path.places.count > 1 else { return [] }
    return try catalog.path(of: last.directory).map { $0 + [last.name] }
  }

  package func owns(_ path: ClaimPath) -> Bool { path.places.first == top }

  // MARK: Evicting

  /// Whether somebody else claims the item, or, without a claimant who has asked, presents it.
  func isClaimed(_ number: InodeNumber, by claimant: ClaimantID?) -> Bool {
    guard claims.concerns(container), let path = (try? claimed(number))?.path else { return false }
    return claims.isTaken(ClaimAccess(path, .writing(.forEvicting)), for: claimant)
      || (claimant == nil && claims.isPresented(path))
  }

  // MARK: Files that are open for writing

  /// Tells the claims of the files below the paths that are open for writing. Between `looking` and
  /// `looked` of the claim table.
  package func noteWriters(around paths: [ClaimPath]) {
    for number in writers {
      guard let path = (try? claimed(number))?.path, paths.contains(where: path.meets) else {
        continue
      }
      follow(number, path, finding: writingProcesses(number))
    }
  }

  /// An open for writing that `opened` was told of: claims wait for it from here on.
  package func noteWriter(_ number: InodeNumber, by process: Int32) {
    guard claims.isActive, let path = (try? claimed(number))?.path else { return }
    // Others may have opened it while nobody claimed anything.
    follow(number, path, finding: [process] + writingProcesses(number))
  }

  func noteWriterGone(_ number: InodeNumber) {
    guard claims.isActive else { return }
    follow(number, nil, finding: [])
  }

  private func follow(_ number: InodeNumber, _ path: ClaimPath?, finding threads: [Int32]) {
    let threads = threads.filter { $0 > 0 }
    var parties: [Int32: PartyID] = [:]
    for thread in threads { parties[thread] = claims.party(of: thread) }
    claims.follow(
      WrittenFile(top.container, number), at: path, found: parties,
      name: threads.first.map(Processes.name)
    ) {
      let openers = openers(number)
      return (openers.writers, openers.programs)
    }
  }

  // MARK: Opens that wait for claims

  /// A program is about to open the file for writing: others' claims wait until what this gives has
  /// ended. Call it before `mustWait`, so that no claim is given between that and the open.
  package func announceOpen(_ number: InodeNumber, by process: Int32) -> AnnouncedOpen {
    AnnouncedOpen(self, number, process)
  }

  /// Whether a program may open the file now, where opens wait for claims. Nil if it may; else who is to
  /// wait for what: for `waitToOpen` or `giveUp`. What programs and the sync do for a moment is not waited for.
  package func mustWait(
    toOpen number: InodeNumber, forWriting: Bool, by process: Int32
  ) -> OpenWait? {
    guard claims.isActive, let path = (try? claimed(number))?.path else { return nil }
    let access = ClaimAccess(
      path, forWriting ? .writing([]) : .reading(.immediatelyAvailableMetadataOnly))
    return claims.claimantToWait(
      access, of: claims.parties(of: process), name: Processes.name(of: process)
    ).map { OpenWait(access: access, claimant: $0.claimant, isNew: $0.isNew) }
  }

  /// The program does not wait.
  package func giveUp(_ wait: OpenWait) {
    if wait.isNew { claims.leave(wait.claimant.party) }
  }

  /// Calls `body` when the claims that are in the way are over, or with false when that is given up.
  /// `body` opens the file, or announces that.
  package func waitToOpen(_ wait: OpenWait, _ body: @escaping @Sendable (Bool) -> Void) -> ClaimID {
    let claims = claims
    return claims.claim([wait.access], by: wait.claimant) { id, result in
      if case .success = result { body(true) } else { body(false) }
      if wait.isNew { claims.leave(wait.claimant.party) } else { claims.release(id) }
    }
  }
}
