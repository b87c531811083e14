package import Platform
package import SystemPackage

/// Lets the kernel read and write content files by itself. The mount driver does it, where kernel
/// and rights allow.
///
/// **How an inode's I/O is done is one for all opens that the kernel has of it at a time**: the
/// kernel fails a cached open beside one that it serves itself, and the other way round. The first
/// open decides (`OpenContent.beginKernelOpen`): content that is here whole is the kernel's; a
/// placeholder is read through the daemon, and stays so, also when it becomes local, until all of
/// it is closed.
package protocol ContentPassthrough: Sendable {
  /// The number that names the file in the answer to an open. It may be of a read-only descriptor.
  /// An error only means that the file is to be read and written through the daemon.
  func register(_ file: OpenFile) throws(Errno) -> Int32

  /// No answer will name it any more; opens that did keep what they have.
  func unregister(_ id: Int32)
}

extension ContainerFileSystem {
  /// Nil, from the start or later: everything goes through the daemon. Opens go on as they began.
  package func setPassthrough(_ passthrough: (any ContentPassthrough)?) {
    self.passthrough.withLock { $0 = passthrough }
  }
}
