internal import Catalog
internal import Platform

/// What is remembered of an inode, beside how often the kernel looked it up, while the kernel knows
/// it or something has it open. Most inodes have nothing of it.
struct NodeState {
  /// Lookups beyond what a page can count.
  var lookups: UInt64 = 0
  var openings = 0
  /// There while `openings` is not 0.
  var content: OpenContent?
  /// The content of which the kernel may have pages.
  var cached: CachedContent?
  /// Up to where the kernel may have pages of it, from earlier opens.
  var cachedUpTo: UInt64 = 0

  var isEmpty: Bool {
    lookups == 0 && openings == 0 && content == nil && cached == nil
  }
}

struct CachedContent: Equatable {
  var generation: UInt64
  var isLocal: Bool
}

/// The inodes in use, in shards so that requests on different ones do not meet.
///
/// The kernel knows of every inode that was ever listed, so lookups are counted in little room:
/// sixteen inodes that follow each other, as those made one after the other do, share a page.
/// Orphans share one too: when another device removes very many files, the kernel forgets them
/// late.
///
/// A shard's lock is a leaf but for one thing: the lock of an `OpenContent` is never held above it,
/// and nothing is called under it.
final class NodeTable: Sendable {
  private struct Shard {
    var pages: [UInt64: SIMD16<UInt32>] = [:]
    var states: [InodeNumber: NodeState] = [:]
    /// The inodes of a page whose last name is gone, a bit for each. They are in use, and go when
    /// nothing uses them any more.
    var orphans: [UInt64: UInt16] = [:]
    /// The inodes of a page that the kernel looked up under an earlier daemon, nobody knows how
    /// often. It forgets all lookups of an inode at once, unless it drops one that it had no use
    /// for: so the first FORGET of more lookups than were counted here is of those too.
    var inherited: [UInt64: UInt16] = [:]

    func isInherited(_ number: InodeNumber) -> Bool {
      (inherited[number.page] ?? 0) & number.bit != 0
    }

    mutating func clearInherited(_ number: InodeNumber) {
      guard let bits = inherited[number.page] else { return }
      inherited[number.page] = bits == number.bit ? nil : bits & ~number.bit
    }

    func isOrphan(_ number: InodeNumber) -> Bool {
      (orphans[number.page] ?? 0) & number.bit != 0
    }

    mutating func setOrphan(_ number: InodeNumber) {
      orphans[number.page, default: 0] |= number.bit
    }

    mutating func clearOrphan(_ number: InodeNumber) {
      guard let bits = orphans[number.page] else { return }
      orphans[number.page] = bits == number.bit ? nil : bits & ~number.bit
    }

    func lookups(_ number: InodeNumber) -> UInt64 {
      UInt64(pages[number.page]?[number.place] ?? 0) + (states[number]?.lookups ?? 0)
    }

    /// Whether the kernel knows it or something has it open.
    func isUsed(_ number: InodeNumber) -> Bool {
      (states[number]?.openings ?? 0) > 0 || isKnown(number)
    }

    /// Whether the kernel knows it.
    func isKnown(_ number: InodeNumber) -> Bool { lookups(number) > 0 || isInherited(number) }

    mutating func addLookup(_ number: InodeNumber) {
      let isFull = { (count: inout UInt32) in
        defer { count &+= 1 }
        return count == .max
      }(&pages[number.page, default: .zero][number.place])
      if isFull { states[number, default: NodeState()].lookups += 1 << 32 }
    }

    mutating func removeLookups(_ number: InodeNumber, _ count: UInt64) {
      let known = lookups(number)
      if count > known { clearInherited(number) }
      guard known > 0, count > 0 else { return }
      let left = known - min(known, count)
      let page = number.page
      var counts = pages[page] ?? .zero
      counts[number.place] = UInt32(truncatingIfNeeded: left)
      pages[page] = counts == .zero ? nil : counts
      if states[number] != nil { states[number]?.lookups = left & ~UInt64(UInt32.max) }
    }

    /// Drops what need not be remembered.
    mutating func trim(_ number: InodeNumber) {
      guard isUsed(number) else {
        states[number] = nil
        return clearOrphan(number)
      }
      if states[number]?.isEmpty == true { states[number] = nil }
    }
  }

  private let shards: [Lock<Shard>] = (0..<32).map { _ in Lock(Shard()) }

  private let record: MountRecord?

  init(record: MountRecord? = nil) { self.record = record }

  /// What the kernel knows from an earlier daemon, and what of it has no name any more.
  func inherit(_ known: [InodeNumber], orphans: [InodeNumber]) {
    for number in known {
      shard(number).withLock { $0.inherited[number.page, default: 0] |= number.bit }
    }
    for number in orphans {
      shard(number).withLock { if $0.isUsed(number) { $0.setOrphan(number) } }
    }
  }

  func inherited() -> [InodeNumber] {
    shards.flatMap { shard in
      shard.withLock { shard in
        shard.inherited.flatMap { page, bits in
          (0..<16).filter { bits & 1 << $0 != 0 }.map { InodeNumber(page << 4 | UInt64($0)) }
        }
      }
    }
  }

  private func shard(_ number: InodeNumber) -> Lock<Shard> { shards[Int(number.page & 31)] }

  /// Changes an inode's state; it is dropped when nothing uses it after.
  func update<Result>(_ number: InodeNumber, _ body: (inout NodeState) -> Result) -> Result {
    shard(number).withLock { shard in
      let result = body(&shard.states[number, default: NodeState()])
      shard.trim(number)
      return result
    }
  }

  /// Counts a lookup; gives the content where the inode is open.
  @discardableResult
  func addLookup(_ number: InodeNumber) -> OpenContent? {
    shard(number).withLock { shard in
      if let record, !shard.isKnown(number) { record.becameKnown(number) }
      shard.addLookup(number)
      return shard.states[number]?.content
    }
  }

  /// Takes lookups back; whether that leaves an orphan that nothing uses, which is forgotten with
  /// it.
  func forget(_ number: InodeNumber, count: UInt64) -> Bool {
    shard(number).withLock { shard in
      shard.removeLookups(number, count)
      let isGone = shard.isOrphan(number) && !shard.isUsed(number)
      if let record, !shard.isKnown(number) { record.becameUnknown(number) }
      shard.trim(number)
      return isGone
    }
  }

  /// Notes that an inode lost its last name; whether nothing uses it any more.
  func becameOrphan(_ number: InodeNumber) -> Bool {
    shard(number).withLock { shard in
      guard shard.isUsed(number) else {
        shard.states[number] = nil
        return true
      }
      shard.setOrphan(number)
      return false
    }
  }

  /// Whether the kernel knows it or something has it open.
  func isUsed(_ number: InodeNumber) -> Bool { shard(number).withLock { $0.isUsed(number) } }

  func state(_ number: InodeNumber) -> NodeState? {
    shard(number).withLock { $0.states[number] }
  }

  /// Empties the table; gives the orphans that were in it.
  func removeAll() -> [InodeNumber] {
    var result: [InodeNumber] = []
    for shard in shards {
      shard.withLock { shard in
        for (page, bits) in shard.orphans {
          for place in 0..<16 where bits & 1 << place != 0 {
            result.append(InodeNumber(page << 4 | UInt64(place)))
          }
        }
        shard = Shard()
      }
    }
    return result
  }

  /// The inodes that it knows of.
  var count: Int {
    shards.reduce(0) { sum, shard in
      shard.withLock { shard in
        var numbers = Set(shard.states.keys)
        for (page, bits) in shard.inherited {
          for place in 0..<16 where bits & 1 << place != 0 {
            numbers.insert(InodeNumber(page << 4 | UInt64(place)))
          }
        }
        for (page, counts) in shard.pages {
          for place in 0..<16 where counts[place] > 0 {
            numbers.insert(InodeNumber(page << 4 | UInt64(place)))
          }
        }
        return sum + numbers.count
      }
    }
  }
}

extension InodeNumber {
  fileprivate var page: UInt64 { rawValue >> 4 }
  fileprivate var place: Int { Int(rawValue & 15) }
  fileprivate var bit: UInt16 { 1 << UInt16(place) }
}
