package import Catalog
package import Model

/// What brings the three trees together, as far as that can be said now.
package struct Plan: Sendable {
  /// To be applied to the mount first, in one transaction.
  package var local: [LocalOperation] = []
  /// To be committed to the log after, as one segment.
  package var upserts: [ItemRecord] = []
  package var removals: [ItemID] = []
  /// Items that are settled when the segment is in the log, with the dirty marks the plan saw.
  package var settled: [ItemID: UInt64] = [:]
  /// Items of which the segment only keeps a conflict's contents: local and remote agree on nothing
  /// yet, so their base stays.
  package var undecided: Set<ItemID> = []
  /// The edited contents that the segment commits.
  package var versions: [ItemID: VersionID] = [:]
  /// Edited files whose content has to be up before they can be settled.
  package var uploads: [ItemID] = []
  /// Files whose local content gives way to a newer one.
  package var replaced: [ItemID] = []
  /// Items that wait for a program to close them.
  package var deferred: [ItemID] = []
  /// The dirty marks of items that the local half leaves alone and that decided something in it: who
  /// keeps a name that another is renamed for. Nil: it had none.
  package var givens: [ItemID: UInt64?] = [:]
  /// Packages that lose a conflict. The segment keeps each as a conflict version of its directory,
  /// whose record is among the upserts.
  package var archives: [ItemID: PackageTree] = [:]
  /// Removals of items that one of these has: nobody removed them.
  package var archived: Set<ItemID> = []
  /// Packages in which something is done here: as a whole, or not now.
  package var packages: Set<ItemID> = []
  /// Only identities were changed: plan again.
  package var isPreliminary = false

  package init() {}

  package var isEmpty: Bool {
    local.isEmpty && upserts.isEmpty && removals.isEmpty && uploads.isEmpty
  }
}
