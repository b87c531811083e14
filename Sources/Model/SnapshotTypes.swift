/// A snapshot of a container's log, as the log tells of it.
package struct SnapshotMark: Hashable, Sendable {
  /// The last segment that it has folded in.
  package let sequence: UInt64
  /// In the backend.
  package let bytes: UInt64

  package init(sequence: UInt64, bytes: UInt64) {
    self.sequence = sequence
    self.bytes = bytes
  }
}

/// What the log says of a pack.
package struct PackRecord: Hashable, Sendable {
  /// Only ever the next one.
  package enum State: UInt8, Sendable, CaseIterable {
    case inUse = 0
    /// No later segment refers to it; readers may still find it.
    case condemned = 1
    /// Its object is gone or going. Kept for ever, so that whoever still has it in mind is refused.
    case deleted = 2
  }

  package let pack: PackID
  /// Of all sealed chunks that the log ever named in it.
  package var bytes: UInt64
  package var state: State
  /// The segment that condemned it; 0 while it is in use.
  package var condemnedAt: UInt64

  package init(pack: PackID, bytes: UInt64, state: State = .inUse, condemnedAt: UInt64 = 0) {
    self.pack = pack
    self.bytes = bytes
    self.state = state
    self.condemnedAt = condemnedAt
  }
}

/// Some of what a log folds to. All parts of a snapshot in their order are all of it.
package struct SnapshotPart: Hashable, Sendable {
  /// By identity.
  package var items: [ItemRecord] = []
  /// By pack, then offset.
  package var chunks: [ChunkLocation] = []
  /// By identity.
  package var removed: [RemovedItem] = []
  /// By identity.
  package var packs: [PackRecord] = []

  package init() {}

  package var isEmpty: Bool {
    items.isEmpty && chunks.isEmpty && removed.isEmpty && packs.isEmpty
  }
}

/// A recovery of a container whose store went back to an earlier state: from its snapshot on all
/// devices continue on one log.
package struct LogRecovery: Hashable, Sendable {
  /// So many segments before its head a recovering device tells of.
  package static let mostKnown = 1024
  /// Packages that one recovery names at most.
  package static let mostDisputed = 65_536

  /// Counts from 1.
  package let number: UInt64
  /// Of the snapshot that it published.
  package let sequence: UInt64
  /// Segments that the recovering device had read, ascending; the last one is its head.
  package let known: [LogPosition]
  /// Packages of which the snapshot lacks a conflict version, ascending. A device that still has
  /// the losing edits of one finds that conflict again.
  package let disputed: [ItemID]

  package init(
    number: UInt64, sequence: UInt64, known: [LogPosition], disputed: [ItemID] = []
  ) {
    self.number = number
    self.sequence = sequence
    self.known = known
    self.disputed = disputed
  }

  /// Of two that were made at the same time the one that comes later in the log counts.
  package func isLater(than other: LogRecovery?) -> Bool {
    guard let other else { return true }
    return (number, sequence) > (other.number, other.sequence)
  }
}

/// How far a device has read a container's log, as it told the others.
package struct DeviceCursor: Hashable, Sendable {
  package let device: DeviceID
  package let sequence: UInt64
  package let time: Timestamp
  package let keepRemovedDays: UInt32
  /// Of the segment of this number; nil from an older release.
  package let hash: [UInt8]?
  /// The last recovery that the device's log stands on; 0 for none.
  package let recovery: UInt64

  package init(
    device: DeviceID, sequence: UInt64, time: Timestamp, keepRemovedDays: UInt32,
    hash: [UInt8]? = nil, recovery: UInt64 = 0
  ) {
    self.hash = hash
    self.recovery = recovery
    self.device = device
    self.sequence = sequence
    self.time = time
    self.keepRemovedDays = keepRemovedDays
  }
}

/// What makes parts a snapshot: which they are, and of which log.
package struct SnapshotIndex: Hashable, Sendable {
  package struct Part: Hashable, Sendable {
    /// SHA-256 of the stored object.
    package let hash: [UInt8]
    package let length: UInt64

    package init(hash: [UInt8], length: UInt64) {
      self.hash = hash
      self.length = length
    }
  }

  package let position: LogPosition
  package let origin: LogOrigin
  /// Names the parts.
  package let writer: PackID
  package let parts: [Part]
  package let items: UInt64
  /// The last recovery that the log stands on.
  package let recovery: LogRecovery?
  /// Segments before this one that the writer had read, ascending: at most `LogRecovery.mostKnown`,
  /// and none from a release that did not tell.
  package let known: [LogPosition]

  package init(
    position: LogPosition, origin: LogOrigin, writer: PackID, parts: [Part], items: UInt64,
    recovery: LogRecovery? = nil, known: [LogPosition] = []
  ) {
    self.known = known
    self.recovery = recovery
    self.position = position
    self.origin = origin
    self.writer = writer
    self.parts = parts
    self.items = items
  }

  /// Whether a device that has read up to a position has read another log than the writer. A
  /// position before all that the writer tells of says nothing.
  package func isFork(for position: LogPosition) -> Bool {
    guard let first = known.first, position.sequence >= first.sequence else { return false }
    return !(known + [self.position]).contains(position)
  }
}
