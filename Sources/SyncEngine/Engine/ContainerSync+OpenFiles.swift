internal import Catalog
internal import Coordination
internal import Model
internal import Platform
internal import SystemPackage

/// Files that programs keep open: which of them sync waits for.
extension ContainerSync {
  private static let mostListed = 100

  /// Changed files whose content waits for a close, or for a pause that is long enough.
  package nonisolated func filesWaitingForClose() -> [OpenFileWait] {
    var result: [OpenFileWait] = []
    for number in coordinator.writers where result.count < Self.mostListed {
      guard let inode = try? coordinator.catalog.inode(number), inode.version == nil,
        !inode.isExcluded, !inode.isOrphan, let names = try? coordinator.catalog.path(of: number)
      else { continue }
      result.append(
        OpenFileWait(
          number: number, path: names.map(\.description).joined(separator: "/"),
          programs: coordinator.writingPrograms(number), reason: transfers.diskError(number)))
    }
    return result
  }

  func openFiles() -> [OpenFileWait] {
    filesWaitingForClose().filter { wait in
      (try? coordinator.catalog.inode(wait.number)).map { !isSnapshotCurrent($0) } ?? false
    }
  }

  /// Whether the name of a new file that is open may go before its content. The journal of a
  /// database that is in use stays: another device could not read the database beside a journal
  /// without content.
  func mayAnnounce(_ number: InodeNumber, _ locks: FileLocks?) -> Bool {
    locks.map { !coordinator.isLocked(number, $0) } ?? false
  }

  /// Whether the log has the contents of all of these though programs have them open.
  func areSnapshotsCurrent(_ items: some Sequence<ItemID>) throws(Errno) -> Bool {
    for id in items {
      guard let number = try coordinator.catalog.inodeNumber(of: id),
        isSnapshotCurrent(try coordinator.catalog.inode(number))
      else { return false }
    }
    return true
  }

  /// The message for a caller whose deadline has passed.
  package static func lateText(_ files: [OpenFileWait]) -> String {
    let shown = files.prefix(3).map(\.text)
    guard !shown.isEmpty else {
      return "not everything is in sync yet; show pending changes with `ubiquityfs status`"
    }
    let rest = files.count > shown.count ? "; and \(files.count - shown.count) more" : ""
    return """
      not everything is in sync yet: the sync waits for \(shown.joined(separator: "; "))\(rest); \
      close these files, or show pending changes with `ubiquityfs status`
      """
  }

  /// Looks at files that are open for writing now and then: the kernel tells of no write that it
  /// does by itself.
  func watchOpenFiles() async {
    guard let quiet = settings.snapshotQuiet else { return }
    let pause = max(.milliseconds(100), min(.seconds(15), quiet / 4))
    while !Task.isCancelled {
      try? await Task.sleep(for: pause)
      for number in coordinator.writers { coordinator.lookAtContent(number) }
    }
  }
}
