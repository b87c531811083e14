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
  /// Those of the undecided whose content in the segment is the local one: they won a conflict.
  package var winners: Set<ItemID> = []
  /// Those of the upserts that say what is here. Should their answer be lost, the log says no more
  /// of them than was known here; the others are made for the log alone.
  package var ofHere: Set<ItemID> = []
  /// The edited contents that the segment commits.
  package var versions: [ItemID: VersionID] = [:]
  /// Edited files whose content has to be up before they can be settled.
  package var uploads: [ItemID] = []
  /// Files whose local content gives way to a newer one.
  package var replaced: [ItemID] = []
  /// Items that wait for a program to close them.
  package var deferred: [ItemID] = []
  /// The dirty marks of items that the local half leaves alone and that decided something in it:
  /// who keeps a name that another is renamed for. Nil: it had none.
  package var givens: [ItemID: UInt64?] = [:]
  /// Packages that lose a conflict. The segment keeps each as a conflict version of its directory,
  /// whose record is among the upserts.
  package var archives: [ItemID: PackageTree] = [:]
  /// Items of these packages. A local operation does not move their base: if it did and the segment
  /// failed, no later plan would see the conflict.
  package var keepsBase: Set<ItemID> = []
  /// Edits that were not made of the content that the log names. Neither an operation nor a segment
  /// moves the content of their base: it is the parent of the edit.
  package var keepsParent: Set<ItemID> = []
  /// Removals of items that one of these has: nobody removed them.
  package var archived: Set<ItemID> = []
  /// Packages in which something is done here: as a whole, or not now.
  package var packages: Set<ItemID> = []
  /// Only identities were changed: plan again.
  package var isPreliminary = false

  package init() {}

  /// Whether nothing is left to plan for these items after it, but when their contents were sent.
  package var isWhole: Bool {
    local.isEmpty && deferred.isEmpty && undecided.isEmpty && replaced.isEmpty && !isPreliminary
      && archives.isEmpty && keepsBase.isEmpty && keepsParent.isEmpty
  }

  package var isEmpty: Bool {
    local.isEmpty && upserts.isEmpty && removals.isEmpty && uploads.isEmpty
  }
}

/// For people who follow what the engine does.
extension Plan: CustomStringConvertible {
  package var description: String {
    let here = local.map { operation in
      switch operation {
      case .upsert(let record, let content, _): "\(Self.told(record)) \(content)"
      case .remove(let id, _): "removes \(id)"
      case .adopt(let id, let other): "\(id) becomes \(other)"
      case .agree(let id, _): "\(id) agrees"
      case .forgetBase(let id): "\(id) stays on this device only"
      }
    }
    return """
      local changes \(here); upserts in the log \(upserts.map(Self.told)), removals \(removals); \
      uploads \(uploads); waiting \(deferred)
      """
  }

  private static func told(_ record: ItemRecord) -> String {
    let links = record.links.map { "\($0.parent)/\($0.name)" }.joined(separator: " ")
    let contents = ([record.content].compactMap(\.self) + record.conflicts).map { version in
      "\(version.id)\(version.manifest == nil ? " not uploaded" : "")"
    }
    return "\(record.id) at \(links) \(contents.joined(separator: " "))"
  }
}
