package import Catalog
package import ContentStore
internal import Model
package import Platform
internal import SystemPackage

/// Files that something writes to though the mount that it opened them in has ended.
extension ContainerCoordinator {
  /// Follows a file until nothing writes to it any more. `file` is a read-only descriptor of the
  /// content that the inode has now, and `seen` is the file when its row was last brought up to
  /// date.
  package func followDetachedWriter(_ number: InodeNumber, _ file: OpenFile, seen: FileStamp) {
    opened(number, forWriting: true)
    guard let inode = try? catalog.inode(number), inode.content == .local else {
      return closed(number, forWriting: true)
    }
    // After a crash the next start has to look at the file.
    try? catalog.noteWriteBegan(number)
    detached.follow(number, generation: inode.generation, file, seen: seen) { [weak self] in
      self?.endDetachedWriter(number)
    }
  }

  /// Brings the row of a file that a detached writer changes up to date. Gives whether the file is
  /// such a one; nearly free while there is none.
  @discardableResult
  package func lookAtDetachedWriter(_ number: InodeNumber) -> Bool { detached.look(at: number) }

  /// Stops following; gives the files that something still writes to. The caller must not record a
  /// clean end then.
  package func stopFollowingDetachedWriters() -> [InodeNumber] { detached.stop() }

  package var detachedWriters: [InodeNumber] { detached.numbers }

  private func endDetachedWriter(_ number: InodeNumber) {
    if writerCount(number) == 1 { try? catalog.noteWriteEnded(number) }
    // The last bytes are to survive the end of the daemon before an upload may use them.
    try? catalog.commit(durable: false)
    closed(number, forWriting: true)
    noteEvictable()
    reclaimIfOrphan(number)
  }

  func reclaimIfOrphan(_ number: InodeNumber) {
    guard let inode = try? catalog.inode(number), inode.isOrphan else { return }
    reclaim(number)
  }

  // MARK: Who writes

  /// The path of an item within its mount, for messages.
  package func pathText(of number: InodeNumber) -> String {
    guard let path = try? catalog.path(of: number) else { return "item \(number)" }
    return path.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: "/")
  }

  /// One line for each file that is open for writing: its path, and the programs as far as they are
  /// known.
  package func writersText() -> [String] {
    writers.map { number in
      let programs = Set(writingProcesses(number)).sorted().map(Processes.name(of:))
      let names = programs.isEmpty ? "a program" : programs.joined(separator: ", ")
      return "\"\(pathText(of: number))\" is open for writing by \(names)"
    }
  }
}
