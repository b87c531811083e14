package import Catalog
package import Model

/// When the log is compacted, and what is kept how long. Pure: the same for the same state.
///
/// Any device may do any of it, and what two do at once does no harm. So that not all do it, the
/// one that wrote the last segment goes first: it is awake and has the state. The others follow
/// when it did not, each a little later than the next.
package struct CompactionPolicy: Sendable, Hashable {
  package static let day = Int64(86_400) * 1_000_000_000

  /// Another device's cursor may say any number.
  static func days(_ count: Int64) -> Int64 {
    let (result, overflow) = count.multipliedReportingOverflow(by: day)
    return overflow ? .max : result
  }

  package var isEnabled = true
  /// Whether packs that nothing uses are looked for and removed.
  package var removesPacks = true
  /// How often a device looks whether there is something to do. It asks its catalog, not the
  /// backend.
  package var interval: Duration = .seconds(600)
  /// So many segments beyond the last snapshot are worth another one, ...
  package var snapshotSegments: UInt64 = 2_000
  /// ... or so much in them (`LogChanges.weight`) beyond what the snapshot takes.
  package var snapshotWeight: UInt64 = 8 << 20
  /// A snapshot of fewer segments saves nobody anything.
  package var leastSegments: UInt64 = 8
  /// So many segments before a snapshot stay, ...
  package var keepSegments: UInt64 = 256
  /// ... and all for so long after it was told of. Times are in nanoseconds of this device's clock.
  package var keepLog = 7 * CompactionPolicy.day
  /// From a pack's condemnation, as it came to be known here, to its removal.
  package var grace = 7 * CompactionPolicy.day
  /// A device that has told nothing for so long is not waited for.
  package var away = 30 * CompactionPolicy.day
  /// Between two searches for packs that nothing uses.
  package var garbageInterval = CompactionPolicy.day
  /// A pack that is younger is let be: its content may be about to be committed.
  package var leastPackAge = Int64(3600) * 1_000_000_000
  /// A pack of which less is live is written anew without the rest.
  package var liveShare = 0.3
  /// What is written anew in one go, in bytes.
  package var repackLimit: UInt64 = 64 << 20
  /// Between two looks for packs that no log ever told of.
  package var strayInterval = 7 * CompactionPolicy.day
  /// Such packs are left to uploads that are to be gone on with for so long.
  package var strayAge = 30 * CompactionPolicy.day

  package init() {}

  /// 1 for whoever wrote the last segment; for each of the others a number of its own from 1.5 to
  /// 2.5.
  private func patience(of device: DeviceID, _ length: LogLength) -> Double {
    if length.author == device { return 1 }
    let mixed = (device.low ^ length.snapshot) &* 0x9E37_79B9_7F4A_7C15
    return 1.5 + Double(mixed >> 40) / Double(1 << 24)
  }

  package func isSnapshotDue(_ length: LogLength, for device: DeviceID) -> Bool {
    let patience = patience(of: device, length)
    let segments = Double(length.segments) / patience
    let weight = Double(length.weight) / patience
    guard segments >= Double(leastSegments) else { return false }
    if weight >= Double(snapshotWeight) + Double(length.snapshotBytes) { return true }
    // A large container is not written anew for every few thousand small changes.
    let isWorth = weight * 20 >= Double(length.snapshotBytes)
    return segments >= Double(snapshotSegments) * (isWorth ? 1 : 10)
  }

  /// The snapshot that makes what is before it superfluous: the newest that was known for long
  /// enough.
  package func settled(_ snapshots: [KnownSnapshot], for device: DeviceID, now: Timestamp)
    -> KnownSnapshot?
  {
    snapshots.filter { known in
      let wait = keepLog.multipliedReportingOverflow(by: known.device == device ? 1 : 2)
      return !wait.overflow && now.nanoseconds(since: known.since) >= wait.partialValue
    }.max { $0.mark.sequence < $1.mark.sequence }
  }

  /// Up to where the log may go once a snapshot is settled; 0: nothing of it.
  package func removable(before snapshot: UInt64) -> UInt64 {
    snapshot > keepSegments ? snapshot - keepSegments : 0
  }

  package func isSearchDue(
    last: Timestamp, _ length: LogLength, for device: DeviceID, now: Timestamp
  )
    -> Bool
  {
    Double(now.nanoseconds(since: last))
      >= Double(garbageInterval) * patience(of: device, length)
  }

  /// Whether a condemned pack may go: this device has known for the grace that it is condemned, and
  /// every device that is not away has read that it is.
  ///
  /// Clocks of other devices do not count: a cursor is as old as this device has seen it unchanged.
  package func mayDelete(
    condemnedAt sequence: UInt64, since: Timestamp,
    cursors: [(sequence: UInt64, unchangedSince: Timestamp)], now: Timestamp
  ) -> Bool {
    guard now.nanoseconds(since: since) >= grace else { return false }
    return cursors.allSatisfy { cursor in
      cursor.sequence >= sequence
        || now.nanoseconds(since: cursor.unchangedSince) >= away
    }
  }

  /// What is to be done with a pack in use.
  package enum Fate: Sendable, Hashable {
    case keep
    case condemn
    /// Its live chunks go into another one first.
    case rewrite
  }

  package func fate(of pack: PackUse, now: Timestamp) -> Fate {
    guard now.nanoseconds(since: pack.since) >= leastPackAge else { return .keep }
    if pack.live.isEmpty { return .condemn }
    return Double(pack.liveBytes) < Double(pack.bytes) * liveShare ? .rewrite : .keep
  }
}
