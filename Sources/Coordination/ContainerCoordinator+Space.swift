package import Catalog
internal import ContentStore
internal import Model
package import Platform
internal import SystemPackage

/// What the file system and the downloads tell of local space, and ask for.
extension ContainerCoordinator {
  /// Whether there is a budget: only then uses are noted, and every close is looked at.
  package var hasBudget: Bool { space?.hasBudget ?? false }

  /// A program opens or closes the file: of that the choice of what is evicted is made. Costs one
  /// write of eight bytes, and nothing without a budget.
  package func noteUse(_ number: InodeNumber) {
    uses?.note(number, at: SystemClock().nanoseconds())
  }

  func lastUse(of number: InodeNumber) -> Int64 { uses?.time(of: number) ?? 0 }

  /// A file is opened for writing: from here on it may grow unseen.
  package func noteGrowing() { space?.noteGrowing() }

  /// Something was stored, or what was stored may be given back now.
  package func noteStored() { space?.noteStored() }

  /// A file is closed, or something is kept no more: it may be given back.
  package func noteEvictable() { space?.noteEvictable() }

  /// Whether so much would still be within the budget.
  func hasRoom(for bytes: UInt64) -> Bool { space?.hasRoom(for: bytes) ?? true }

  /// Room for a download that nobody asked for: it takes none from what is here.
  package enum EagerRoom: Sendable {
    case unlimited
    case reserved(SpaceReservation)
    case full
  }

  package func reserveEagerly(_ bytes: UInt64) -> EagerRoom {
    guard let space, space.hasBudget else { return .unlimited }
    // In the units in which the disk gives room.
    let block = OpenFile.holeBlock
    let blocks = (bytes / block) * block &+ (bytes.isMultiple(of: block) ? 0 : block)
    return space.reserveFree(blocks).map(EagerRoom.reserved) ?? .full
  }

  /// Of what nobody asked for the largest comes first: what was used or changed last. All are alike
  /// without a budget.
  package func eagerRank(of number: InodeNumber) -> Int64 {
    guard hasBudget, let inode = try? catalog.inode(number) else { return 0 }
    return max(lastUse(of: number), min(inode.modified, catalog.now).nanoseconds)
  }

  /// Makes room for what is about to be fetched, as far as there is something to give back for it:
  /// what somebody reads comes in any case. Nil without a budget.
  package func reserve(_ bytes: UInt64) async -> SpaceReservation? {
    guard let space, space.hasBudget else { return nil }
    return await space.reserve(bytes)
  }

  /// How much of the disk a copy that can wait leaves free: what the user wants free, else 5 % and
  /// at most 1 GiB; at least 256 MiB.
  package func bytesToKeepFree(of disk: DiskStatistics) -> UInt64 {
    let share = min(disk.blocks &* disk.blockSize / 20, 1 << 30)
    return max(space?.limits.marks(on: disk).minimumFree ?? share, 256 << 20)
  }

  /// The disk is full. `completion` is called once, on another thread, with whether something was
  /// given back. False: nobody could, and it is not called.
  package func makeRoom(
    for bytes: UInt64, _ completion: @escaping @Sendable (Bool) -> Void
  ) -> Bool {
    guard let space else { return false }
    return space.makeRoom(for: bytes, completion)
  }

  /// `makeRoom` for a task.
  package func makeRoom(for bytes: UInt64) async -> Bool {
    guard let space else { return false }
    return await withCheckedContinuation { continuation in
      if !space.makeRoom(for: bytes, { continuation.resume(returning: $0) }) {
        continuation.resume(returning: false)
      }
    }
  }

  /// A file that something wrote to is being closed while more is stored than may be. Nil: nothing
  /// is to be waited for. Else `completion` is called once, on another thread, when what was
  /// written before has been sent and given back, or when that does not come about.
  package func waitForRoom(_ completion: @escaping @Sendable () -> Void) -> SpaceTicket? {
    space?.waitForRoom(completion)
  }

  // MARK: Giving back

  /// Blocks for at most so long; false: nothing may be given back now.
  package func waitForConfirmedStore(milliseconds: Int) -> Bool {
    let start = monotonicNanoseconds()
    for _ in 0..<Self.confirmations {
      let passed = Int(clamping: (monotonicNanoseconds() - start) / 1_000_000)
      guard passed < milliseconds else { return false }
      let isAnswered = Gate()
      let isSound = Lock(false)
      confirmStore(since: start) { refusal in
        isSound.withLock { $0 = refusal == nil }
        isAnswered.open()
      }
      guard isAnswered.wait(milliseconds: milliseconds - passed), isSound.withLock({ $0 }) else {
        return false
      }
      guard let refusal = storeConfirmer.evictionRefusal(since: start) else { return true }
      // A slow look may be too old before it is of use.
      guard refusal == .resourceTemporarilyUnavailable else { return false }
    }
    return false
  }

  /// Evicts those of the files that can be, durably, and unlinks their bytes. Gives which.
  ///
  /// It is an eviction like any other: nothing that is open, changed, not sent, pinned or claimed
  /// goes. `claimant` has claimed them for evicting where somebody presents one.
  func giveBack(_ numbers: [InodeNumber], by claimant: ClaimantID? = nil) -> [InodeNumber] {
    guard storeConfirmer.evictionRefusal(since: 0) == nil else { return [] }
    let free = numbers.filter { number in
      guard !isOpen(number), !isClaimed(number, by: claimant),
        let inode = try? catalog.inode(number), !keeping(of: inode).isKept
      else { return false }
      return !hasUnseenWriter(inode)
    }
    guard let files = try? catalog.evict(free, isOpen: { self.isOpen($0) }), !files.isEmpty else {
      return []
    }
    evicted(files, isNow: true)
    return files.map(\.number)
  }

  /// A package is one document: all of it goes, or nothing.
  func giveBackPackage(_ number: InodeNumber, by claimant: ClaimantID? = nil) -> Bool {
    guard storeConfirmer.evictionRefusal(since: 0) == nil, !isClaimed(number, by: claimant) else {
      return false
    }
    do throws(Errno) {
      try evictPackage(number, isNow: true)
      return true
    } catch {
      return false
    }
  }

  /// Asks those who present an item to let go of it, and waits for their answers. Nil: somebody
  /// claims it, or did not let go in time. Blocks; what is given is to be ended with `leave` of the
  /// claim table.
  func claimForEvicting(_ number: InodeNumber, milliseconds: Int) -> ClaimantID? {
    guard let path = (try? claimed(number))?.path else { return nil }
    let access = ClaimAccess(path, .writing(.forEvicting))
    guard !claims.isTaken(access) else { return nil }
    let claimant = ClaimantID(claims.join(name: "an eviction to free local space"))
    let isAnswered = Gate()
    let isGiven = Lock(false)
    _ = claims.claim([access], by: claimant) { _, result in
      if case .success = result { isGiven.withLock { $0 = true } }
      isAnswered.open()
    }
    if isAnswered.wait(milliseconds: milliseconds), isGiven.withLock({ $0 }) { return claimant }
    claims.leave(claimant.party)
    return nil
  }

  /// Whether somebody presents the item, so that it cannot go without asking.
  func isPresented(_ number: InodeNumber) -> Bool {
    guard claims.isPresenting, let path = (try? claimed(number))?.path else { return false }
    return claims.isPresented(path)
  }
}
