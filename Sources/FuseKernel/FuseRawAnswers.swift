internal import CFuse3
internal import Glibc

// Answers in the kernel's own form, where libfuse's cannot say what is to be said.

extension ubiquity_fuse_open_out {
  /// Of an open that the kernel serves from a backing file. It excludes FOPEN_KEEP_CACHE: there are
  /// no pages of the file but the backing file's own.
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

  fileprivate static func time(_ seconds: Double) -> (UInt64, UInt32) {
    let whole = max(0, seconds).rounded(.down)
    return (UInt64(whole), UInt32((max(0, seconds) - whole) * 999_999_999))
  }
}

extension fuse_attr {
  init(_ attributes: FuseAttributes) {
    self.init()
    ino = attributes.node
    size = attributes.size
    blocks = attributes.blocks
    atime = UInt64(bitPattern: Int64(attributes.accessed.tv_sec))
    mtime = UInt64(bitPattern: Int64(attributes.modified.tv_sec))
    ctime = UInt64(bitPattern: Int64(attributes.changed.tv_sec))
    atimensec = UInt32(attributes.accessed.tv_nsec)
    mtimensec = UInt32(attributes.modified.tv_nsec)
    ctimensec = UInt32(attributes.changed.tv_nsec)
    mode = attributes.mode
    nlink = UInt32(clamping: attributes.linkCount)
    uid = attributes.user
    gid = attributes.group
    rdev = UInt32(truncatingIfNeeded: attributes.device)
    blksize = 4096
  }
}

extension ubiquity_fuse_statx_out {
  init(_ attributes: FuseAttributes, timeout: Double) {
    self.init()
    (valid_seconds, valid_nanoseconds) = fuse_entry_out.time(timeout)
    stat.mask = ubiquity_statx_basic
    stat.block_size = 4096
    stat.links = UInt32(clamping: attributes.linkCount)
    stat.user = attributes.user
    stat.group = attributes.group
    stat.mode = UInt16(truncatingIfNeeded: attributes.mode)
    stat.number = attributes.node
    stat.size = attributes.size
    stat.blocks = attributes.blocks
    stat.accessed = ubiquity_fuse_sx_time(attributes.accessed)
    stat.modified = ubiquity_fuse_sx_time(attributes.modified)
    stat.changed = ubiquity_fuse_sx_time(attributes.changed)
    stat.device_major = ubiquity_device_major(attributes.device)
    stat.device_minor = ubiquity_device_minor(attributes.device)
    if let created = attributes.created {
      stat.mask |= ubiquity_statx_born
      stat.born = ubiquity_fuse_sx_time(created)
    }
  }
}

extension ubiquity_fuse_sx_time {
  fileprivate init(_ time: timespec) {
    self.init(seconds: Int64(time.tv_sec), nanoseconds: UInt32(time.tv_nsec), reserved: 0)
  }
}
