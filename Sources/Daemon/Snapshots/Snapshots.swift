internal import Catalog
internal import ContentStore
internal import Coordination
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// Copies of items that stay as they are, for claims `forUploading`: a file as it is, a directory
/// as an archive.
///
/// They lie outside of all mounts, the owner's alone, each in a directory of its own, and are gone
/// with the claim or the connection, at the latest when the next daemon starts. Source:
/// NSFileCoordinator.ReadingOptions, forUploading.
final class Snapshots: Sendable {
  private let directory: String
  private let last = Lock(0)

  init(_ state: StateDirectory) { directory = state.path + "/snapshots" }

  /// What a daemon that was killed left.
  func sweep() { try? Files.removeTree(directory) }

  func remove(_ snapshot: String) { try? Files.removeTree(snapshot) }

  /// Copies what is at the names; content that is not here must have been fetched. Gives the copy's
  /// own directory and its path. Blocks.
  func take(
    _ names: [ItemName], in session: ContainerSession
  ) throws(Errno) -> (directory: String, path: String) {
    let number = last.withLock { last in
      last += 1
      return last
    }
    var inode = try session.catalog.inode(.root)
    for name in names {
      guard let next = try session.catalog.lookup(name, in: inode.number) else {
        throw .noSuchFileOrDirectory
      }
      inode = next
    }
    let place = "\(directory)/\(number)"
    try Files.makeDirectories(place)
    do throws(Errno) {
      let name = names.last?.bytes ?? Array(session.id.description.utf8)
      // With room for the suffix.
      let text = String(validating: name.prefix(251), as: UTF8.self) ?? "item"
      switch inode.kind {
      case .file:
        let path = "\(place)/\(text)"
        try copy(inode, in: session, to: path)
        return (place, path)
      case .directory:
        let path = "\(place)/\(text).zip"
        try archive(inode, named: name, in: session, to: path)
        return (place, path)
      default:
        throw .invalidArgument
      }
    } catch {
      remove(place)
      throw error
    }
  }

  private func create(_ path: String) throws(Errno) -> OpenFile {
    try OpenFile.open(path, flags: O_RDWR | O_CREAT | O_EXCL)
  }

  /// Nil for an empty one, which may have none.
  private func content(
    of inode: Catalog.Inode, in session: ContainerSession
  ) throws(Errno) -> OpenFile? {
    guard inode.content == .local else { throw .networkDown }
    do {
      return try session.content.open(
        ContentKey(item: inode.item, generation: inode.generation), writable: false)
    } catch .noSuchFileOrDirectory where inode.size == 0 {
      return nil
    }
  }

  private func copy(
    _ inode: Catalog.Inode, in session: ContainerSession, to path: String
  ) throws(Errno) {
    let file = try create(path)
    if let content = try content(of: inode, in: session) {
      var offset: UInt64 = 0
      var isShared = true
      while true {
        var count = 0
        if isShared {
          // Of a file system that can, the blocks are shared.
          do {
            count = try content.copyRange(at: offset, count: 1 << 30, to: file, at: offset)
          } catch { isShared = false }
        }
        if !isShared {
          let piece = try content.read(count: 1 << 20, at: offset)
          try file.write(piece, at: offset)
          count = piece.count
        }
        guard count > 0 else { break }
        offset += UInt64(count)
      }
    }
    let time = inode.modified.timespec
    _ = withUnsafePointer(to: (time, time)) { times in
      times.withMemoryRebound(to: timespec.self, capacity: 2) { futimens(file.descriptor, $0) }
    }
  }

  /// With the directory itself as its one entry at the top. What is no file, directory or link is
  /// left out.
  private func archive(
    _ top: Catalog.Inode, named name: [UInt8], in session: ContainerSession, to path: String
  ) throws(Errno) {
    var zip = ZipWriter(try create(path))
    func member(_ inode: Catalog.Inode, _ name: [UInt8], _ type: UInt32) -> ZipWriter.Member {
      ZipWriter.Member(
        name: name, mode: UInt16(type) | inode.mode & 0o7777,
        modified: inode.modified.parts.seconds)
    }
    var pending = [(inode: top, name: name)]
    while let (directory, name) = pending.popLast() {
      try zip.add(member(directory, name + [0x2F], UInt32(S_IFDIR)))
      var offset: Int64 = 0
      while true {
        let page = try session.catalog.readDirectory(directory.number, after: offset, limit: 512)
        guard let last = page.last else { break }
        offset = last.offset
        for entry in page {
          let inode = entry.inode
          let path = name + [0x2F] + entry.name.bytes
          switch inode.kind {
          case .directory: pending.append((inode, path))
          case .symbolicLink: try zip.add(member(inode, path, UInt32(S_IFLNK)), inode.target)
          case .file:
            let content = try content(of: inode, in: session)
            var offset: UInt64 = 0
            try zip.add(member(inode, path, UInt32(S_IFREG))) { () throws(Errno) in
              guard let piece = try content?.read(count: 1 << 20, at: offset), !piece.isEmpty else {
                return nil
              }
              offset += UInt64(piece.count)
              return piece
            }
          default: continue
          }
        }
      }
    }
    try zip.finish()
  }
}
