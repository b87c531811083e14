package import Model
package import SystemPackage

/// What the kernel has cached and is no longer so.
package enum Invalidation: Hashable, Sendable {
  case entry(parent: InodeNumber, name: ItemName)
  /// It may still be so: the kernel asks before it uses the name again.
  case doubt(parent: InodeNumber, name: ItemName)
  case attributes(InodeNumber)
  case content(InodeNumber)
}

/// An item as it is here, in the words in which devices speak of it.
package struct LocalItem: Hashable, Sendable {
  package let inode: Inode
  /// `content` is the version that the inode shows, nil when `isEdited`; `conflicts` are those that
  /// base knows.
  package let record: ItemRecord
  /// A file whose content is no version: it was made or changed here.
  package let isEdited: Bool
  /// The mark of the newest change here that the log does not have; nil when there is none.
  package let stamp: UInt64?
}

package enum ContentDirective: Hashable, Sendable {
  /// What the inode shows stays. An item that is not there yet becomes a placeholder.
  case keep
  /// The inode shows the record's content, which is in the backend. Where it shows that version
  /// already, nothing changes.
  case placeholder
  /// The inode shows the record's content, which is whole and durable in the content file of this
  /// generation.
  case staged(generation: UInt64)
}

/// One step by which the sync engine makes the local tree look like the remote one.
///
/// A `stamp` is what `dirtyStamp` gave when the step was planned; nil for an item that was not
/// dirty. When it is another one now, the plan is out of date and the batch fails with `.changed`.
package enum LocalOperation: Sendable {
  /// Makes the item look like the record, creating it if absent. Then base := remote; the item
  /// stays dirty exactly if it is edited or differs from remote in something other than content.
  case upsert(ItemRecord, content: ContentDirective, stamp: UInt64?)
  /// Takes away all links: the item is an orphan while it is open, else gone. Base := remote.
  case remove(ItemID, stamp: UInt64?)
  /// A directory made here takes the identity of the remote one of the same name, and its stamp.
  case adopt(local: ItemID, as: ItemID)
  /// Base := remote; no longer dirty if the stamp is still this one.
  case agree(ItemID, stamp: UInt64?)
  /// Base := nil, and not dirty: a directory that is kept only for what does not sync in it.
  case forgetBase(ItemID)
}

/// Trees that a batch changes only if no program changed anything in them after it was planned: a
/// package is one document, and a change of one of its files is a change of it.
package struct GuardedTrees: Sendable {
  package let roots: Set<ItemID>
  /// Every dirty mark that the plan saw is below this one.
  package let mark: UInt64
  /// What was open for writing a moment ago, in whatever tree.
  package let writers: [InodeNumber]

  package init(roots: Set<ItemID>, mark: UInt64, writers: [InodeNumber]) {
    self.roots = roots
    self.mark = mark
    self.writers = writers
  }
}

/// Why a batch was not applied. Nothing of it was done.
package enum ApplyFailure: Error, Hashable, Sendable {
  /// The item, or the directory that a link names, is not as it was when the batch was planned.
  case changed(ItemID)
  /// It is open for writing.
  case busy(ItemID)
  /// The name is another item's, perhaps of one that does not sync.
  case occupied(Link)
  /// The directory to remove still has entries.
  case notEmpty(ItemID)
  /// EINVAL: the item is of another kind here. ELOOP: a directory would be below itself.
  case system(Errno)
}

package struct ApplyResult: Sendable {
  /// What became of the items, in an order that a watcher can follow.
  package var changes: [ItemChange] = []
  package var invalidations: [Invalidation] = []
  /// Content files that nothing names any more. Unlink them in `afterDurableCommit`.
  package var obsolete: [ContentKey] = []
}

/// The content that a version was made of: if the file is still that, it is that version.
package struct UploadedContent: Hashable, Sendable {
  package let version: VersionID
  package let generation: UInt64
  package let size: UInt64
  package let modified: Timestamp
  /// Unlike `modified`, no program can set it back.
  package let changed: Timestamp

  package init(
    version: VersionID, generation: UInt64, size: UInt64, modified: Timestamp, changed: Timestamp
  ) {
    self.version = version
    self.changed = changed
    self.generation = generation
    self.size = size
    self.modified = modified
  }
}

/// Something that `check` found to be wrong.
package struct Problem: Hashable, Sendable, CustomStringConvertible {
  package let description: String
  /// `repair` can put it right without losing anything that is still there.
  package let isRepairable: Bool
}
