/// Mistakes that the engine makes on request: the simulation shows with them that it would see such
/// a one. `docs/testing.md` has what each breaks.
///
/// Nothing but `Tests/EngineSimulation` plants one; no argument, variable or file of the program
/// does.
package enum PlantedMistake: String, CaseIterable, Sendable {
  /// The loser of a conflict is not kept.
  case forgetsLosers
  /// An edit elsewhere does not bring back what is removed here.
  case removalBeatsEdit
  /// All attributes of a changed item go up, and not those that were changed.
  case mergesAttributesWhole
  /// After a conflict was put into the log the base is moved at once.
  case movesBaseEarly
  /// What a segment removes is forgotten by those who fold it, as long as it has upserts too.
  case foldsHalf
  /// Who lost a race for a segment of the log, or does not know, takes it for won.
  case believesEveryPut
  /// A download counts as whole before it is.
  case endsDownloadsEarly
  /// Names that no object can have are taken for objects.
  case readsForeignNames
  /// An object that a store does not show counts as deleted.
  case takesAbsenceForDeletion
  /// Local content of a deleted container can be evicted.
  case evictsDeleted
  /// A start after a crash takes rows as they are.
  case recoversNothing
  /// What is not uploaded can be evicted.
  case evictsUnsent
  /// The head of the log is not checked before something is put.
  case putsUnchecked
  /// Content is evicted without a look at the store.
  case evictsUnchecked
  /// A content that was uploaded counts for its file though that has changed since.
  case stagesChangedUploads
  /// A file is uploaded as it is while a program writes to it.
  case snapshotsWrittenFiles
  /// The conflict versions of a file go with it when another file takes its name.
  case dropsReplacedVersions
  /// An edit that outlives a removal drops the contents that it did not know.
  case forgetsRevivedVersions
  /// Versions that are resolved or removed do not go to the trash.
  case dropsVersionsForGood
  /// A conflict is resolved although other versions were shown than there are now.
  case resolvesUnseenVersions
  /// An item that was removed elsewhere and not edited here comes back.
  case revivesUnedited
  /// A segment counts although its device was removed.
  case believesRemoved

  /// Set before anything starts.
  package nonisolated(unsafe) static var planted: PlantedMistake?

  package var isPlanted: Bool { Self.planted == self }
}
