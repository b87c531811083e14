internal import CFuse3
internal import Glibc
internal import Platform

/// The C callbacks: each decodes its arguments and calls the handler.
///
/// They are formed here, in nonisolated library code: closures written at the top level of a
/// program would be isolated to the main actor and trap on the session's threads.
enum FuseOperations {
  static func make() -> fuse_lowlevel_ops {
    var operations = fuse_lowlevel_ops()
    addSession(&operations)
    addNames(&operations)
    addFiles(&operations)
    addDirectories(&operations)
    addAttributes(&operations)
    return operations
  }

  private static func addSession(_ operations: inout fuse_lowlevel_ops) {
    operations.`init` = { data, connection in
      guard let connection else { return }
      FuseCapabilities.negotiate(&connection.pointee)
      let agreed = connection.pointee
      let context = FuseContext.of(userData: data)
      context.connection.withLock {
        $0 = FuseConnection(
          protocolMajor: agreed.proto_major, protocolMinor: agreed.proto_minor,
          maximumWrite: agreed.max_write, maximumReadAhead: agreed.max_readahead,
          granted: FuseContext.grants(userData: data))
      }
    }
    operations.statfs = { request, node in
      FuseContext.call(request) { $0.statistics(node: node, reply: FuseReply($1)) }
    }
  }

  private static func addNames(_ operations: inout fuse_lowlevel_ops) {
    operations.lookup = { request, parent, name in
      FuseContext.call(request) {
        $0.lookup(parent: parent, name: bytes(name), reply: FuseReply($1))
      }
    }
    operations.forget = { request, node, count in
      FuseContext.call(request) { handler, request in
        handler.forget(node: node, count: count)
        fuse_reply_none(request)
      }
    }
    operations.forget_multi = { request, count, forgets in
      FuseContext.call(request) { handler, request in
        for forget in UnsafeBufferPointer(start: forgets, count: count) {
          handler.forget(node: forget.ino, count: forget.nlookup)
        }
        fuse_reply_none(request)
      }
    }
    operations.readlink = { request, node in
      FuseContext.call(request) { $0.readLink(node: node, reply: FuseReply($1)) }
    }
    operations.mknod = { request, parent, name, mode, device in
      FuseContext.call(request) {
        $0.makeNode(
          parent: parent, name: bytes(name), mode: mode, device: UInt64(device),
          reply: FuseReply($1))
      }
    }
    operations.mkdir = { request, parent, name, mode in
      FuseContext.call(request) {
        $0.makeDirectory(parent: parent, name: bytes(name), mode: mode, reply: FuseReply($1))
      }
    }
    operations.symlink = { request, target, parent, name in
      FuseContext.call(request) {
        $0.makeSymbolicLink(
          parent: parent, name: bytes(name), target: bytes(target), reply: FuseReply($1))
      }
    }
    operations.link = { request, node, parent, name in
      FuseContext.call(request) {
        $0.link(node: node, newParent: parent, newName: bytes(name), reply: FuseReply($1))
      }
    }
    operations.unlink = { request, parent, name in
      FuseContext.call(request) {
        $0.remove(parent: parent, name: bytes(name), directory: false, reply: FuseReply($1))
      }
    }
    operations.rmdir = { request, parent, name in
      FuseContext.call(request) {
        $0.remove(parent: parent, name: bytes(name), directory: true, reply: FuseReply($1))
      }
    }
    operations.rename = { request, parent, name, newParent, newName, flags in
      FuseContext.call(request) {
        $0.rename(
          parent: parent, name: bytes(name), newParent: newParent, newName: bytes(newName),
          flags: flags, reply: FuseReply($1))
      }
    }
  }

  private static func addFiles(_ operations: inout fuse_lowlevel_ops) {
    operations.create = { request, parent, name, mode, info in
      FuseContext.call(request) { handler, request in
        let name = bytes(name)
        let flags = info?.pointee.flags ?? 0
        // Was FUSE_TMPFILE: see `ubiquity_fuse_translate`.
        if name == [0x2F] {
          handler.createUnnamed(
            parent: parent, mode: mode, flags: flags, reply: FuseReply(request))
        } else {
          handler.create(
            parent: parent, name: name, mode: mode, flags: flags, reply: FuseReply(request))
        }
      }
    }
    operations.open = { request, node, info in
      FuseContext.call(request) {
        $0.open(node: node, flags: info?.pointee.flags ?? 0, reply: FuseReply($1))
      }
    }
    operations.read = { request, node, size, offset, info in
      FuseContext.call(request) {
        $0.read(
          node: node, handle: info?.pointee.fh ?? 0, offset: UInt64(offset), count: size,
          reply: FuseReply($1))
      }
    }
    operations.write_buf = { request, node, vector, offset, info in
      FuseContext.callWrite(request) { handler, request in
        guard let vector else {
          fuse_reply_err(request, EIO)
          return
        }
        handler.write(
          node: node, handle: info?.pointee.fh ?? 0, offset: UInt64(offset),
          data: FuseWriteData(vector), isFromCache: info?.pointee.writepage ?? 0 != 0,
          reply: FuseReply(request))
      }
    }
    operations.flush = { request, node, info in
      FuseContext.call(request) {
        $0.flush(node: node, handle: info?.pointee.fh ?? 0, reply: FuseReply($1))
      }
    }
    operations.release = { request, node, info in
      FuseContext.call(request) {
        $0.release(node: node, handle: info?.pointee.fh ?? 0, reply: FuseReply($1))
      }
    }
    operations.fsync = { request, node, dataOnly, info in
      FuseContext.call(request) {
        $0.synchronize(
          node: node, handle: info?.pointee.fh ?? 0, dataOnly: dataOnly != 0,
          reply: FuseReply($1))
      }
    }
    operations.fallocate = { request, node, mode, offset, length, info in
      FuseContext.call(request) {
        $0.allocate(
          node: node, handle: info?.pointee.fh ?? 0, mode: mode, offset: UInt64(offset),
          length: UInt64(length), reply: FuseReply($1))
      }
    }
    operations.lseek = { request, node, offset, whence, info in
      FuseContext.call(request) {
        $0.seek(
          node: node, handle: info?.pointee.fh ?? 0, offset: Int64(offset), whence: whence,
          reply: FuseReply($1))
      }
    }
    operations.copy_file_range = {
      request, _, offset, info, newNode, newOffset, newInfo, count, flags in
      FuseContext.call(request) {
        $0.copyRange(
          from: info?.pointee.fh ?? 0, at: UInt64(offset), to: newInfo?.pointee.fh ?? 0,
          of: newNode, at: UInt64(newOffset), count: count, flags: flags, reply: FuseReply($1))
      }
    }
  }

  private static func addDirectories(_ operations: inout fuse_lowlevel_ops) {
    operations.opendir = { request, node, _ in
      FuseContext.call(request) { $0.openDirectory(node: node, reply: FuseReply($1)) }
    }
    operations.readdir = { request, node, size, offset, info in
      FuseContext.call(request) {
        $0.readDirectory(
          node: node, handle: info?.pointee.fh ?? 0, offset: UInt64(bitPattern: Int64(offset)),
          size: size, withEntries: false, reply: FuseReply($1))
      }
    }
    operations.readdirplus = { request, node, size, offset, info in
      FuseContext.call(request) {
        $0.readDirectory(
          node: node, handle: info?.pointee.fh ?? 0, offset: UInt64(bitPattern: Int64(offset)),
          size: size, withEntries: true, reply: FuseReply($1))
      }
    }
    operations.releasedir = { request, node, info in
      FuseContext.call(request) {
        $0.releaseDirectory(node: node, handle: info?.pointee.fh ?? 0, reply: FuseReply($1))
      }
    }
    operations.fsyncdir = { request, node, _, _ in
      FuseContext.call(request) { $0.synchronizeDirectory(node: node, reply: FuseReply($1)) }
    }
  }

  private static func addAttributes(_ operations: inout fuse_lowlevel_ops) {
    operations.getattr = { request, node, info in
      FuseContext.call(request) {
        $0.attributes(node: node, handle: info?.pointee.fh, reply: FuseReply($1))
      }
    }
    // Was FUSE_STATX: see `ubiquity_fuse_translate`.
    operations.bmap = { request, node, _, _ in
      FuseContext.call(request) {
        $0.extendedStatus(node: node, reply: FuseReply($1))
      }
    }
    operations.setattr = { request, node, attributes, valid, info in
      FuseContext.call(request) { handler, request in
        guard let attributes else {
          fuse_reply_err(request, EIO)
          return
        }
        handler.setAttributes(
          node: node, handle: info?.pointee.fh,
          changes: FuseAttributeChanges(attributes.pointee, valid: valid),
          reply: FuseReply(request))
      }
    }
    operations.setxattr = { request, node, name, value, size, flags in
      FuseContext.call(request) {
        let value = [UInt8](UnsafeRawBufferPointer(start: value, count: size))
        $0.setAttribute(
          node: node, name: bytes(name), value: value, flags: flags, reply: FuseReply($1))
      }
    }
    operations.getxattr = { request, node, name, size in
      FuseContext.call(request) {
        $0.attribute(node: node, name: bytes(name), size: size, reply: FuseReply($1))
      }
    }
    operations.listxattr = { request, node, size in
      FuseContext.call(request) {
        $0.attributeNames(node: node, size: size, reply: FuseReply($1))
      }
    }
    operations.removexattr = { request, node, name in
      FuseContext.call(request) {
        $0.removeAttribute(node: node, name: bytes(name), reply: FuseReply($1))
      }
    }
  }
}

/// A free function: a C callback cannot capture the type that a static one is called on.
private func bytes(_ text: UnsafePointer<CChar>?) -> [UInt8] {
  guard let text else { return [] }
  return [UInt8](UnsafeRawBufferPointer(start: text, count: strlen(text)))
}

extension FuseAttributeChanges {
  init(_ attributes: stat, valid: Int32) {
    func has(_ flag: Int32) -> Bool { valid & flag != 0 }
    mode = has(FUSE_SET_ATTR_MODE) ? attributes.st_mode : nil
    user = has(FUSE_SET_ATTR_UID) ? attributes.st_uid : nil
    group = has(FUSE_SET_ATTR_GID) ? attributes.st_gid : nil
    size = has(FUSE_SET_ATTR_SIZE) ? Int64(attributes.st_size) : nil
    if has(FUSE_SET_ATTR_ATIME_NOW) {
      accessed = .now
    } else if has(FUSE_SET_ATTR_ATIME) {
      accessed = .at(attributes.st_atim)
    }
    if has(FUSE_SET_ATTR_MTIME_NOW) {
      modified = .now
    } else if has(FUSE_SET_ATTR_MTIME) {
      modified = .at(attributes.st_mtim)
    }
  }
}
