internal import CFuse3

/// What a session wants of the kernel that libfuse 3.14 cannot ask for. It goes into the one INIT
/// reply as that passes (`init.h` of CFuse3); what the kernel does not offer is left out.
package struct FuseWishes: Sendable {
  /// Lets the kernel read and write backing files itself.
  package struct Passthrough: Hashable, Sendable {
    /// How deep file systems may be stacked, this one included: 1, or 2 where the backing files are
    /// on one that is stacked itself. With 2 nothing can be stacked on this mount.
    package var stackDepth: UInt32

    package init(stackDepth: UInt32) { self.stackDepth = stackDepth }
  }

  package var passthrough: Passthrough?
  /// Processors are kept busy for moments, so that requests which come one after the other are not
  /// held up by their going to sleep.
  package var isEager: Bool

  package init(passthrough: Passthrough? = nil, isEager: Bool = true) {
    self.passthrough = passthrough
    self.isEager = isEager
  }

  var encoded: ubiquity_fuse_wishes {
    // HANDLE_KILLPRIV_V2: we drop set-uid and set-gid bits on writes; otherwise the kernel asks for
    // `security.capability` before every single write.
    var result = ubiquity_fuse_wishes(flags: ubiquity_fuse_handle_killpriv_v2, max_stack_depth: 0)
    if let passthrough {
      // Without DIRECT_IO_ALLOW_MMAP a file that was opened for direct I/O cannot be mapped shared.
      result.flags |= ubiquity_fuse_passthrough | ubiquity_fuse_direct_io_allow_mmap
      result.max_stack_depth = passthrough.stackDepth
    }
    return result
  }
}

/// What the kernel agreed to of a session's wishes.
package struct FuseGrants: Sendable {
  package let passthrough: Bool

  init(_ flags: UInt64) {
    passthrough = flags & ubiquity_fuse_passthrough != 0
  }
}
