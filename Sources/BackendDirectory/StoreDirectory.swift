internal import Backend
internal import CLinux
internal import Glibc
internal import Platform
internal import SystemPackage

/// A store's directory, open for the time of one call, so that its disk can be unmounted between
/// calls.
///
/// Paths are relative to it; the empty path is the directory itself. Below it no lookup follows a
/// symbolic link or finds anything outside: whoever may write there could lead what this program
/// writes and removes elsewhere. A lookup that meets a link fails with ELOOP. The path of the
/// directory itself may have links, since the user chose it. Source: openat2(2), RESOLVE_BENEATH
/// and RESOLVE_NO_SYMLINKS.
struct StoreDirectory {
  private let root: OpenFile

  init(path: String) throws(Errno) {
    root = try OpenFile.open(path, flags: O_RDONLY | O_DIRECTORY)
  }

  /// False when the store's disk is not mounted.
  var isStore: Bool { exists(StoreKey.reserved) || exists("format") }

  // MARK: Looking

  func open(_ path: String, flags: Int32) throws(Errno) -> OpenFile {
    if flags & O_CREAT != 0 { try FaultPoint.check("file.create") }
    let name = path.isEmpty ? "." : path
    // The kernel gives EAGAIN when a directory on the way was moved meanwhile.
    var attempts = 16
    while true {
      do throws(Errno) {
        return OpenFile(
          owning: try retrying { linux_open_beneath(root.descriptor, name, flags, 0o600) })
      } catch .resourceTemporarilyUnavailable {
        attempts -= 1
        guard attempts > 0 else { throw .resourceTemporarilyUnavailable }
      }
    }
  }

  /// Of a link itself. Nil where there is nothing.
  func status(_ path: String) throws(Errno) -> stat? {
    do throws(Errno) {
      let place = try Place(path, self)
      var result = stat()
      _ = try retrying { fstatat(place.directory, place.name, &result, AT_SYMLINK_NOFOLLOW) }
      return result
    } catch .noSuchFileOrDirectory {
      return nil
    }
  }

  func exists(_ path: String) -> Bool { (try? status(path)) ?? nil != nil }

  /// What is in a directory. Of one that is gone, nothing.
  func entries(_ path: String) throws(Errno) -> [StoreTree.Entry] {
    let file: OpenFile
    do throws(Errno) {
      file = try open(path, flags: O_RDONLY | O_DIRECTORY)
    } catch .noSuchFileOrDirectory, .notDirectory {
      return []
    }
    let descriptor = try retrying { fcntl(file.descriptor, F_DUPFD_CLOEXEC, 0) }
    guard let stream = fdopendir(descriptor) else {
      let code = Errno(rawValue: errno)
      close(descriptor)
      throw code
    }
    defer { closedir(stream) }
    var result: [StoreTree.Entry] = []
    while true {
      errno = 0
      guard let entry = readdir(stream) else {
        // A list that an error cut short would hide objects.
        guard errno == 0 else { throw Errno(rawValue: errno) }
        return result
      }
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      guard name != ".", name != ".." else { continue }
      var kind = StoreTree.Kind.other
      switch Int(entry.pointee.d_type) {
      case DT_REG: kind = .file
      case DT_DIR: kind = .directory
      case DT_LNK: kind = .link
      // No list shows a name with a dot before it, so its kind is not asked for.
      case DT_UNKNOWN where !name.hasPrefix("."):
        kind = Self.kind(try status(path.isEmpty ? name : path + "/" + name))
      default: break
      }
      result.append(StoreTree.Entry(name: name, kind: kind))
    }
  }

  private static func kind(_ status: stat?) -> StoreTree.Kind {
    switch status.map({ $0.st_mode & S_IFMT }) {
    case S_IFREG: .file
    case S_IFDIR: .directory
    case S_IFLNK: .link
    default: .other
    }
  }

  // MARK: Changing

  func makeDirectory(_ path: String) throws(Errno) {
    try FaultPoint.check("path.mkdir")
    let place = try Place(path, self)
    _ = try retrying { mkdirat(place.directory, place.name, 0o700) }
  }

  func remove(_ path: String) throws(Errno) {
    try FaultPoint.check("path.unlink")
    let place = try Place(path, self)
    _ = try retrying { unlinkat(place.directory, place.name, 0) }
  }

  func removeDirectory(_ path: String) throws(Errno) {
    try FaultPoint.check("path.rmdir")
    let place = try Place(path, self)
    _ = try retrying { unlinkat(place.directory, place.name, AT_REMOVEDIR) }
  }

  func rename(_ old: String, _ new: String) throws(Errno) {
    try FaultPoint.check("path.rename")
    let (from, to) = (try Place(old, self), try Place(new, self))
    _ = try retrying { renameat(from.directory, from.name, to.directory, to.name) }
  }

  /// EEXIST where there is something.
  func renameExclusively(_ old: String, _ new: String) throws(Errno) {
    try FaultPoint.check("path.rename")
    let (from, to) = (try Place(old, self), try Place(new, self))
    _ = try retrying {
      linux_renameat2(
        from.directory, from.name, to.directory, to.name, linux_rename_noreplace)
    }
  }

  /// A second name for a file; EEXIST where there is something.
  func link(_ old: String, _ new: String) throws(Errno) {
    try FaultPoint.check("path.link")
    let (from, to) = (try Place(old, self), try Place(new, self))
    _ = try retrying { linkat(from.directory, from.name, to.directory, to.name, 0) }
  }

  /// Makes the names in the directory that has this path durable.
  func synchronizeNames(around path: String) throws(Errno) {
    try open(Self.parent(of: path), flags: O_RDONLY | O_DIRECTORY).synchronize()
  }

  static func parent(of path: String) -> String {
    path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
  }

  /// A name, and the directory that has it, which is open.
  private struct Place {
    private let file: OpenFile
    let name: String
    var directory: Int32 { file.descriptor }

    init(_ path: String, _ store: StoreDirectory) throws(Errno) {
      let parent = StoreDirectory.parent(of: path)
      file = parent.isEmpty ? store.root : try store.open(parent, flags: O_RDONLY | O_DIRECTORY)
      name = parent.isEmpty ? path : String(path.dropFirst(parent.count + 1))
    }
  }
}
