internal import Catalog
internal import ContentStore
internal import Model
internal import Platform
internal import SystemPackage

/// Copies one local file out of the store of contents. It gets its name when all of it is there: a
/// file that a later run finds is a whole one.
struct FileExport {
  let content: ContentFiles
  let inode: Catalog.Inode

  private static let unfinished = ".ubiquityfs-restore.part"

  /// `finish` gives the copy its attributes. The result is the problem it had; the file stays.
  func write(
    _ name: ItemName, in directory: OpenDirectory,
    finish: (ItemName) throws(RestoreObstacle) -> Void
  ) throws(RestoreObstacle) -> RestoreObstacle? {
    let part: ItemName
    do { part = try ItemName(Self.unfinished) } catch {
      throw RestoreObstacle(text: "\(error)")
    }
    let source = try openSource()
    let target = try RestoreObstacle.doing("cannot be written") { () throws(Errno) in
      // Of a run that was killed.
      do throws(Errno) { try directory.remove(part) } catch .noSuchFileOrDirectory {}
      return try directory.makeFile(part)
    }
    do throws(RestoreObstacle) {
      try copy(source, to: target)
      var problem: RestoreObstacle?
      do throws(RestoreObstacle) { try finish(part) } catch { problem = error }
      try RestoreObstacle.doing("cannot be written") { () throws(Errno) in
        try target.synchronize()
        try directory.rename(part, to: name)
      }
      return problem
    } catch {
      try? directory.remove(part)
      throw error
    }
  }

  /// Nil for a file without bytes, which need not have a content file.
  private func openSource() throws(RestoreObstacle) -> OpenFile? {
    guard inode.size > 0 else { return nil }
    return try reading { key throws(Errno) in try content.open(key, writable: false) }
  }

  /// Holes stay holes.
  private func copy(_ source: OpenFile?, to target: OpenFile) throws(RestoreObstacle) {
    guard let source else { return }
    let size = inode.size
    try RestoreObstacle.doing("cannot be written") { () throws(Errno) in
      try target.truncate(to: size)
    }
    let length = try reading { _ throws(Errno) in try source.status().st_size }
    guard UInt64(clamping: length) >= size else {
      throw RestoreObstacle(text: "\(place) has \(length) bytes of \(size)")
    }
    var offset: UInt64 = 0
    while offset < size {
      let from = offset
      let start = try reading { _ throws(Errno) in try source.nextData(from: from) }
      guard let start, start < size else { return }
      let end = try reading { _ throws(Errno) in try source.nextHole(from: start) } ?? size
      offset = start
      while offset < min(end, size) {
        let (position, count) = (offset, Int(min(min(end, size) - offset, 1 << 20)))
        let bytes = try reading { _ throws(Errno) in
          try source.read(count: count, at: position)
        }
        guard bytes.count == count else {
          throw RestoreObstacle(text: "\(place) became shorter")
        }
        try RestoreObstacle.doing("cannot be written") { () throws(Errno) in
          try target.write(bytes, at: position)
        }
        offset += UInt64(count)
      }
    }
  }

  private var key: ContentKey { ContentKey(item: inode.item, generation: inode.generation) }

  /// Names the file, since other programs may be able to read it.
  private var place: String { "its content file \(content.path(of: key))" }

  private func reading<Value>(
    _ body: (ContentKey) throws(Errno) -> Value
  ) throws(RestoreObstacle) -> Value {
    do throws(Errno) { return try body(key) } catch {
      throw RestoreObstacle(text: "\(place) cannot be read: \(error)")
    }
  }
}
