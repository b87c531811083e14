/// Mistakes that the simulation makes on request, to show that it would see them.
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
