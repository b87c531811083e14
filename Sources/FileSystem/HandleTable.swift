internal import Platform
internal import Synchronization
internal import SystemPackage

/// Open files by the number that the kernel has for them; a number is never used again.
final class HandleTable: Sendable {
  private let next = Atomic<UInt64>(1)
  private let shards: [Lock<[UInt64: OpenFileHandle]>] = (0..<16).map { _ in Lock([:]) }

  private func shard(_ handle: UInt64) -> Lock<[UInt64: OpenFileHandle]> {
    shards[Int(handle & 15)]
  }

  func add(_ file: OpenFileHandle) -> UInt64 {
    let handle = next.add(1, ordering: .relaxed).oldValue
    shard(handle).withLock { $0[handle] = file }
    return handle
  }

  /// Numbers begin here. Before there are any of this table's own.
  func begin(at first: UInt64) { next.store(first, ordering: .relaxed) }

  /// An open of an earlier daemon, which keeps its number.
  func restore(_ file: OpenFileHandle, as handle: UInt64) {
    shard(handle).withLock { $0[handle] = file }
  }

  func get(_ handle: UInt64) throws(Errno) -> OpenFileHandle {
    guard let file = shard(handle).withLock({ $0[handle] }) else {
      throw Errno.badFileDescriptor
    }
    return file
  }

  var isEmpty: Bool { shards.allSatisfy { $0.withLock { $0.isEmpty } } }

  func remove(_ handle: UInt64) -> OpenFileHandle? {
    shard(handle).withLock { $0.removeValue(forKey: handle) }
  }

  func removeAll() -> [OpenFileHandle] {
    shards.flatMap { shard in
      shard.withLock { table in
        defer { table = [:] }
        return Array(table.values)
      }
    }
  }
}
