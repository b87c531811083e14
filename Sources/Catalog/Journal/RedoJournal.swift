internal import Platform
internal import SystemPackage

/// The redo journal: what was done since the database's last commit, a record for each operation.
///
/// Invariants:
/// - An operation that returned is in the journal or in a commit of the database. So the end of the
///   process loses nothing, and no request waits for SQLite.
/// - A commit of the database names the last sequence that it covers; `replay` begins after it.
/// - A record names the database commit that it presumes; a power cut that lost that commit ends
///   the replay there. What is left is what was so at one moment, in every case.
/// - A file is begun anew only when the database has durably what it holds.
///
/// Two files take turns, so that one can be written while the database catches up with the other.
/// Used under the engine's lock.
final class RedoJournal {
  /// Of one file: room for three flushes of new files. A start after a crash replays two files at
  /// the most, which takes a second or two.
  static let capacity: UInt64 = 16 << 20

  private let files: [RedoFile]
  private var active = 0
  private(set) var sequence: UInt64 = 0
  /// Of all records since the start.
  private(set) var bytes: UInt64 = 0
  /// The database has this much durably.
  private var covered: UInt64 = 0
  /// Records up to here outlive a power cut.
  private var durable: UInt64 = 0

  init(catalog path: String) throws(Errno) {
    files = [
      try RedoFile(path: path + "-redo-a", capacity: Self.capacity),
      try RedoFile(path: path + "-redo-b", capacity: Self.capacity),
    ]
  }

  /// The records after `covered`, in their order, up to the first that is missing or presumes more
  /// than `database` commits.
  func records(after covered: UInt64, database: UInt64) throws(Errno) -> [RedoFile.Record] {
    var found: [RedoFile.Record] = []
    for file in files { found += try file.read() }
    found.sort { $0.sequence < $1.sequence }
    var result: [RedoFile.Record] = []
    var next = covered + 1
    for record in found where record.sequence >= next {
      guard record.sequence == next, record.presumed <= database else { break }
      result.append(record)
      next += 1
    }
    return result
  }

  /// Begins anew after a replay, which is durable in the database.
  func start(after sequence: UInt64) throws(Errno) {
    self.sequence = sequence
    covered = sequence
    durable = sequence
    active = 0
    for file in files {
      try file.restart(from: sequence + 1)
      try file.file.synchronize()
    }
  }

  /// Whether `append` can be called: else the database has to catch up first, durably.
  func hasRoom(for length: Int) -> Bool {
    files[active].hasRoom(for: length) || files[1 - active].lastSequence <= covered
  }

  /// The other file will be needed before long, and waits only for the database to have durably
  /// what is committed, up to `committed`.
  func needsCover(committed: UInt64) -> Bool {
    let last = files[1 - active].lastSequence
    return last > covered && last <= committed && files[active].end > Self.capacity / 4
  }

  func append(_ record: [UInt8], presumed: UInt64) throws(Errno) {
    if !files[active].hasRoom(for: record.count) {
      let other = files[1 - active]
      // The header goes with the first records; both are of the same write-back or neither counts.
      try other.restart(from: sequence + 1)
      active = 1 - active
    }
    let file = files[active]
    try file.append(record, sequence: sequence + 1, presumed: presumed)
    sequence += 1
    bytes += UInt64(record.count)
  }

  /// What has to be synchronised for all records up to now to be durable. It stays so until
  /// `isDurable` says that it was: who comes while another synchronises does not return before.
  var unsynced: [OpenFile] { files.filter { $0.lastSequence > durable }.map(\.file) }

  func isDurable(upTo sequence: UInt64) { durable = max(durable, sequence) }

  /// The database has this much durably, and so the journal need not.
  func isCovered(upTo sequence: UInt64) {
    covered = max(covered, sequence)
    isDurable(upTo: sequence)
  }
}
