internal import Catalog
internal import ContentStore
internal import Coordination
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// Which files can be uploaded as they are though programs have them open for writing.
///
/// A snapshot is taken only of a file to which nothing has written for a while, that no lock
/// concerns and that nobody claims: a program in the midst of a change is never seen half done. All
/// of it is asked again after the bytes were copied.
struct QuietFiles: Sendable {
  let coordinator: ContainerCoordinator
  let claims: EngineClaims
  /// Nil: none is.
  let quiet: Duration?

  func allows(_ inode: Catalog.Inode) -> Bool {
    guard let quiet, inode.content == .local else { return false }
    coordinator.lookAtContent(inode.number)
    guard let now = try? coordinator.catalog.inode(inode.number), !now.isOrphan,
      UploadIdentity(now) == UploadIdentity(inode)
    else { return false }
    if PlantedMistake.snapshotsWrittenFiles.isPlanted { return true }
    return isOld(max(inode.changed, inode.modified), quiet) && isQuietOnDisk(inode, quiet)
      && !isClaimedOrPackaged(inode) && !isLocked(inode)
  }

  /// A copy of the content as it is now, without a name; nil if the file is in use. Blocks.
  ///
  /// `isCancelled` is asked between the pieces of the copy.
  func snapshot(
    of inode: Catalog.Inode, isCancelled: () -> Bool = { false }
  ) throws(CopyFailure) -> OpenFile? {
    guard allows(inode) else { return nil }
    if isCancelled() { throw .cancelled }
    let file: OpenFile
    let before: FileMoment
    do throws(Errno) {
      let key = ContentKey(item: inode.item, generation: inode.generation)
      file = try coordinator.content.open(key, writable: false)
      // From here on a store through a mapping moves the file's time: its pages are clean. So this
      // cannot come after the copy.
      try coordinator.content.synchronize(key, file)
      before = try FileMoment(file)
    } catch {
      throw .system(error)
    }
    guard before.size == inode.size, allows(inode) else { return nil }
    let copy = try coordinator.content.unnamedCopy(
      of: file, leaving: { coordinator.bytesToKeepFree(of: $0) }, isCancelled: isCancelled)
    if isCancelled() { throw .cancelled }
    let isSame = (try? FileMoment(file)) == before
    guard isSame || PlantedMistake.snapshotsWrittenFiles.isPlanted, allows(inode) else {
      return nil
    }
    return copy
  }

  private func isOld(_ time: Timestamp, _ quiet: Duration) -> Bool {
    let age = coordinator.catalog.now.nanoseconds(since: time)
    // A clock that was set back says nothing of how long ago that was.
    return age >= 0 && .nanoseconds(age) >= quiet
  }

  /// Pages that the kernel wrote by itself show in the file first.
  private func isQuietOnDisk(_ inode: Catalog.Inode, _ quiet: Duration) -> Bool {
    let key = ContentKey(item: inode.item, generation: inode.generation)
    guard let found = try? coordinator.content.found(key) else { return inode.size == 0 }
    return found.size == inode.size && isOld(found.modified, quiet)
  }

  private func isClaimedOrPackaged(_ inode: Catalog.Inode) -> Bool {
    guard let place = try? coordinator.claimed(inode.number), place.below.isEmpty else {
      return true
    }
    return claims.table.isTaken(ClaimAccess(place.path, .writing([])), for: claims.claimant)
  }

  private func isLocked(_ inode: Catalog.Inode) -> Bool {
    guard let locks = coordinator.fileLocks else { return true }
    return coordinator.isLocked(inode.number, locks)
  }
}

/// The fields that change when something writes to a file.
private struct FileMoment: Equatable {
  let size: UInt64
  let modified: Timestamp
  let changed: Timestamp

  init(_ file: OpenFile) throws(Errno) {
    let status = try file.status()
    size = UInt64(max(0, status.st_size))
    modified = Timestamp(status.st_mtim)
    changed = Timestamp(status.st_ctim)
  }
}
