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
      enter(number, path, writingProcesses(number))
    }
  }

  /// An open for writing that `opened` was told of: claims wait for it from here on.
  package func noteWriter(_ number: InodeNumber, by process: Int32) {
    guard claims.isActive, let path = (try? claimed(number))?.path else { return }
    enter(number, path, process > 0 ? [process] : [])
  }

  private func enter(_ number: InodeNumber, _ path: ClaimPath, _ processes: [Int32]) {
    let file = WrittenFile(top.container, number)
    let parties = processes.map { claims.party(of: $0) }
    // One that somebody else has open too is not the party's own affair.
    let owner = parties.first.flatMap { first in parties.allSatisfy { $0 == first } ? first : nil }
    claims.entered(
      file, at: path, by: owner,
      name: processes.first.map(Processes.name) ?? "a program that has the file open")
    // It may have been closed before the claims knew.
    if !isOpenForWriting(number) { noteNoWriter(number) }
  }

  /// Whether a program may open the file now, where opens wait for claims. Nil if it may; else who is to
  /// wait for what, with `waitToOpen`. What programs and the sync do for a moment is not waited for.
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

  /// Calls `body` when the claims that are in the way are over, or with false when that is given up.
  /// `body` opens the file, which is a claim of its own then if it is for writing.
  package func waitToOpen(_ wait: OpenWait, _ body: @escaping @Sendable (Bool) -> Void) -> ClaimID {
    let claims = claims
    return claims.claim([wait.access], by: wait.claimant) { id, result in
      if case .success = result { body(true) } else { body(false) }
      if wait.isNew { claims.leave(wait.claimant.party) } else { claims.release(id) }
    }
  }

  func noteNoWriter(_ number: InodeNumber) {
    guard claims.isActive else { return }
    claims.left(WrittenFile(top.container, number))
    // A program that opened it again meanwhile found it noted.
    guard isOpenForWriting(number), let path = (try? claimed(number))?.path else { return }
    enter(number, path, writingProcesses(number))
  }
}
