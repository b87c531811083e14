internal import Backend
internal import Model
internal import Platform
internal import RecordFormat

/// A segment that was put where the log is no more.
///
/// Who looked at the log, was then suspended for longer than old log is kept, and puts its segment
/// now, finds the place free: what others put there was removed with all before it. Nobody would
/// ever read it. Old log goes from the oldest on, and the head never goes: while the segment before
/// is there, the place was free indeed.
extension RemoteContainer {
  /// Whether a segment that was just put after `previous` is part of the log, and its last as far
  /// as the store shows. If it is not part of the log, it is removed again. Throws when that cannot
  /// be told now; then the log is to be read.
  func isInLog(_ committed: LogPosition, after previous: LogPosition) async throws(RemoteError)
    -> Bool
  {
    if PlantedMistake.putsUnchecked.isPlanted { return true }
    let name = ObjectName.segment(incarnation, committed.sequence)
    if committed.sequence == 1 {
      // Nothing is before it. What is after it has to come after it.
      do throws(RemoteError) {
        return try await segments(after: committed).isEmpty
      } catch .rolledBack, .logRemoved {
        try await removeVacated(name)
        return false
      }
    }
    let before = ObjectName.segment(incarnation, previous.sequence)
    switch await headState(previous) {
    case .same, .unknown: return true
    case .failed(let error): throw error
    case .missing: break
    case .other:
      // The store went back, and another device wrote this number again.
      try await removeVacated(name)
      throw .rolledBack(object: before)
    }
    // It may only not be shown yet. It is older than ours: a list that has ours would have it.
    let listed = try await segmentKeys(after: previous.sequence - 1, limit: 1000)
    if listed.contains(before) { return !listed.contains { keyPrecedes(name, $0) } }
    guard listed.contains(name) else {
      throw .store(.unavailable("the log in the backend cannot be read to its end"))
    }
    try await removeVacated(name)
    return false
  }

  /// A device that reads it in the meantime finds that nothing comes after it, and reads a
  /// snapshot.
  private func removeVacated(_ name: String) async throws(RemoteError) {
    let store = store
    try await storing { () async throws(StoreError) in try await store.delete(name) }
  }
}
