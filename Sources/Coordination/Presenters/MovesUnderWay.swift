internal import Glibc
internal import Synchronization

/// Whether something is being moved: in the catalog it has its new name, and claims and presenters
/// are where it was. What is told of a place in between would be told to nobody.
///
/// Whoever moves pays two additions. `begin` before the catalog is changed, `end` when claims and
/// presenters have followed. A leaf, without a lock.
final class MovesUnderWay: Sendable {
  /// So many times `between` looks whether no move is under way, a millisecond apart, before it
  /// gives up.
  private static let patience = 30_000

  private let begun = Atomic<UInt64>(0)
  private let ended = Atomic<UInt64>(0)

  func begin() { begun.add(1, ordering: .sequentiallyConsistent) }
  func end() { ended.add(1, ordering: .sequentiallyConsistent) }

  /// The number of moves up to now, once none of them is under way. With it, what is read from the
  /// catalog next is where the claim table says until `isStill` is asked.
  private func quiet() -> UInt64? {
    let ended = ended.load(ordering: .sequentiallyConsistent)
    return begun.load(ordering: .sequentiallyConsistent) == ended ? ended : nil
  }

  private func isStill(_ moves: UInt64) -> Bool {
    begun.load(ordering: .sequentiallyConsistent) == moves
  }

  /// Has `body` done until it saw the catalog and the claim table in one state. It asks `isStill`
  /// with the claim table's lock held, and does nothing if that is false: a move that begins after
  /// it waits for that lock. Blocks its thread; not for who moves.
  ///
  /// Returns false when something was moved all the time: then it is not known whom the news
  /// concerns.
  func between(_ body: (_ isStill: () -> Bool) -> Void) -> Bool {
    for _ in 0..<Self.patience {
      guard let moves = quiet() else {
        usleep(1000)
        continue
      }
      var wasStill = true
      body {
        wasStill = wasStill && isStill(moves)
        return wasStill
      }
      if wasStill { return true }
    }
    return false
  }
}
