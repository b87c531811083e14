internal import Foundation
internal import GRDB
internal import Model
internal import SystemPackage

/// Attributes, the user's own ones, and what is listed.
extension Engine {
  func setAttributes(_ number: InodeNumber, _ changes: AttributeChanges) throws -> Inode {
    var inode = try inode(number)
    if let mode = changes.mode { inode.mode = mode & 0o7777 }
    if let owner = changes.owner { inode.owner = owner }
    if let group = changes.group { inode.group = group }
    if let accessed = changes.accessed { inode.accessed = accessed }
    if let modified = changes.modified { inode.modified = modified }
    inode.changed = now
    try store(inode)
    // Owner, group and access time stay here.
    if changes.mode != nil || changes.modified != nil { mark(inode) }
    return inode
  }

  func attribute(_ number: InodeNumber, _ name: String) throws -> [UInt8]? {
    try database { db in
      try queries.attribute.first(db, number.column, name) { try $0.blob(0) }
    }
  }

  func attributes(_ number: InodeNumber) throws -> [(name: String, value: [UInt8])] {
    try database { db in
      try queries.attributes.all(db, number.column) { row in
        (row[0] as String, try row.blob(1))
      }
    }
  }

  func setAttribute(
    _ number: InodeNumber, _ name: String, _ value: [UInt8], _ mode: AttributeMode
  ) throws {
    let inode = try inode(number)
    switch mode {
    case .createOrReplace: break
    case .create:
      guard try attribute(number, name) == nil else { throw Errno.fileExists }
    case .replace:
      guard try attribute(number, name) != nil else { throw Errno.noData }
    }
    try write { db in
      try queries.setAttribute.run(db, number.column, name, Data(value))
    }
    try changed(inode)
  }

  func removeAttribute(_ number: InodeNumber, _ name: String) throws {
    let inode = try inode(number)
    guard try attribute(number, name) != nil else { throw Errno.noData }
    try write { db in try queries.removeAttribute.run(db, number.column, name) }
    try changed(inode)
  }

  private func changed(_ before: Inode) throws {
    var inode = before
    inode.changed = now
    try store(inode)
    mark(inode)
  }

  func readDirectory(_ number: InodeNumber, after: Int64, limit: Int) throws -> [DirectoryEntry] {
    let rows = try database { db in
      try queries.readDirectory.all(db, number.column, after, Int64(limit)) { row in
        DirectoryEntry(
          offset: row.integer(0), name: try row.name(1), inode: try Inode(row, from: 2))
      }
    }
    return rows.map { entry in
      names.insert(EntryKey(parent: number, name: entry.name), entry.inode.number)
      if let known = known(entry.inode.number) {
        return DirectoryEntry(offset: entry.offset, name: entry.name, inode: known)
      }
      inodes.insert(entry.inode.number, entry.inode)
      return entry
    }
  }

  func currentCounts() throws -> CatalogCounts {
    if let counts { return counts }
    try flush()
    let result = try database { db -> CatalogCounts in
      let row = try Row.fetchOne(
        db,
        sql: """
          SELECT COUNT(*), SUM(size * (kind = 1)), SUM(size * (kind = 1 AND content = 0))
          FROM inode WHERE flags & 8 = 0 AND ino <> 1
          """)
      guard let row else { return CatalogCounts() }
      func sum(_ column: Int) -> UInt64 { UInt64(clamping: (row[column] as Int64?) ?? 0) }
      return CatalogCounts(items: sum(0), totalBytes: sum(1), localBytes: sum(2))
    }
    counts = result
    return result
  }
}
