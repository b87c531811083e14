internal import Backend
internal import Platform

/// The last lists of directories, so that a poll of a directory without news costs one round trip.
///
/// **Invariant: a list is reused only if it shows everything that was in the directory while its
/// modification time was the present one.** SFTP tells times in whole seconds, so a change may
/// follow a list within the same second and not show in the time. A list is settled when it was
/// begun two seconds or more after its time was first seen; only a settled list is reused.
final class DirectoryCache: Sendable {
  private struct Known {
    var modified: UInt32
    /// When that time was first seen, in monotonic nanoseconds.
    var seen: UInt64
    var entries: [StoreTree.Entry]?
  }

  private let known = Lock<[String: Known]>([:])

  private static let most = 32
  private static let settling: UInt64 = 2_000_000_000

  /// The entries of a directory whose modification time is now `modified`, if they are known.
  func entries(_ path: String, modified: UInt32) -> [StoreTree.Entry]? {
    known.withLock { known in
      if known[path]?.modified != modified {
        if known.count >= Self.most { known = [:] }
        known[path] = Known(modified: modified, seen: monotonicNanoseconds())
      }
      return known[path]?.entries
    }
  }

  /// Stores a list that was begun at `begun`, after `entries(_:modified:)` had returned nil.
  func store(_ entries: [StoreTree.Entry], of path: String, modified: UInt32, begun: UInt64) {
    known.withLock { known in
      guard let entry = known[path], entry.modified == modified,
        begun >= entry.seen + Self.settling
      else { return }
      known[path]?.entries = entries
    }
  }
}
