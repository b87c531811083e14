/// A content that an item named and no longer names, although nobody wrote over it.
///
/// It is kept among the removed items as an item of its own, so that a trash of older snapshots and
/// an older device can hold it. Its identity follows from the item and the version: every device
/// that folds the log comes to the same one.
extension ItemRecord {
  /// The identity under which a version of an item is kept: the item's, rotated left by one bit,
  /// XOR the version's. No item that lives has it by chance.
  ///
  /// Without the rotation the rule would be its own inverse: a kept version that was restored is an
  /// item with that content, and what is kept of it would have the identity of the first item.
  package static func keptIdentity(of version: VersionID, in item: ItemID) -> ItemID {
    ItemID(
      high: (item.high << 1 | item.low >> 63) ^ version.high,
      low: (item.low << 1 | item.high >> 63) ^ version.low)
  }

  /// The inverse: the item that a kept version belonged to.
  package static func owner(of version: VersionID, keptAs kept: ItemID) -> ItemID {
    let (high, low) = (kept.high ^ version.high, kept.low ^ version.low)
    return ItemID(high: high >> 1 | low << 63, low: low >> 1 | high << 63)
  }

  /// This item as it is kept for one of its versions. A package keeps the archive as its conflict
  /// version.
  package func keeping(_ version: ContentVersion) -> ItemRecord {
    var kept = version
    kept.isResolved = false
    let isFile = kind == .file
    return ItemRecord(
      id: Self.keptIdentity(of: version.id, in: id), kind: kind, links: Array(links.prefix(1)),
      mode: mode, modified: version.modified, created: created, attributes: attributes,
      isPackage: isPackage, content: isFile ? kept : nil, conflicts: isFile ? [] : [kept])
  }

  /// The content or conflict version of this identity.
  package func version(_ id: VersionID) -> ContentVersion? {
    content?.id == id ? content : conflicts.first { $0.id == id }
  }

  /// The contents that this record names, that can be read, and that `other` has neither under
  /// their identity nor as the same bytes.
  package func contents(missingIn other: ItemRecord) -> [ContentVersion] {
    let known = other.contents
    return contents.filter { version in
      guard let manifest = version.manifest else { return false }
      return !known.contains { $0.id == version.id || $0.manifest == manifest }
    }
  }

  /// Those that an edit did not know: it brings back an item that was removed with this record.
  ///
  /// `base`: the content that the edit was made of.
  package func contents(unseenBy edit: ItemRecord, madeOf base: VersionID?) -> [ContentVersion] {
    contents(missingIn: edit).filter { $0.id != base }
  }
}
