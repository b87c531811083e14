import Platform

/// Mistakes that the simulation makes on request, around the engine; `PlantedMistake` has those
/// that the engine makes. Both are there to show that it would see them.
enum PlantedBug: String, CaseIterable {
  /// Two devices both hear that they were first.
  case overwritesSegments
  /// A content is acknowledged and not stored.
  case losesPacks
  /// After a crash the redo journal is gone.
  case losesJournal
  /// A file's content goes although it is not in the cloud.
  case removesUnsentContent
  /// The engine does not hear what is open for writing.
  case hidesWriters
  /// What is written is not noted.
  case forgetsWrites
}

/// Whichever of the two a name means.
struct Planting {
  let bug: PlantedBug?
  let mistake: PlantedMistake?

  init?(_ name: String) {
    bug = PlantedBug(rawValue: name)
    mistake = PlantedMistake(rawValue: name)
    if bug == nil, mistake == nil { return nil }
  }

  static var names: [String] {
    PlantedBug.allCases.map(\.rawValue) + PlantedMistake.allCases.map(\.rawValue)
  }
}
