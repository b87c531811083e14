internal import Catalog
internal import Model
internal import Platform
internal import Synchronization

/// Counts the changes of names that the kernel may not have heard of.
///
/// A change counts from before its commit until the kernel has forgotten the names. The kernel
/// locks a directory to forget a name in it, and for the whole of a rename or removal. So if a
/// program's request meets a change in the catalog, the change still counts, or the kernel had
/// forgotten the name before the request began. Any thread. The lock is a leaf.
final class StaleNames: Sendable {
  struct Request: Hashable {
    let thread: Int32
    let parent: InodeNumber
    let name: ItemName
  }

  /// Requests that were refused and never came again: their program was killed.
  private static let limit = 1000

  private let changes = Atomic<Int>(0)
  /// Those that were refused and will come again.
  private let refused = Lock<Set<Request>>([])

  var isAny: Bool { changes.load(ordering: .sequentiallyConsistent) > 0 }

  func begin() { changes.add(1, ordering: .sequentiallyConsistent) }
  func end() { changes.subtract(1, ordering: .sequentiallyConsistent) }

  /// Once for each request: the kernel tries a second time, and not a third.
  func mustAskAgain(_ request: Request) -> Bool {
    guard isAny, request.thread != 0 else { return false }
    return refused.withLock { refused in
      if refused.remove(request) != nil { return false }
      if refused.count >= Self.limit { refused.removeAll() }
      refused.insert(request)
      return true
    }
  }
}
