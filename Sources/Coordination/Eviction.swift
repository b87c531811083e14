package import Catalog
internal import ContentStore
internal import Model
internal import Platform
package import SystemPackage

/// One eviction, which goes on where it was when the store was looked at again.
///
/// A look at the store holds for a moment, and a directory may take long. So files are evicted in
/// batches, and the store must be confirmed right before each. `run` throws EAGAIN when it is not.
/// The caller calls `confirmStore` then, and `run` again. Files that were evicted by then stay
/// evicted.
package struct Eviction: Sendable {
  private let coordinator: ContainerCoordinator
  private let number: InodeNumber
  private let claimant: ClaimantID?
  /// Evicted with one look at the store and one wait for the disk.
  private let batchSize: Int
  /// When it was asked for: no look at the store from before counts.
  package let since: UInt64

  private var hasBegun = false
  /// The directory that is being walked, from where on, and those that come after it.
  private var directory: InodeNumber?
  private var offset: Int64 = 0
  private var waiting: [InodeNumber] = []
  /// Files that were found and are still to be evicted.
  private var batch: [InodeNumber] = []
  /// How often in a row the answer of the store was too old before it was used.
  private var vainLooks = 0

  /// `claimant` has claimed it for evicting, so that its presenters know.
  package init(
    _ number: InodeNumber, of coordinator: ContainerCoordinator, by claimant: ClaimantID? = nil,
    batchSize: Int = 1000
  ) {
    self.coordinator = coordinator
    self.number = number
    self.claimant = claimant
    self.batchSize = batchSize
    since = monotonicNanoseconds()
  }

  /// Evicts as much as one look at the store allows. Throws as `ContainerCoordinator.evict` says.
  package mutating func run() throws(Errno) {
    do throws(Errno) {
      try goOn()
    } catch .resourceTemporarilyUnavailable {
      vainLooks += 1
      guard vainLooks <= ContainerCoordinator.confirmations else { throw .resourceBusy }
      throw .resourceTemporarilyUnavailable
    }
  }

  /// `run` to the end. `confirm` looks at the store, and gives why nothing may be evicted.
  package mutating func finish(
    asking confirm: () throws(Errno) -> Errno?
  ) throws(Errno) {
    while true {
      do throws(Errno) {
        return try run()
      } catch .resourceTemporarilyUnavailable {
        if let refusal = try confirm() { throw refusal }
      }
    }
  }

  /// `finish` for a task.
  package mutating func finish() async throws(Errno) {
    while true {
      do throws(Errno) {
        return try run()
      } catch .resourceTemporarilyUnavailable {
        if let refusal = await coordinator.storeRefusal(since: since) { throw refusal }
      }
    }
  }

  /// `finish` for a caller that may not wait for the store. `completion` is called once, on any
  /// thread.
  package func start(_ completion: @escaping @Sendable (Errno?) -> Void) {
    var eviction = self
    do throws(Errno) {
      try eviction.run()
    } catch .resourceTemporarilyUnavailable {
      let next = eviction
      return coordinator.confirmStore(since: since) { refusal in
        if let refusal { completion(refusal) } else { next.start(completion) }
      }
    } catch {
      return completion(error)
    }
    completion(nil)
  }

  // MARK: Steps

  private mutating func goOn() throws(Errno) {
    if !hasBegun {
      let inode = try coordinator.catalog.inode(number)
      guard inode.kind == .directory, !inode.isExcluded else {
        return try coordinator.evictFile(inode, since: since, by: claimant)
      }
      try coordinator.requireConfirmedStore(since: since)
      if try coordinator.isPackage(inode) {
        guard !coordinator.isClaimed(number, by: claimant) else { throw Errno.resourceBusy }
        return try coordinator.evictPackage(number)
      }
      hasBegun = true
      directory = number
    }
    while true {
      if batch.count >= batchSize {
        try evictBatch()
      } else if let directory {
        try walk(directory)
      } else if batch.isEmpty {
        return
      } else {
        try evictBatch()
      }
    }
  }

  /// Notes the next names.
  private mutating func walk(_ current: InodeNumber) throws(Errno) {
    let page: [DirectoryEntry]
    do throws(Errno) {
      page = try coordinator.catalog.readDirectory(current, after: offset, limit: 512)
    } catch .noSuchFileOrDirectory {
      // Removed meanwhile.
      page = []
    }
    guard let last = page.last else {
      directory = waiting.popLast()
      offset = 0
      return
    }
    offset = last.offset
    for entry in page {
      switch entry.inode.kind {
      case .directory: waiting.append(entry.inode.number)
      case .file where !entry.inode.isExcluded: batch.append(entry.inode.number)
      default: break
      }
    }
  }

  /// Files that cannot be evicted stay; the rest goes.
  private mutating func evictBatch() throws(Errno) {
    let files = batch.prefix(batchSize)
    let free = files.filter { number in
      guard let inode = try? coordinator.catalog.inode(number) else { return false }
      return !coordinator.isPinned(inode) && !coordinator.isClaimed(number, by: claimant)
        && !coordinator.hasUnseenWriter(inode)
    }
    if !free.isEmpty {
      try coordinator.requireConfirmedStore(since: since)
      try coordinator.evictFiles(free)
      vainLooks = 0
    }
    batch.removeFirst(files.count)
  }
}
