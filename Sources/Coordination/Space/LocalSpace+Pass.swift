internal import Catalog
internal import Model
internal import Platform

/// Why contents that take room are not given back.
package struct SpaceTally: Sendable, Hashable {
  /// What can be given back.
  package var evictable: UInt64 = 0
  /// Pinned, or below a directory that keeps what is downloaded.
  package var kept: UInt64 = 0
  /// Changed here and not sent yet.
  package var unsent: UInt64 = 0
  /// In use.
  package var open: UInt64 = 0
  /// Never sent: below a `.nosync` name.
  package var excluded: UInt64 = 0
}

/// A look at what is stored: evicting down to the low marks.
extension LocalSpace {
  typealias Candidate = EvictionCandidate<SpaceItem>

  func look() {
    let (requests, reserved) = state.withLock { state in
      defer { state.requests = [] }
      return (state.requests, state.reserved)
    }
    lookAtOpenFiles()
    var wanted: UInt64 = 0
    if let now = measured() {
      wanted = now.marks.excess(used: now.used, free: now.free, coming: reserved)
    }
    // What the disk has no room for is beyond all limits.
    let demanded = requests.map(\.bytes).max() ?? 0
    wanted = max(wanted, demanded)
    var freed: UInt64 = 0
    let time = monotonicNanoseconds()
    let rest = state.withLock { max($0.nothingUntil, $0.restUntil) }
    if wanted > 0, demanded > 0 || time >= rest {
      // Asked before the pass: a file that is sent during it may be no candidate of it.
      let hadUnsent = hasUnsent
      let isComplete: Bool
      (freed, isComplete) = giveBack(wanted)
      let isFruitless = isComplete && !hadUnsent && freed < wanted
      let end = monotonicNanoseconds()
      state.withLock { state in
        state.lastPass.began = time
        state.lastPass.fruitlessSince =
          isFruitless ? state.lastPass.fruitlessSince ?? time : nil
        state.shortfall = freed >= wanted ? 0 : wanted - freed
        guard freed == 0 else { return }
        state.restUntil = end &+ (end - time)
        // What is sent meanwhile nobody tells.
        state.nothingUntil = end &+ (state.closes.isEmpty ? 1_000_000_000 : Self.shortRest)
      }
    } else if wanted == 0 {
      state.withLock { $0.shortfall = 0 }
    }
    for request in requests { request.completion(freed > 0) }
    settleCloses(measured())
  }

  /// So many presenters are asked in a pass at the most, and for so long, in milliseconds.
  private static let asksInPass = 4
  private static let answerLimit = 2000
  /// Evicted with one wait for the disk.
  private static let batch = 256

  /// Gives back at least so many bytes, if there are as many that can be. Gives how many, and
  /// whether the store was confirmed for each container that can send.
  private func giveBack(_ wanted: UInt64) -> (freed: UInt64, isComplete: Bool) {
    let members = state.withLock { $0.members }
    var found: [Candidate] = []
    for member in members.values {
      let listing = SpaceListing(member.coordinator)
      listing.list()
      found += listing.candidates
    }
    var queue = EvictionOrder.sorted(found, now: SystemClock().nanoseconds())[...]
    var freed: UInt64 = 0
    var files: UInt64 = 0
    var asks = Self.asksInPass
    var isComplete = true
    while freed < wanted, !queue.isEmpty {
      var batch: [Candidate] = []
      var bytes: UInt64 = 0
      while let next = queue.first, batch.count < Self.batch, freed &+ bytes < wanted {
        batch.append(next)
        bytes &+= next.freed
        queue.removeFirst()
      }
      for (container, part) in Dictionary(grouping: batch, by: \.id.container) {
        // It may have been closed meanwhile.
        guard let member = state.withLock({ $0.members[container] }) else { continue }
        guard let evicted = evict(part, of: member.coordinator, asks: &asks) else {
          // One that is deleted or rolled back never is.
          if member.canSend() { isComplete = false }
          continue
        }
        for gone in evicted {
          freed &+= gone.freed
          files &+= UInt64(gone.files)
        }
      }
    }
    state.withLock { state in
      state.evictedFiles &+= files
      state.evictedBytes &+= freed
    }
    if files > 0 { log("evicted \(files) files with \(freed) bytes; the goal was \(wanted) bytes") }
    return (freed, isComplete)
  }

  /// Gives those that went; nil: nothing was asked for, since the store is not confirmed.
  private func evict(
    _ candidates: [Candidate], of coordinator: ContainerCoordinator, asks: inout Int
  ) -> [Candidate]? {
    guard coordinator.waitForConfirmedStore(milliseconds: confirmationLimit) else { return nil }
    // First those that nobody is asked for: an answer may take longer than the store is confirmed.
    let asked = candidates.filter { candidate in
      candidate.id.isPackage || coordinator.isPresented(candidate.id.number)
    }
    let plain = Set(candidates.map(\.id)).subtracting(asked.map(\.id))
    let gone = Set(coordinator.giveBack(plain.map(\.number)))
    var result = candidates.filter { plain.contains($0.id) && gone.contains($0.id.number) }
    for candidate in asked {
      let number = candidate.id.number
      var claimant: ClaimantID?
      if coordinator.isPresented(number) {
        guard asks > 0 else { continue }
        asks -= 1
        claimant = coordinator.claimForEvicting(number, milliseconds: Self.answerLimit)
        guard claimant != nil else { continue }
      }
      let isGone =
        candidate.id.isPackage
        ? coordinator.giveBackPackage(number, by: claimant)
        : !coordinator.giveBack([number], by: claimant).isEmpty
      if let claimant { coordinator.claims.leave(claimant.party) }
      if isGone { result.append(candidate) }
    }
    return result
  }
}

/// What an eviction would take.
struct SpaceItem: Hashable, Sendable {
  let container: ContainerID
  /// Of a file, or of a package.
  let number: InodeNumber
  let isPackage: Bool
}
