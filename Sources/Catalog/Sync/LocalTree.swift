internal import Model
internal import SystemPackage

/// The local tree in the words of records.
extension Engine {
  /// The inode that stands for an item; a detached one does not.
  func inodeNumber(of item: ItemID) throws -> InodeNumber? {
    try database { db in try queries.inodeOfItem.first(db, item) { $0.number(0) } }
  }

  /// The inode of an item that other devices may know: not an orphan, not excluded, of a synced
  /// kind.
  func syncedInode(_ item: ItemID) throws -> Inode? {
    guard let number = try inodeNumber(of: item) else { return nil }
    let inode = try inode(number)
    return inode.isExcluded || inode.isOrphan || !inode.kind.isSynced ? nil : inode
  }

  /// The names by which other devices may know an inode, sorted.
  func syncedLinks(_ number: InodeNumber) throws -> [Link] {
    var result: [Link] = []
    for link in try links(of: number) where !link.name.isExcludedFromSync {
      let parent = try inode(link.parent)
      guard !parent.isExcluded else { continue }
      result.append(Link(parent: parent.item, name: link.name))
    }
    return result.sorted()
  }

  /// Whether other devices are told of an extended attribute. `security.*` and `trusted.*` say what
  /// this machine thinks of a file; no record may hold them.
  static func isSynced(attribute name: String) -> Bool {
    name.hasPrefix("user.") || AccessControlList.isName(name)
  }

  func local(_ item: ItemID) throws -> LocalItem? {
    guard let inode = try syncedInode(item) else { return nil }
    var content: ContentVersion?
    if inode.kind == .file { content = try shownContent(inode) }
    let row = try remoteRow(item)
    let conflicts = try decode(row?.applied)?.conflicts ?? []
    var attributes: [String: [UInt8]] = [:]
    for attribute in try self.attributes(inode.number)
    where Self.isSynced(attribute: attribute.name) {
      attributes[attribute.name] = attribute.value
    }
    let record = ItemRecord(
      id: item, kind: inode.kind, links: try syncedLinks(inode.number), mode: inode.mode,
      modified: inode.modified, created: inode.created, attributes: attributes,
      target: inode.target, isPackage: inode.isPackage, content: content, conflicts: conflicts)
    // A version that nothing names is no version: the content is to be treated as made here.
    return LocalItem(
      inode: inode, record: record, isEdited: inode.kind == .file && content == nil,
      stamp: try stamp(item))
  }

  /// Whether an entry stays here: its item does not sync, or not by this name.
  private func staysHere(_ name: ItemName, _ inode: Inode) -> Bool {
    inode.isExcluded || !inode.kind.isSynced || name.isExcludedFromSync
  }

  func localChildren(_ item: ItemID) throws -> [ItemID] {
    guard let parent = try syncedInode(item) else { return [] }
    var result: Set<ItemID> = []
    for entry in try children(of: parent.number) {
      let inode = try inode(entry.child)
      if !staysHere(entry.name, inode) { result.insert(inode.item) }
    }
    return result.sorted()
  }

  func hasExcludedChildren(_ item: ItemID) throws -> Bool {
    guard let parent = try syncedInode(item) else { return false }
    for entry in try children(of: parent.number) {
      if staysHere(entry.name, try inode(entry.child)) { return true }
    }
    return false
  }

  func hasChildren(_ item: ItemID, besides isOther: (ItemID) -> Bool) throws -> Bool {
    guard let parent = try syncedInode(item) else { return false }
    return try database { db in
      try queries.readDirectory.find(db, parent.number.column, Int64.min, Int64(-1)) { row in
        let inode = try Inode(row, from: 2)
        return staysHere(try row.name(1), inode) || !isOther(inode.item)
      }
    }
  }

  func localChild(_ parent: ItemID, _ name: ItemName) throws -> ItemID? {
    guard let directory = try syncedInode(parent),
      let number = try child(name, in: directory.number)
    else { return nil }
    let inode = try inode(number)
    return staysHere(name, inode) ? nil : inode.item
  }

  func differing() throws -> [ItemID] {
    return try database { db in try queries.differing.all(db) { try $0.identifier(0) } }
  }
}
