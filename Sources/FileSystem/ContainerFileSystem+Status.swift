package import Catalog
internal import Coordination
internal import Model
internal import Platform
package import SystemPackage

extension ContainerFileSystem {
  package func status(_ number: InodeNumber) throws(Errno) -> FileStatus {
    let moment = moment
    return status(of: try inode(number), readAt: moment)
  }

  /// Changes attributes, the size first. Changing none is a chown that names neither owner nor
  /// group, or the kernel saying that a write to the file takes its privileges away. Setting a size
  /// other than 0 of a placeholder needs all of its content. `isOpen` says that the caller reached
  /// the inode through an open file, not its name.
  package func setStatus(
    _ number: InodeNumber, _ changes: StatusChanges, caller: Caller, isOpen: Bool = false
  ) throws(Errno) -> Step<FileStatus> {
    if let size = changes.size {
      let step = try resize(number, to: size, caller: caller, isOpen: isOpen)
      if case .wait(let wait) = step { return .wait(wait) }
    }
    // What was written before counts as before: it must not undo the times that are set now.
    try nodes.state(number)?.content?.look()
    var inode = try inode(number)
    var new = AttributeChanges(
      mode: changes.mode, owner: changes.owner, group: changes.group,
      accessed: time(changes.accessed), modified: time(changes.modified))
    // The kernel asks for no change at all where chown(2) names neither user nor group, and before
    // a write by one who may not keep privileges. The first is refused to who does not own the
    // file.
    let isChown = changes.owner != nil || changes.group != nil || changes.isEmpty
    if isChown, inode.kind != .directory {
      // A new owner must not get the old one's powers. Source: chown(2).
      let mode = Self.withoutPrivileges(
        new.mode ?? inode.mode, group: inode.group, caller: caller)
      if changes.isEmpty, mode != inode.mode, caller.user != 0, caller.user != inode.owner,
        !coordinator.isOpenForWriting(number)
      {
        throw Errno.notPermitted
      }
      new.mode = mode
      removeCapabilities(number)
    }
    let isResizeOnly =
      changes.size != nil && new.mode == nil && new.owner == nil && new.group == nil
      && new.accessed == nil && new.modified == nil
    if !isResizeOnly { inode = try catalog.setAttributes(number, new) }
    if let mode = changes.mode { try followMode(mode, of: number) }
    if inode.kind == .file { try noteChanged(number) }
    if !changes.isEmpty, !isResizeOnly { coordinator.tell(.attributes, number) }
    return .done(status(of: inode, readAt: moment))
  }

  private func time(_ time: StatusChanges.Time?) -> Timestamp? {
    switch time {
    case nil: nil
    case .now: now()
    case .at(let time): time
    }
  }

  /// The mode after a write or a change of owner. Set-group-ID without group execution is no
  /// privilege; only who is not in the group must not leave it behind, as the kernel has it for
  /// local file systems. Source: inode(7).
  private static func withoutPrivileges(_ mode: UInt16, group: UInt32, caller: Caller) -> UInt16 {
    var mode = mode & ~0o4000
    if mode & 0o2000 != 0, mode & 0o010 != 0 || !caller.isMember(of: group) { mode &= ~0o2000 }
    return mode
  }

  /// Takes away what a changed file must not keep.
  func dropPrivileges(_ number: InodeNumber, caller: Caller) throws(Errno) {
    guard !caller.keepsPrivileges else { return }
    let inode = try inode(number)
    guard inode.mode & 0o6000 != 0 else { return }
    let mode = Self.withoutPrivileges(inode.mode, group: inode.group, caller: caller)
    if mode != inode.mode { _ = try catalog.setAttributes(number, AttributeChanges(mode: mode)) }
  }

  func removeCapabilities(_ number: InodeNumber) {
    try? catalog.removeAttribute("security.capability", of: number)
  }

  /// truncate(2), by number.
  func resize(
    _ number: InodeNumber, to size: UInt64, caller: Caller, isOpen: Bool
  ) throws(Errno) -> Step<Void> {
    let handle = try acquire(
      number, canRead: false, canWrite: true, needsFlush: true, isOpen: isOpen,
      by: caller.process)
    defer { close(handle) }
    if size == 0 {
      try handle.content.truncateToNothing(at: now())
    } else {
      guard let file = try handle.content.writer() else { return .wait(try whole(number)) }
      let old = try file.length()
      try file.truncate(to: size)
      handle.content.noteResize(to: size, tail: MappedTail.gap(from: old, to: size))
      try handle.content.noteChange(of: file, at: now())
    }
    try dropPrivileges(number, caller: caller)
    removeCapabilities(number)
    return .done(())
  }
}
