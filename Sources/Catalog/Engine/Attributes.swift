internal import Model
internal import RecordFormat
internal import SystemPackage

/// Attributes, the user's own ones, and what is listed.
extension Engine {
  /// Of one item, names included. The record of an item carries them all.
  private static let attributeBytes = 1 << 22

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
    try read { db in
      try queries.attribute.first(db, number.column, name) { $0.blob(0) }
    }
  }

  func attributes(_ number: InodeNumber) throws -> [(name: String, value: [UInt8])] {
    try read { db in
      try queries.attributes.all(db, number.column) { row in
        (row.text(0), row.blob(1))
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
    try requireRoom(forAttribute: name, value, of: number)
    try write { db in try put(number, name, value, db) }
    try changed(inode)
  }

  /// ENOSPC when an item has too many attributes. Source: setxattr(2), ext4(5).
  private func requireRoom(
    forAttribute name: String, _ value: [UInt8], of number: InodeNumber
  ) throws {
    let others = try read { db in
      try queries.otherAttributes.first(db, number.column, name) { row in
        (count: row.integer(0), bytes: row.integer(1))
      }
    }
    guard let others else { return }
    let bytes = Int(others.bytes) + name.utf8.count + value.count
    guard others.count < RecordLimits.attributes, bytes <= Self.attributeBytes else {
      throw Errno.noSpace
    }
  }

  /// Stores an attribute, and that there is an initial access list, in one transaction.
  func put(
    _ number: InodeNumber, _ name: String, _ value: [UInt8], _ connection: SQLConnection
  ) throws {
    try queries.setAttribute.run(connection, number.column, name, value)
    guard name == AccessControlList.initial, !hasInitialLists else { return }
    try queries.metaSet.run(connection, "lists.initial", Int64(1))
    hasInitialLists = true
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
}
