package import ControlProtocol
internal import Glibc
package import Platform
package import SystemPackage

/// Finds which mount a path is in, and where in it.
package enum ItemLocator {
  /// Throws `notFound` for what is in no mount of ubiquityfs, or not there.
  ///
  /// A symbolic link at the end of the path is itself the item if it stands in a mount; one that
  /// stands elsewhere is followed. Downloads nothing.
  package static func locate(_ path: PathBytes) throws(ControlError) -> ItemReference {
    let table: [MountedFileSystem]
    do { table = try MountTable.read() } catch {
      throw ControlError(.failed, "cannot read the mount table: \(error)")
    }
    var missing: Errno?
    for follows in [false, true] {
      let resolved: [UInt8]
      do throws(Errno) {
        resolved = try resolve(path.bytes, follows: follows)
      } catch {
        if error == .timedOut {
          throw ControlError(
            .timedOut,
            "\"\(path)\" does not answer; if the daemon of its mount is stopped or was killed, "
              + "unmount it and mount it again")
        }
        if error == Errno(rawValue: ENOTCONN) {
          throw ControlError(
            .failed,
            "the mount of \"\(path)\" has lost its daemon; unmount it and mount it again")
        }
        missing = error
        continue
      }
      if let found = reference(resolved, shown: path, in: table) { return found }
    }
    if let missing, missing != .noSuchFileOrDirectory, missing != .notDirectory {
      throw ControlError(
        missing == .permissionDenied ? .notPermitted : .failed,
        "cannot access \"\(path)\": \(missing)")
    }
    throw ControlError(
      .notFound,
      missing == nil
        ? "\"\(path)\" is not in a mount of ubiquityfs; list the mounts with `ubiquityfs status`"
        : "cannot access \"\(path)\": no such file or directory")
  }

  /// Where something is, or was or will be: it need not be there, nor the directories that it is
  /// in.
  package static func locateFormer(_ path: PathBytes) throws(ControlError) -> ItemReference {
    var existing = path.bytes
    var rest: [[UInt8]] = []
    while true {
      while existing.count > 1, existing.last == 0x2F { existing.removeLast() }
      do throws(ControlError) {
        var found = try locate(PathBytes(existing.isEmpty ? [0x2E] : existing))
        for name in rest.reversed() {
          found.path.bytes += (found.path.bytes.isEmpty ? [] : [0x2F]) + name
        }
        found.shown = path
        return found
      } catch {
        guard error.status == .notFound, !existing.isEmpty, existing != [0x2F] else { throw error }
        let slash = existing.lastIndex(of: 0x2F)
        rest.append(Array(existing[(slash.map { $0 + 1 } ?? 0)...]))
        existing = slash.map { $0 == 0 ? [0x2F] : Array(existing[..<$0]) } ?? []
      }
    }
  }

  package static func reference(
    _ path: [UInt8], shown: PathBytes, in table: [MountedFileSystem]
  ) -> ItemReference? {
    guard let mount = MountTable.mount(of: path, in: table),
      mount.type == MountedFileSystem.ubiquityType
    else { return nil }
    var inside = Array(path[mount.mountpoint.count...].drop { $0 == 0x2F })
    var mountpoint = mount.mountpoint
    if mount.root != [0x2F] {
      // A bind mount of a part: go to the mount itself, which the daemon knows.
      let root = Array(mount.root.drop { $0 == 0x2F })
      inside = inside.isEmpty ? root : root + [0x2F] + inside
      let whole = table.last {
        $0.device == mount.device && $0.type == mount.type && $0.root == [0x2F]
      }
      mountpoint = whole?.mountpoint ?? mountpoint
    }
    return ItemReference(
      mountpoint: PathBytes(mountpoint), path: PathBytes(inside), shown: shown)
  }

  /// The absolute path without links: of all of it, or of all but its last component.
  package static func resolve(
    _ path: [UInt8], follows: Bool, mustExist: Bool = true
  ) throws(Errno) -> [UInt8] {
    // The path may lead through a mount whose daemon does not answer.
    let found = BoundedCall.run(milliseconds: BoundedCall.patience) {
      () -> Result<[UInt8], Errno> in
      do throws(Errno) {
        return .success(try resolveUnbounded(path, follows: follows, mustExist: mustExist))
      } catch {
        return .failure(error)
      }
    }
    guard let found else { throw .timedOut }
    return try found.get()
  }

  private static func resolveUnbounded(
    _ path: [UInt8], follows: Bool, mustExist: Bool
  ) throws(Errno) -> [UInt8] {
    guard !path.isEmpty else { throw .noSuchFileOrDirectory }
    var trimmed = path
    while trimmed.count > 1, trimmed.last == 0x2F { trimmed.removeLast() }
    let slash = trimmed.lastIndex(of: 0x2F)
    let last = Array(trimmed[(slash.map { $0 + 1 } ?? 0)...])
    // A trailing slash asks for what the link points to.
    if follows || last.isEmpty || last == [0x2E] || last == [0x2E, 0x2E]
      || trimmed.count < path.count
    {
      return try realPath(trimmed)
    }
    let parent = slash.map { $0 == 0 ? [0x2F] : Array(trimmed[..<$0]) } ?? [0x2E]
    let directory = try realPath(parent)
    let full = directory == [0x2F] ? directory + last : directory + [0x2F] + last
    guard mustExist else { return full }
    var status = stat()
    let code = (full + [0]).withUnsafeBufferPointer { buffer in
      buffer.withMemoryRebound(to: CChar.self) { lstat($0.baseAddress!, &status) }
    }
    guard code == 0 else { throw Errno(rawValue: errno) }
    return full
  }

  /// The absolute path of a mount point, which is not looked at itself: the mount may be dead.
  package static func resolveLocation(_ path: [UInt8]) throws(Errno) -> [UInt8] {
    var trimmed = path
    while trimmed.count > 1, trimmed.last == 0x2F { trimmed.removeLast() }
    do throws(Errno) {
      // Where a link leads is where the kernel mounts.
      return try resolve(trimmed, follows: true)
    } catch {
      if error == .timedOut { throw error }
      return try resolve(trimmed, follows: false, mustExist: false)
    }
  }

  private static func realPath(_ path: [UInt8]) throws(Errno) -> [UInt8] {
    let resolved = (path + [0]).withUnsafeBufferPointer { buffer in
      buffer.withMemoryRebound(to: CChar.self) { realpath($0.baseAddress!, nil) }
    }
    guard let resolved else { throw Errno(rawValue: errno) }
    defer { free(resolved) }
    return Array(UnsafeRawBufferPointer(start: resolved, count: strlen(resolved)))
  }
}
