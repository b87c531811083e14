internal import CFuse3
internal import Glibc

// Answers in the kernel's own form, where libfuse's cannot say what is to be said.

extension ubiquity_fuse_open_out {
  /// Of an open that the kernel serves from a backing file. It excludes FOPEN_KEEP_CACHE: there are no
  /// pages of the file but the backing file's own.
  init(_ opened: FuseOpened) {
    self.init(
      fh: opened.handle,
      open_flags: ubiquity_fopen_passthrough | (opened.needsNoFlush ? ubiquity_fopen_noflush : 0)
        | (opened.asksForIO ? ubiquity_fopen_direct_io : 0),
      backing_id: opened.backing ?? 0)
  }
}

extension fuse_entry_out {
  init(_ entry: FuseEntry) {
    self.init()
    nodeid = entry.node
    // As in `fuse_entry_param`.
    generation = 1
    (entry_valid, entry_valid_nsec) = Self.time(entry.nameTimeout)
    (attr_valid, attr_valid_nsec) = Self.time(entry.attributeTimeout)
    attr = fuse_attr(entry.attributes)
  }

  private static func time(_ seconds: Double) -> (UInt64, UInt32) {
    let whole = max(0, seconds).rounded(.down)
    return (UInt64(whole), UInt32((max(0, seconds) - whole) * 999_999_999))
  }
}

extension fuse_attr {
  init(_ attributes: FuseAttributes) {
    let accessed = timespec(nanoseconds: attributes.accessed)
    let modified = timespec(nanoseconds: attributes.modified)
    let changed = timespec(nanoseconds: attributes.changed)
    self.init()
    ino = attributes.node
    size = attributes.size
    blocks = attributes.blocks
    atime = UInt64(bitPattern: Int64(accessed.tv_sec))
    mtime = UInt64(bitPattern: Int64(modified.tv_sec))
    ctime = UInt64(bitPattern: Int64(changed.tv_sec))
    atimensec = UInt32(accessed.tv_nsec)
    mtimensec = UInt32(modified.tv_nsec)
    ctimensec = UInt32(changed.tv_nsec)
    mode = attributes.mode
    nlink = UInt32(clamping: attributes.linkCount)
    uid = attributes.user
    gid = attributes.group
    rdev = UInt32(truncatingIfNeeded: attributes.device)
    blksize = 4096
  }
}
