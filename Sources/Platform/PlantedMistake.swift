/// Mistakes that the engine makes on request: the simulation shows with them that it would see such a
/// one. `docs/testing.md` has what each breaks.
///
/// Nothing but `Tests/EngineSimulation` plants one; no argument, variable or file of the program does.
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
  /// A start after a crash takes rows as they are.
  case recoversNothing
  /// What is not uploaded can be evicted.
  case evictsUnsent

  /// Set before anything starts.
  package nonisolated(unsafe) static var planted: PlantedMistake?

  package var isPlanted: Bool { Self.planted == self }
}
