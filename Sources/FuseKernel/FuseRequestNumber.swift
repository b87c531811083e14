internal import CFuse3

/// What the kernel calls a request: no other of the connection has the number.
package struct FuseRequestNumber: Hashable, Sendable {
  /// The same when the request is sent again to another daemon; never 0 but where it is not known.
  package let value: UInt64
  /// A daemon that died, or was replaced, had read it before, and may have done it.
  package let isResent: Bool

  init(raw: UInt64) {
    value = raw & ~ubiquity_fuse_resent
    isResent = raw & ubiquity_fuse_resent != 0
  }

  package init() { self.init(raw: 0) }
}
