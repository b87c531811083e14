internal import Catalog
internal import Model

/// A content of a file, as far as it can be told without reading it.
struct UploadIdentity: Hashable {
  let item: ItemID
  let generation: UInt64
  let size: UInt64
  let modified: Timestamp
  let changed: Timestamp

  init(_ inode: Catalog.Inode) {
    item = inode.item
    generation = inode.generation
    size = inode.size
    modified = inode.modified
    changed = inode.changed
  }
}
