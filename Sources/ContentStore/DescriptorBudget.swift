internal import Glibc
internal import Platform

/// Something that keeps descriptors of a content file between uses, and can open the file again.
package protocol DescriptorHolder: AnyObject, Sendable {
  /// By `monotonicNanoseconds`.
  var lastUse: UInt64 { get }
  /// Closes the descriptors; a use under way keeps its own reference. Never waits for a lock. Gives
  /// whether anything was closed.
  func closeDescriptors() -> Bool
}

/// Limits how many content files stay open between uses.
///
/// All programs share the descriptors of the daemon. Above the limit the files that were not used
/// for longest are closed, so that a program which opens very many files takes no descriptor away
/// from sync. Holders may call it with their own lock held. The lock is a leaf.
package final class DescriptorBudget: Sendable {
  package static let shared = DescriptorBudget()

  private struct Entry {
    weak var holder: (any DescriptorHolder)?
  }

  private let holders = Lock<[ObjectIdentifier: Entry]>([:])
  private let limit: Int?

  /// `limit` is of holders; by default it follows the limit of the process.
  package init(limit: Int? = nil) { self.limit = limit }

  /// A holder may have two descriptors: half of all are left for everything else.
  private static var limitOfProcess: Int {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 256 }
    return max(16, Int(clamping: limit.rlim_cur) / 4)
  }

  /// The holder has a descriptor now.
  package func opened(_ holder: any DescriptorHolder) {
    let count = holders.withLock { holders in
      holders[ObjectIdentifier(holder)] = Entry(holder: holder)
      return holders.count
    }
    let most = limit ?? Self.limitOfProcess
    if count > most { _ = close(count - most + most / 4) }
  }

  /// The holder has none any more; called at its end.
  package func forget(_ holder: ObjectIdentifier) {
    holders.withLock { _ = $0.removeValue(forKey: holder) }
  }

  /// The process has no descriptor left. Gives whether any was closed.
  package func relieve() -> Bool { close(max(1, count / 2)) }

  package var count: Int { holders.withLock { $0.count } }

  /// Has the least recently used holders close their files.
  private func close(_ number: Int) -> Bool {
    // Kept beyond the lock: the last reference to a holder must not go under it.
    let all = holders.withLock { $0.values.compactMap(\.holder) }
    let oldest = all.map { (use: $0.lastUse, holder: $0) }.sorted { $0.use < $1.use }
    var closed = 0
    for (_, holder) in oldest where closed < number {
      guard holder.closeDescriptors() else { continue }
      closed += 1
      forget(ObjectIdentifier(holder))
    }
    return closed > 0
  }
}
