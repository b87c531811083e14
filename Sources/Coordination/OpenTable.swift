internal import Catalog
internal import Platform

/// How often each inode is open, and how often for writing.
///
/// An open for writing is an implicit writing claim: nothing is uploaded from, evicted or replaced
/// until it is closed. Locks: the shards are leaves; nothing is called under them.
final class OpenTable: Sendable {
  struct Count {
    var total = 0
    var writers = 0
    /// Of the writers, those that are about to open it and have written nothing.
    var announced = 0
    /// Those that may have written something.
    var realWriters: Int { writers - announced }
    /// Of the writers, as far as it is known: one for each open.
    var processes: [Int32] = []
  }

  private let shards: [Lock<[InodeNumber: Count]>] = (0..<16).map { _ in Lock([:]) }

  private func shard(_ number: InodeNumber) -> Lock<[InodeNumber: Count]> {
    shards[Int(number.rawValue & 15)]
  }

  func opened(_ number: InodeNumber, forWriting: Bool, by process: Int32, isAnnounced: Bool) {
    shard(number).withLock { table in
      table[number, default: Count()].total += 1
      guard forWriting else { return }
      table[number, default: Count()].writers += 1
      if isAnnounced { table[number, default: Count()].announced += 1 }
      if process > 0 { table[number, default: Count()].processes.append(process) }
    }
  }

  /// Gives the opens that are left.
  func closed(
    _ number: InodeNumber, forWriting: Bool, by process: Int32, isAnnounced: Bool
  ) -> Count {
    shard(number).withLock { table in
      guard var count = table[number] else { return Count() }
      count.total -= 1
      if forWriting {
        count.writers -= 1
        if isAnnounced { count.announced -= 1 }
        if let index = count.processes.firstIndex(of: process) { count.processes.remove(at: index) }
      }
      table[number] = count.total == 0 ? nil : count
      return count
    }
  }

  /// Not of one moment; who opened before the call and has not closed is among them.
  var writers: [InodeNumber] {
    shards.flatMap { shard in
      shard.withLock { $0.filter { $0.value.writers > 0 }.map(\.key) }
    }.sorted()
  }

  func count(_ number: InodeNumber) -> Count {
    shard(number).withLock { $0[number] ?? Count() }
  }
}
