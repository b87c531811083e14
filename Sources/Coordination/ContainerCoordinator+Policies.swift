package import Catalog
package import Model
internal import Platform
package import SystemPackage

/// What is kept here whatever happens, and what comes before anybody asks for it: pins, and the
/// policies of directories.
extension ContainerCoordinator {
  /// What holds for an item by its own pin and by the directories above it.
  package struct Keeping: Hashable, Sendable {
    package var isPinned = false
    /// Of the nearest directory that has one; `inherit` where the mount decides.
    package var policy = DownloadPolicy.inherit

    package init() {}

    /// It is not evicted to make room.
    package var isKept: Bool { isPinned || policy == .downloadEagerlyAndKeepDownloaded }

    /// A newer content of another device takes the place of what is here without coming itself.
    package var givesWayUnread: Bool {
      !isPinned && policy == .downloadLazilyAndEvictOnRemoteUpdate
    }

    /// Its content is to be here before it is asked for. `isGreedy`: so the mount has it.
    package func isWanted(isGreedy: Bool) -> Bool {
      isKept || (isGreedy && policy == .inherit)
    }
  }

  package func keeping(of inode: Catalog.Inode) -> Keeping {
    var result = Keeping()
    var current = inode
    while true {
      if current.isPinned { result.isPinned = true }
      if result.policy == .inherit, current.kind == .directory { result.policy = current.policy }
      guard current.number != .root, let above = try? catalog.parent(of: current.number),
        let next = try? catalog.inode(above)
      else { return result }
      current = next
    }
  }

  /// ENOTDIR for what is no directory. What is wanted below it from now on begins to come.
  package func setPolicy(_ number: InodeNumber, _ policy: DownloadPolicy) throws(Errno) {
    try catalog.setPolicy(number, policy)
    tellStatus(below: number)
    noteEvictable()
    guard policy == .downloadEagerlyAndKeepDownloaded else { return }
    do throws(Errno) { try startWanted(number, isGreedy: false) } catch {
      // Offline: the policy holds, and the content comes when the device is online again.
      guard error == .networkDown else { throw error }
    }
  }

  /// Starts to bring what is wanted of an item, or below it, and is not here.
  package func startWanted(_ number: InodeNumber, isGreedy: Bool) throws(Errno) {
    guard let fetcher else { throw Errno.networkDown }
    func start(_ inode: Catalog.Inode) {
      guard inode.kind == .file, inode.content == .remote else { return }
      let keeping = keeping(of: inode)
      guard keeping.isWanted(isGreedy: isGreedy) else { return }
      // What is only there in case somebody opens it takes no room from what somebody has opened.
      guard keeping.isKept || hasRoom(for: inode.size) else { return }
      let cause: DownloadCause.Kind =
        keeping.isPinned ? .pin : keeping.isKept ? .policy : isGreedy ? .greedy : .other
      fetcher.fetchInBackground(inode.number, cause: DownloadCause(cause))
    }
    let inode = try catalog.inode(number)
    guard inode.kind == .directory else { return start(inode) }
    try forEachBelow(number, start)
  }

  /// Something has another place: what is kept there comes. Returns without waiting for anything.
  package func noteArrival(of inode: Catalog.Inode) {
    guard fetcher != nil, inode.kind == .directory || inode.content == .remote,
      keeping(of: inode).isKept
    else { return }
    guard inode.kind == .directory else {
      try? startWanted(inode.number, isGreedy: false)
      return
    }
    _ = startThread { try? self.startWanted(inode.number, isGreedy: false) }
  }
}
