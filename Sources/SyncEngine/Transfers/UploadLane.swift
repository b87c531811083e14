/// Which uploads may run at the same time, so that small files pass large ones. One run of a lane
/// sends at a time (`UploadQueue+Turns.swift`).
enum UploadLane: CaseIterable {
  /// A few small files that were saved while the lane of small files is busy.
  case express
  case small
  case medium
  case large

  private static let smallLimit = UInt64(8) << 20
  private static let mediumLimit = UInt64(256) << 20

  static func of(_ batch: UploadBatch) -> UploadLane {
    if batch.isSmall || batch.bytes <= smallLimit { return .small }
    return batch.bytes <= mediumLimit ? .medium : .large
  }

  /// How many batches of a run are read and sealed at the same time: while one waits for the disk,
  /// another one has the processors.
  var batches: Int {
    switch self {
    case .small: 2
    // The order of these is seen: one that is sent alone is there sooner.
    case .express, .medium, .large: 1
    }
  }

  /// How many packs of a run may be on their way at once. Each is in memory.
  var packs: Int {
    switch self {
    case .express: 1
    case .medium: 2
    case .small, .large: 4
    }
  }
}
