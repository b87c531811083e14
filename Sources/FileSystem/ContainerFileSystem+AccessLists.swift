internal import Catalog
internal import Model
internal import SystemPackage

/// POSIX access control lists. The kernel checks them; here they are kept in step with the mode,
/// and given to what is made in a directory that has an initial list. Source: acl(5).
extension ContainerFileSystem {
  /// The access lists of a new item.
  struct InitialAccess {
    var mode: UInt16
    var access: AccessControlList?
    /// A new directory hands it on.
    var initial: AccessControlList?

    var hasLists: Bool { access != nil || initial != nil }
  }

  /// `umask` holds only where the directory has no initial list.
  func initialAccess(
    of kind: ItemKind, mode: UInt16, umask: UInt16, in parent: InodeNumber
  ) throws(Errno) -> InitialAccess {
    guard kind != .symbolicLink else { return InitialAccess(mode: mode) }
    guard let bytes = try catalog.initialAccessList(of: parent),
      let initial = try? AccessControlList(decoding: bytes)
    else { return InitialAccess(mode: mode & ~umask) }
    let (list, mode) = initial.inherited(mode: mode)
    return InitialAccess(
      mode: mode, access: list.isMinimal ? nil : list,
      initial: kind == .directory ? initial : nil)
  }

  /// To be called right after an item was made with the mode of `access`.
  func storeInitialAccess(_ access: InitialAccess, of number: InodeNumber) throws(Errno) {
    for (name, list) in [
      (AccessControlList.access, access.access), (AccessControlList.initial, access.initial),
    ] {
      guard let list else { continue }
      try catalog.setAttribute(name, of: number, to: list.encoded, mode: .createOrReplace)
    }
  }

  /// setxattr(2). A list of which the mode says all is stored as the mode alone.
  func setAccessList(
    _ name: String, _ value: [UInt8], of number: InodeNumber, caller: Caller
  ) throws(Errno) {
    let inode = try inode(number)
    guard inode.kind != .symbolicLink else { throw Errno.notSupported }
    let list: AccessControlList?
    do throws(AccessControlList.Invalid) { list = try AccessControlList(decoding: value) } catch {
      throw Errno.invalidArgument
    }
    guard let list else { return try removeAccessList(name, of: number) }
    guard name == AccessControlList.access else {
      guard inode.kind == .directory else { throw Errno.permissionDenied }
      return try storeAccessList(name, list, of: number)
    }
    if list.isMinimal {
      try removeAccessList(name, of: number)
    } else {
      try storeAccessList(name, list, of: number)
    }
    var mode = list.mode(over: inode.mode)
    if !caller.isMember(of: inode.group) { mode &= ~0o2000 }
    if mode != inode.mode { _ = try catalog.setAttributes(number, AttributeChanges(mode: mode)) }
    try noteChanged(number)
    coordinator.tell(.attributes, number)
  }

  private func storeAccessList(
    _ name: String, _ list: AccessControlList, of number: InodeNumber
  ) throws(Errno) {
    try catalog.setAttribute(name, of: number, to: list.encoded, mode: .createOrReplace)
    try noteChanged(number)
    coordinator.tell(.attributes, number)
  }

  /// Removing a list that is not there is no error, as on ext4.
  func removeAccessList(_ name: String, of number: InodeNumber) throws(Errno) {
    do throws(Errno) {
      try catalog.removeAttribute(name, of: number)
    } catch .noData {
      return
    }
    try noteChanged(number)
    coordinator.tell(.attributes, number)
  }

  /// After chmod(2).
  func followMode(_ mode: UInt16, of number: InodeNumber) throws(Errno) {
    let value: [UInt8]
    do throws(Errno) {
      value = try catalog.attribute(AccessControlList.access, of: number)
    } catch .noData {
      return
    }
    guard var list = try? AccessControlList(decoding: value) else { return }
    list.follow(mode: mode)
    guard list.encoded != value else { return }
    try catalog.setAttribute(
      AccessControlList.access, of: number, to: list.encoded, mode: .replace)
  }
}
