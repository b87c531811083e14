internal import CFuse3
internal import Glibc
package import SystemPackage

/// The kinds of answers; each request has one.
package enum EmptyAnswer {}
package enum EntryAnswer {}
package enum AttributesAnswer {}
package enum ExtendedStatusAnswer {}
package enum OpenAnswer {}
package enum CreateAnswer {}
package enum LinkTargetAnswer {}
package enum DataAnswer {}
package enum WriteAnswer {}
package enum StatisticsAnswer {}
package enum DirectoryAnswer {}
package enum AttributeAnswer {}
package enum SeekAnswer {}

/// The answer to one request: given exactly once. Dropped without one, it answers EIO.
///
/// It may be given on any thread, after the handler has returned too (see `park`). Give it with no
/// lock held: the reply may drop the kernel's last reference, or start the next request.
package struct FuseReply<Answer>: ~Copyable, @unchecked Sendable {
  let request: OpaquePointer

  init(_ request: OpaquePointer) { self.request = request }

  deinit { fuse_reply_err(request, EIO) }

  /// Ends this value; the caller must answer `request`.
  consuming func take() -> OpaquePointer {
    let request = request
    discard self
    return request
  }

  package var caller: FuseCaller {
    guard let context = fuse_req_ctx(request) else { return FuseCaller(user: 0, group: 0) }
    return FuseCaller(
      user: context.pointee.uid, group: context.pointee.gid, process: context.pointee.pid,
      umask: UInt32(context.pointee.umask),
      request: FuseRequestNumber(raw: ubiquity_fuse_number(request)))
  }

  package consuming func fail(_ error: Errno) {
    fuse_reply_err(take(), error.rawValue == 0 ? EIO : error.rawValue)
  }
}

extension FuseReply {
  /// Answers with a structure of the kernel's that libfuse does not know.
  fileprivate consuming func answer<Body: BitwiseCopyable>(_ body: Body) -> Bool {
    let request = take()
    return withUnsafeBytes(of: body) { bytes in
      fuse_reply_buf(
        request, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count) == 0
    }
  }
}

extension FuseReply where Answer == EmptyAnswer {
  package consuming func done() { fuse_reply_err(take(), 0) }
}

extension FuseReply where Answer == EntryAnswer {
  package consuming func entry(_ entry: FuseEntry) {
    var parameters = fuse_entry_param(entry)
    fuse_reply_entry(take(), &parameters)
  }

  /// There is no such name, and the kernel may believe that for `timeout` seconds.
  package consuming func noEntry(timeout: Double) {
    var parameters = fuse_entry_param()
    parameters.entry_timeout = timeout
    fuse_reply_entry(take(), &parameters)
  }
}

extension FuseReply where Answer == AttributesAnswer {
  package consuming func attributes(_ attributes: FuseAttributes, timeout: Double) {
    var attributes = stat(attributes)
    fuse_reply_attr(take(), &attributes, timeout)
  }
}

extension FuseReply where Answer == ExtendedStatusAnswer {
  package consuming func attributes(_ attributes: FuseAttributes, timeout: Double) {
    _ = answer(ubiquity_fuse_statx_out(attributes, timeout: timeout))
  }
}

extension FuseReply where Answer == OpenAnswer {
  /// False when the open was given up meanwhile: there will be no release.
  package consuming func opened(_ opened: FuseOpened) -> Bool {
    if opened.backing != nil {
      return answer(ubiquity_fuse_open_out(opened))
    }
    var info = fuse_file_info(opened)
    return fuse_reply_open(take(), &info) == 0
  }
}

extension FuseReply where Answer == CreateAnswer {
  /// False when the open was given up meanwhile: there will be no release.
  package consuming func created(_ entry: FuseEntry, _ opened: FuseOpened) -> Bool {
    if opened.backing != nil {
      return answer(
        ubiquity_fuse_create_out(
          entry: fuse_entry_out(entry), open: ubiquity_fuse_open_out(opened)))
    }
    var parameters = fuse_entry_param(entry)
    var info = fuse_file_info(opened)
    return fuse_reply_create(take(), &parameters, &info) == 0
  }
}

extension FuseReply where Answer == LinkTargetAnswer {
  package consuming func target(_ bytes: [UInt8]) {
    let request = take()
    (bytes + [0]).withUnsafeBytes { buffer in
      _ = fuse_reply_readlink(request, buffer.baseAddress?.assumingMemoryBound(to: CChar.self))
    }
  }
}

extension FuseReply where Answer == DataAnswer {
  /// Answers with up to `count` bytes of the file from `offset`, spliced where that pays.
  package consuming func data(descriptor: Int32, offset: UInt64, count: Int) {
    var vector = fuse_bufvec()
    vector.count = 1
    vector.buf.size = count
    vector.buf.flags = fuse_buf_flags(FUSE_BUF_IS_FD.rawValue | FUSE_BUF_FD_SEEK.rawValue)
    vector.buf.fd = descriptor
    vector.buf.pos = off_t(offset)
    // Not FUSE_BUF_SPLICE_MOVE: the pages stay in the content file's own cache.
    fuse_reply_data(take(), &vector, fuse_buf_copy_flags(0))
  }

  package consuming func bytes(_ bytes: [UInt8]) {
    let request = take()
    bytes.withUnsafeBytes { buffer in
      _ = fuse_reply_buf(
        request, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
    }
  }
}

extension FuseReply where Answer == WriteAnswer {
  package consuming func written(_ count: Int) { fuse_reply_write(take(), count) }
}

extension FuseReply where Answer == StatisticsAnswer {
  package consuming func statistics(_ statistics: FuseStatistics) {
    var statistics = statvfs(statistics)
    fuse_reply_statfs(take(), &statistics)
  }
}

extension FuseReply where Answer == DirectoryAnswer {
  package consuming func entries(_ buffer: borrowing FuseDirectoryBuffer) {
    fuse_reply_buf(take(), buffer.start, buffer.used)
  }
}

extension FuseReply where Answer == AttributeAnswer {
  /// Answers getxattr and listxattr by their rule: `size` 0 asks for the length alone, and what
  /// does not fit is ERANGE.
  package consuming func value(_ bytes: [UInt8], size: Int) {
    if size == 0 {
      fuse_reply_xattr(take(), bytes.count)
    } else if bytes.count > size {
      fail(Errno(rawValue: ERANGE))
    } else {
      let request = take()
      bytes.withUnsafeBytes { buffer in
        _ = fuse_reply_buf(
          request, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
      }
    }
  }
}

extension FuseReply where Answer == SeekAnswer {
  package consuming func offset(_ offset: UInt64) { fuse_reply_lseek(take(), off_t(offset)) }
}

extension fuse_entry_param {
  init(_ entry: FuseEntry) {
    self.init()
    ino = entry.node
    // Node numbers are never reused, so one generation is enough.
    generation = 1
    attr = stat(entry.attributes)
    attr_timeout = entry.attributeTimeout
    entry_timeout = entry.nameTimeout
  }
}

extension fuse_file_info {
  init(_ opened: FuseOpened) {
    self.init()
    fh = opened.handle
    keep_cache = opened.keepsCache ? 1 : 0
    cache_readdir = opened.cachesEntries ? 1 : 0
    noflush = opened.needsNoFlush ? 1 : 0
    direct_io = opened.isDirect ? 1 : 0
  }
}

extension stat {
  init(_ attributes: FuseAttributes) {
    self.init()
    st_ino = ino_t(attributes.node)
    st_mode = attributes.mode
    st_nlink = nlink_t(attributes.linkCount)
    st_uid = attributes.user
    st_gid = attributes.group
    st_rdev = dev_t(attributes.device)
    st_size = off_t(clamping: attributes.size)
    st_blksize = 4096
    st_blocks = blkcnt_t(clamping: attributes.blocks)
    st_atim = attributes.accessed
    st_mtim = attributes.modified
    st_ctim = attributes.changed
  }
}

extension statvfs {
  init(_ statistics: FuseStatistics) {
    self.init()
    f_bsize = UInt(statistics.blockSize)
    f_frsize = UInt(statistics.blockSize)
    f_blocks = fsblkcnt_t(statistics.blocks)
    f_bfree = fsblkcnt_t(statistics.blocksFree)
    f_bavail = fsblkcnt_t(statistics.blocksAvailable)
    f_files = fsfilcnt_t(statistics.files)
    f_ffree = fsfilcnt_t(statistics.filesFree)
    f_favail = fsfilcnt_t(statistics.filesFree)
    f_namemax = UInt(statistics.nameLength)
  }
}
