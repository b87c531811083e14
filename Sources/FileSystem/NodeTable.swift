internal import Catalog
internal import Platform

/// What is remembered of an inode while the kernel knows it or something has it open.
struct NodeState {
  /// How often its name was answered, less what was forgotten.
  var lookups: UInt64 = 0
  var openings = 0
  /// There while `openings` is not 0.
  var content: OpenContent?
  /// Its last name is gone; it goes when nothing uses it any more.
  var isOrphan = false
  /// The content of which the kernel may have pages.
  var cached: CachedContent?

  var isUsed: Bool { lookups > 0 || openings > 0 }
}

struct CachedContent: Equatable {
  var generation: UInt64
  var isLocal: Bool
}

/// The inodes in use, in shards so that requests on different ones do not meet.
///
/// A shard's lock is a leaf but for one thing: the lock of an `OpenContent` is never held above it,
/// and nothing is called under it.
final class NodeTable: Sendable {
  private let shards: [Lock<[InodeNumber: NodeState]>] = (0..<32).map { _ in Lock([:]) }

  private func shard(_ number: InodeNumber) -> Lock<[InodeNumber: NodeState]> {
    shards[Int(number.rawValue & 31)]
  }

  /// Changes an inode's state; it is dropped when nothing uses it after.
  func update<Result>(_ number: InodeNumber, _ body: (inout NodeState) -> Result) -> Result {
    shard(number).withLock { table in
      var state = table[number] ?? NodeState()
      let result = body(&state)
      table[number] = state.isUsed ? state : nil
      return result
    }
  }

  func addLookup(_ number: InodeNumber) {
    shard(number).withLock { $0[number, default: NodeState()].lookups += 1 }
  }

  func state(_ number: InodeNumber) -> NodeState? { shard(number).withLock { $0[number] } }

  /// Empties the table; gives what was in it.
  func removeAll() -> [InodeNumber: NodeState] {
    var result: [InodeNumber: NodeState] = [:]
    for shard in shards {
      shard.withLock { table in
        result.merge(table) { first, _ in first }
        table = [:]
      }
    }
    return result
  }
}
