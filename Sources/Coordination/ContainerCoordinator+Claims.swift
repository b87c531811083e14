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

/// An open for writing that claims know of before the file is open. End it once, when the file is
/// open or could not be opened, before the kernel hears of that.
package struct AnnouncedOpen: Sendable {
  fileprivate let coordinator: ContainerCoordinator
  fileprivate let number: InodeNumber
  fileprivate let process: Int32

  package func end() {
    coordinator.closed(number, forWriting: true, by: process, isAnnounced: true)
  }

  /// The program gave up, and the kernel may have forgotten the file meanwhile.
  package func abandon() {
    end()
    coordinator.reclaimIfOrphan(number)
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
      follow(number, path)
    }
  }

  /// An open for writing that `opened` was told of: claims wait for it from here on.
  package func noteWriter(_ number: InodeNumber) {
    guard claims.isActive, let path = (try? claimed(number))?.path else { return }
    follow(number, path)
  }

  func noteWriterGone(_ number: InodeNumber) {
    guard claims.isActive else { return }
    claims.follow(
      WrittenFile(top.container, number), at: nil, found: [:], name: nil, openers: counting(number))
  }

  private func follow(_ number: InodeNumber, _ path: ClaimPath) {
    var parties: [Int32: PartyID] = [:]
    var foreign: Int32?
    for thread in Set(writingProcesses(number)) {
      if let party = claims.party(of: thread) { parties[thread] = party } else { foreign = thread }
    }
    claims.follow(
      WrittenFile(top.container, number), at: path, found: parties,
      name: foreign.map(Processes.name), openers: counting(number))
  }

  private func counting(_ number: InodeNumber) -> () -> (writers: Int, threads: [Int32]) {
    {
      let openers = self.openers(number)
      return (openers.writers, openers.programs)
    }
  }

  // MARK: Opens that wait for claims

  /// A program is about to open the file for writing: other claims wait until the announcement
  /// ends. Call it before `mustWait`, so that no claim is given between that and the open.
  package func announceOpen(_ number: InodeNumber, by process: Int32) -> AnnouncedOpen {
    opened(number, forWriting: true, by: process, isAnnounced: true)
    noteWriter(number)
    return AnnouncedOpen(coordinator: self, number: number, process: process)
  }

  /// Whether a program has to wait before it opens the file, where opens wait for claims. Nil: it
  /// may open the file now. Else the wait, for `waitToOpen` or `giveUp`. No open waits for claims
  /// that programs and the sync hold for a moment.
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

  /// Calls `body` when the claims that are in the way are over, or with false when that is given
  /// up. `body` opens the file, or announces that.
  package func waitToOpen(_ wait: OpenWait, _ body: @escaping @Sendable (Bool) -> Void) -> ClaimID {
    let claims = claims
    return claims.claim([wait.access], by: wait.claimant) { id, result in
      if case .success = result { body(true) } else { body(false) }
      if wait.isNew { claims.leave(wait.claimant.party) } else { claims.release(id) }
    }
  }
}
