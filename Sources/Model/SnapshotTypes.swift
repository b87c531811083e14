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

/// How far a device has read a container's log, as it told the others.
package struct DeviceCursor: Hashable, Sendable {
  package let device: DeviceID
  package let sequence: UInt64
  package let time: Timestamp
  package let keepRemovedDays: UInt32

  package init(device: DeviceID, sequence: UInt64, time: Timestamp, keepRemovedDays: UInt32) {
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

  package init(
    position: LogPosition, origin: LogOrigin, writer: PackID, parts: [Part], items: UInt64
  ) {
    self.position = position
    self.origin = origin
    self.writer = writer
    self.parts = parts
    self.items = items
  }
}
