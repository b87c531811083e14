package import Model
package import SystemPackage

/// How long the log is beyond the last snapshot, and what of it may go: what compaction asks first,
/// so that it asks the backend nothing while there is nothing to do.
package struct LogLength: Hashable, Sendable {
  package var position: LogPosition
  /// Of the newest snapshot that the log tells of; 0 when there is none.
  package var snapshot: UInt64 = 0
  package var snapshotBytes: UInt64 = 0
  /// What was folded since, in `LogChanges.weight`.
  package var weight: UInt64 = 0
  /// Who wrote the last segment.
  package var author: Model.DeviceID?

  package init(position: LogPosition, weight: UInt64, author: Model.DeviceID? = nil) {
    self.position = position
    self.weight = weight
    self.author = author
  }

  package var segments: UInt64 { position.sequence - min(snapshot, position.sequence) }
}

/// A snapshot that the log tells of.
package struct KnownSnapshot: Hashable, Sendable {
  package let mark: SnapshotMark
  package let device: Model.DeviceID
  /// Since when this device knows, by its own clock.
  package let since: Timestamp
}

extension Engine {
  /// Called in the fold of each segment, before the position moves.
  func noteLog(_ changes: LogChanges, from origin: LogOrigin?) throws {
    var weight = try logWeight() &+ changes.weight
    if let mark = changes.snapshot, let origin {
      try noteSnapshot(mark, from: origin.device)
      weight = try weightBeyond(mark, weight)
    }
    try write { db in
      try queries.metaSet.run(db, "log.weight", weight.column)
      if let origin { try queries.metaSet.run(db, "log.author", origin.device.bytes) }
    }
  }

  func noteSnapshot(_ mark: SnapshotMark, from device: Model.DeviceID) throws {
    let known = try snapshots()
    guard !known.contains(where: { $0.mark.sequence == mark.sequence }) else { return }
    try write { db in
      try queries.setSnapshot.run(
        db, mark.sequence.column, mark.bytes.column, device, now.nanoseconds)
    }
  }

  /// Notes where the snapshot stands that this device is about to write. It is announced later, and
  /// the segments between count for the next one.
  func noteWriting(snapshotAt sequence: UInt64) throws {
    let weight = try logWeight()
    try write { db in
      try queries.metaSet.run(db, "writing.sequence", sequence.column)
      try queries.metaSet.run(db, "writing.weight", weight.column)
    }
  }

  /// Of another device's snapshot it is not known, and taken for nothing.
  private func weightBeyond(_ mark: SnapshotMark, _ weight: UInt64) throws -> UInt64 {
    let (sequence, before) = try database { db in
      (
        try queries.metaGet.first(db, "writing.sequence") { $0.unsigned(0) },
        try queries.metaGet.first(db, "writing.weight") { $0.unsigned(0) }
      )
    }
    guard sequence == mark.sequence, let before, before <= weight else { return 0 }
    return weight - before
  }

  private func logWeight() throws -> UInt64 {
    try database { db in
      try queries.metaGet.first(db, "log.weight") { $0.unsigned(0) } ?? 0
    }
  }

  fileprivate func snapshots() throws -> [KnownSnapshot] {
    try database { db in
      try queries.newestSnapshots.all(db) { row in
        KnownSnapshot(
          mark: SnapshotMark(sequence: row.unsigned(0), bytes: row.unsigned(1)),
          device: try row.identifier(2), since: row.time(3))
      }
    }
  }

  fileprivate func logLength() throws -> LogLength {
    var result = LogLength(position: try position(), weight: try logWeight())
    if let newest = try snapshots().first {
      result.snapshot = newest.mark.sequence
      result.snapshotBytes = newest.mark.bytes
    }
    let author = try database { db in
      try queries.metaGet.first(db, "log.author") { $0.blob(0) }
    }
    result.author = author.flatMap { Model.DeviceID(bytes: $0) }
    return result
  }
}

extension ContainerCatalog {
  package func logLength() throws(Errno) -> LogLength { try run { try $0.logLength() } }

  /// To be called when this device begins to write a snapshot at its position.
  package func noteWriting(snapshotAt sequence: UInt64) throws(Errno) {
    try changeLazily { try $0.noteWriting(snapshotAt: sequence) }
  }

  /// The newest first.
  package func knownSnapshots() throws(Errno) -> [KnownSnapshot] { try run { try $0.snapshots() } }

  /// Those before `sequence` are gone from the backend.
  package func forgetSnapshots(before sequence: UInt64) throws(Errno) {
    try changeLazily { engine in
      try engine.write { db in try engine.queries.dropSnapshots.run(db, sequence.column) }
    }
  }

  /// A number that compaction keeps for itself; nil before it was set.
  package func compactionNote(_ key: String) throws(Errno) -> Int64? {
    try optional { engine in
      try engine.database { db in
        try engine.queries.metaGet.first(db, "compaction." + key) { $0.integer(0) }
      }
    }
  }

  package func setCompactionNote(_ key: String, _ number: Int64) throws(Errno) {
    try changeLazily { engine in
      try engine.write { db in
        try engine.queries.metaSet.run(db, "compaction." + key, number)
      }
    }
  }

  // MARK: What other devices told

  /// Notes what a device told last, and gives since when, by this device's clock, it has told
  /// nothing else. `mark`: another one for each cursor.
  package func notePeer(_ device: Model.DeviceID, mark: UInt64) throws(Errno) -> Timestamp {
    try changeLazily { engine in
      let known = try engine.database { db in
        try engine.queries.peer.first(db, device) { ($0.unsigned(0), $0.time(1)) }
      }
      if let known, known.0 == mark { return known.1 }
      let time = engine.now
      try engine.write { db in
        try engine.queries.setPeer.run(db, device, mark.column, time.nanoseconds)
      }
      return time
    }
  }

  /// Notes which packs are in the backend without the log knowing of them, and gives those that
  /// have been so for as long as since `time`.
  package func noteStrays(_ packs: [PackID], seenSince time: Timestamp) throws(Errno) -> [PackID] {
    try changeLazily { engine in
      var left = Set(
        try engine.database { db in
          try engine.queries.allStrays.all(db) { try $0.identifier(0) as PackID }
        })
      var old: [PackID] = []
      for pack in packs where try engine.packRow(pack) == nil {
        left.remove(pack)
        let since = try engine.database { db in
          try engine.queries.stray.first(db, pack) { $0.time(0) }
        }
        if let since {
          if since <= time { old.append(pack) }
        } else {
          let now = engine.now
          try engine.write { db in
            try engine.queries.setStray.run(db, pack, now.nanoseconds)
          }
        }
      }
      try engine.write { db in
        for pack in left { try engine.queries.deleteStray.run(db, pack) }
      }
      return old.sorted()
    }
  }

  /// Packs that are condemned and not deleted yet, with since when this device knows.
  package func condemnedPacks() throws(Errno) -> [(record: PackRecord, since: Timestamp)] {
    try run { engine in
      try engine.database { db in
        try engine.queries.condemnedPacks.all(db) { try Engine.PackRow($0) }
      }.map { ($0.record, $0.since) }
    }
  }
}
