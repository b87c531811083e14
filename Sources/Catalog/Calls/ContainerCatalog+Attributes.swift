package import Model
package import SystemPackage

/// Attributes of inodes, POSIX's and the user's.
extension ContainerCatalog {
  /// Gives the inode after. Its change time is now.
  package func setAttributes(_ number: InodeNumber, _ changes: AttributeChanges) throws(Errno)
    -> Inode
  {
    try change { try $0.setAttributes(number, changes) }
  }

  /// The value of a user's attribute by its full name. ENODATA when there is none.
  package func attribute(_ name: String, of number: InodeNumber) throws(Errno) -> [UInt8] {
    try run { engine in
      _ = try engine.inode(number)
      guard let value = try engine.attribute(number, name) else { throw Errno.noData }
      return value
    }
  }

  /// `request` as in the calls of names.
  package func setAttribute(
    _ name: String, of number: InodeNumber, to value: [UInt8], mode: AttributeMode,
    request: UInt64 = 0
  ) throws(Errno) {
    flushAhead()
    _ = try change(for: request, telling: \.self) { engine in
      try engine.requireRoom()
      try engine.setAttribute(number, name, value, mode)
      return number
    }
  }

  /// The initial access list of a directory. Nearly free where no directory ever had one.
  package func initialAccessList(of number: InodeNumber) throws(Errno) -> [UInt8]? {
    try optional { engine in
      guard engine.hasInitialLists else { return nil }
      return try engine.attribute(number, AccessControlList.initial)
    }
  }

  /// Full names, sorted.
  package func attributeNames(of number: InodeNumber) throws(Errno) -> [String] {
    try run { engine in
      _ = try engine.inode(number)
      return try engine.attributes(number).map(\.name)
    }
  }

  /// ENODATA when there is none.
  package func removeAttribute(
    _ name: String, of number: InodeNumber, request: UInt64 = 0
  ) throws(Errno) {
    _ = try change(for: request, telling: \.self) { engine in
      try engine.removeAttribute(number, name)
      return number
    }
  }

  /// Marks a directory as a package or not. ENOTDIR for what is none.
  package func setPackage(_ number: InodeNumber, _ isPackage: Bool) throws(Errno) {
    try change { engine in
      var inode = try engine.inode(number)
      guard inode.kind == .directory else { throw Errno.notDirectory }
      guard inode.isPackage != isPackage else { return }
      inode.isPackage = isPackage
      inode.changed = engine.now
      try engine.store(inode)
      engine.mark(inode)
    }
  }

  /// What becomes of content below a directory: this device's own, as pins are. ENOTDIR for what is
  /// none.
  package func setPolicy(_ number: InodeNumber, _ policy: DownloadPolicy) throws(Errno) {
    try change { engine in
      var inode = try engine.inode(number)
      guard inode.kind == .directory else { throw Errno.notDirectory }
      guard inode.policy != policy else { return }
      inode.policy = policy
      inode.changed = engine.now
      try engine.store(inode)
    }
  }

  /// Pins are this device's own: no other hears of them.
  package func setPinned(_ number: InodeNumber, _ isPinned: Bool) throws(Errno) {
    try change { engine in
      var inode = try engine.inode(number)
      guard inode.isPinned != isPinned else { return }
      inode.isPinned = isPinned
      inode.changed = engine.now
      try engine.store(inode)
    }
  }
}
