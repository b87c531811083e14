package import Catalog
internal import ContentStore
internal import Model
package import Platform
package import SystemPackage

/// The content of a file that is to be uploaded.
extension ContainerCoordinator {
  /// Nil while a program has it open for writing, a mapping included, when it was removed or
  /// replaced before it was opened here, and when the row was behind the file.
  package func contentForUpload(of inode: Catalog.Inode) throws(Errno) -> OpenFile? {
    let key = ContentKey(item: inode.item, generation: inode.generation)
    do throws(Errno) {
      guard try !content.hasWriter(key) else { return nil }
      let file = try content.open(key, writable: false)
      return try isAsItsRow(inode, file) ? file : nil
    } catch .noSuchFileOrDirectory {
      // A file that was renamed over another stands for the other's item, under another key.
      guard let now = try? catalog.inode(inode.number), now.generation == inode.generation,
        now.item == inode.item, !now.isOrphan
      else { return nil }
      throw .noSuchFileOrDirectory
    }
  }

  /// Whether the file has the length that its row says. If not, the row is corrected: a shorter
  /// file than the one that a program wrote must never be uploaded.
  private func isAsItsRow(_ inode: Catalog.Inode, _ file: OpenFile) throws(Errno) -> Bool {
    let stamp = FileStamp(try file.status())
    guard stamp.size != inode.size else { return true }
    let now = try catalog.inode(inode.number)
    guard now.generation == inode.generation, now.size == inode.size,
      !isOpenForWriting(inode.number)
    else { return false }
    try catalog.noteContentChange(
      inode.number, size: stamp.size, blocks: stamp.blocks,
      modified: stamp.modified(after: now.modified))
    return false
  }
}
