internal import Catalog
internal import Platform

/// Room that a download has until its bytes are stored.
package final class SpaceReservation: Sendable {
  private let space: LocalSpace
  private let bytes: Lock<UInt64>

  init(_ space: LocalSpace, _ bytes: UInt64) {
    self.space = space
    self.bytes = Lock(bytes)
  }

  deinit { end() }

  /// So many of the bytes are stored, and are counted as that.
  package func spend(_ count: UInt64) {
    let spent = bytes.withLock { bytes in
      let spent = min(bytes, count)
      bytes -= spent
      return spent
    }
    if spent > 0 { space.state.withLock { $0.reserved &-= spent } }
  }

  /// The bytes are stored, or will not be.
  package func end() {
    let bytes = bytes.withLock { bytes in
      defer { bytes = 0 }
      return bytes
    }
    if bytes > 0 { space.state.withLock { $0.reserved &-= bytes } }
  }
}

/// A close that waits for room.
package struct SpaceTicket: Sendable {
  let space: LocalSpace
  let number: UInt64

  /// It waits no longer; its completion is called unless it was.
  package func cancel() {
    space.state.withLock { $0.closes.removeValue(forKey: number) }?.completion()
  }
}

/// For how long closes wait.
struct Patience {
  /// In milliseconds, until it is looked again.
  var interval = 50
  /// What was last seen to have moved, and when.
  var progress: UInt64 = 0
  var since: UInt64 = 0
  var askedToSend: UInt64 = 0
}

extension LocalSpace {
  func reserve(_ bytes: UInt64) async -> SpaceReservation {
    let reservation = SpaceReservation(self, bytes)
    let (reserved, nothingUntil) = state.withLock { state in
      state.reserved &+= bytes
      return (state.reserved, max(state.nothingUntil, state.restUntil))
    }
    guard let now = measured() else { return reservation }
    guard now.marks.overshoot(used: now.used, free: now.free, coming: reserved) > 0 else {
      if now.marks.excess(used: now.used, free: now.free, coming: reserved) > 0 { wake() }
      return reservation
    }
    guard monotonicNanoseconds() >= nothingUntil else { return reservation }
    await withCheckedContinuation { continuation in
      ask(Request(bytes: 0) { _ in continuation.resume() })
    }
    return reservation
  }

  /// Room for what nobody waits for. Nil where something else would have to go for it.
  func reserveFree(_ bytes: UInt64) -> SpaceReservation? {
    // A reservation that ends meanwhile counts here or as used, or twice: never not at all.
    let before = state.withLock { $0.reserved }
    let now = measured()
    let isReserved = state.withLock { state in
      let reserved = max(before, state.reserved)
      if let now, !now.marks.fits(reserved &+ bytes, used: now.used, free: now.free) {
        return false
      }
      state.reserved &+= bytes
      return true
    }
    return isReserved ? SpaceReservation(self, bytes) : nil
  }

  /// False, without a completion, once it is stopped or where nothing could be given back.
  func makeRoom(for bytes: UInt64, _ completion: @escaping @Sendable (Bool) -> Void) -> Bool {
    // Without a budget nobody has asked for anything to go by itself.
    guard hasBudget, !state.withLock({ $0.isStopped || $0.members.isEmpty }) else { return false }
    // A little more, since the next write wants some too.
    ask(Request(bytes: bytes &+ 8 << 20, completion: completion))
    return true
  }

  private func ask(_ request: Request) {
    let isTaken = state.withLock { state in
      guard !state.isStopped else { return false }
      state.requests.append(request)
      return true
    }
    if isTaken { wake() } else { request.completion(false) }
  }

  // MARK: Closes

  private static let longestWait: UInt64 = 60_000_000_000
  /// Without anything being sent or given back.
  private static let longestStandstill: UInt64 = 10_000_000_000
  private static let impatience: UInt64 = 30_000_000_000
  /// Between two passes that found nothing, while a close waits.
  static let shortRest: UInt64 = 40_000_000

  func waitForRoom(_ completion: @escaping @Sendable () -> Void) -> SpaceTicket? {
    guard hasBudget, let now = measured() else { return nil }
    guard now.marks.overshoot(used: now.used, free: now.free) > 0 else {
      if now.marks.excess(used: now.used, free: now.free) > 0 { noteStored() }
      return nil
    }
    // What was seen of the file while it grew is in its row by now, and counted twice.
    lookAtOpenFiles()
    guard let again = measured(), again.marks.overshoot(used: again.used, free: again.free) > 0
    else { return nil }
    let time = monotonicNanoseconds()
    let members = state.withLock { Array($0.members.values) }
    guard members.contains(where: { $0.canSend() }) else {
      wake()
      return nil
    }
    let number = state.withLock { state -> UInt64? in
      guard !state.isStopped, time >= state.patienceOver else { return nil }
      state.lastTicket += 1
      // The close needs a pass that began after it.
      state.nothingUntil = min(state.nothingUntil, time &+ Self.shortRest)
      if state.closes.isEmpty {
        patience.withLock { $0 = Patience(progress: 0, since: time) }
      }
      state.closes[state.lastTicket] = Close(since: time, completion: completion)
      return state.lastTicket
    }
    wake()
    return number.map { SpaceTicket(space: self, number: $0) }
  }

  /// Lets go on who waits at a close for no reason any more.
  func settleCloses(_ now: Measured?) {
    let (members, count, evicted) = state.withLock {
      (Array($0.members.values), $0.closes.count, $0.evictedBytes)
    }
    guard count > 0 else { return }
    let time = monotonicNanoseconds()
    var isOver = true
    /// When the last pass began, if another one would find no more.
    var lastHope: UInt64?
    if let now, now.marks.overshoot(used: now.used, free: now.free) > 0 {
      isOver = !members.contains { $0.canSend() }
      if !hasUnsent { lastHope = lastFruitlessPass }
    }
    let progress = evicted &+ sentBytes()
    let (isStandstill, mustSend) = patience.withLock { patience in
      if patience.progress != progress {
        patience.progress = progress
        patience.since = time
        patience.interval = 50
      } else {
        patience.interval = min(patience.interval * 2, 400)
      }
      let mustSend = time >= patience.askedToSend &+ 500_000_000
      if mustSend { patience.askedToSend = time }
      return (time >= patience.since &+ Self.longestStandstill, mustSend)
    }
    let ended = state.withLock { state -> [Close] in
      if isStandstill, !isOver { state.patienceOver = time &+ Self.impatience }
      let ended = state.closes.filter {
        isOver || isStandstill || time >= $0.value.since &+ Self.longestWait
          || lastHope ?? 0 >= $0.value.since
      }
      for number in ended.keys { state.closes[number] = nil }
      return Array(ended.values)
    }
    for close in ended { close.completion() }
    if mustSend, !isOver { for member in members { member.sendNow() } }
  }

  /// Whether a change that is not sent yet will be sent, so that its content can be evicted then.
  var hasUnsent: Bool {
    let members = state.withLock { Array($0.members.values) }
    return members.contains { $0.canSend() && $0.coordinator.hasUnsent }
  }

  /// When the last pass began, if none found anything more for long enough; nil: another one may.
  private var lastFruitlessPass: UInt64? {
    let pass = state.withLock { $0.lastPass }
    guard let since = pass.fruitlessSince, pass.began >= since &+ hopeLimit &* 1_000_000 else {
      return nil
    }
    return pass.began
  }
}

extension ContainerCoordinator {
  /// Whether something is changed here and not sent that is not just being written. A file that was
  /// closed a moment ago may count as being written for some milliseconds more.
  var hasUnsent: Bool {
    guard let changed = try? catalog.dirtyCount(), changed > 0 else { return false }
    let written = writers.filter { number in
      guard let item = try? catalog.inode(number).item else { return false }
      return ((try? catalog.dirtyStamp(item)) ?? nil) != nil
    }
    return changed > written.count
  }
}
