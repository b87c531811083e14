internal import Platform

/// Places for transfers, as many as its control says. Who waits longest is next, and what a program
/// waits for goes before the rest; what was overtaken three times goes nevertheless. Any thread;
/// the lock is a leaf.
final class TransferPlaces: Sendable {
  private struct Waiter {
    let id: UInt64
    let continuation: CheckedContinuation<Bool, Never>
  }

  private struct State {
    let spare: Int
    var control = ParallelControl()
    var inFlight = 0
    var awaited: [Waiter] = []
    var others: [Waiter] = []
    /// How many went before the first of the others since it is that.
    var overtaken = 0
    var nextID: UInt64 = 0

    mutating func next() -> Waiter {
      if awaited.isEmpty || overtaken >= 3 && !others.isEmpty {
        overtaken = 0
        return others.removeFirst()
      }
      if !others.isEmpty { overtaken += 1 }
      return awaited.removeFirst()
    }

    mutating func admit(at now: UInt64) -> [Waiter] {
      var ready: [Waiter] = []
      while inFlight < control.limit, !(awaited.isEmpty && others.isEmpty) {
        ready.append(next())
        inFlight += 1
        control.began(inFlight: inFlight, at: now)
      }
      while inFlight < control.limit + spare, !awaited.isEmpty {
        ready.append(awaited.removeFirst())
        inFlight += 1
        control.began(inFlight: inFlight, at: now)
      }
      return ready
    }
  }

  private let now: @Sendable () -> UInt64
  private let state: Lock<State>

  /// `spare`: so many places beyond the limit are for what somebody waits for.
  init(spare: Int = 0, now: @escaping @Sendable () -> UInt64) {
    self.now = now
    state = Lock(State(spare: spare))
  }

  var limit: Int { state.withLock { $0.control.limit } }
  var waiting: Int { state.withLock { $0.awaited.count + $0.others.count } }

  func enter() async throws(StoreError) {
    let id = state.withLock { state in
      state.nextID += 1
      return state.nextID
    }
    let isAwaited = Transfers.isAwaited
    let isIn = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let ready: [Waiter]? = state.withLock { state in
          if Task.isCancelled { return nil }
          let waiter = Waiter(id: id, continuation: continuation)
          if isAwaited { state.awaited.append(waiter) } else { state.others.append(waiter) }
          return state.admit(at: now())
        }
        guard let ready else { return continuation.resume(returning: false) }
        for waiter in ready { waiter.continuation.resume(returning: true) }
      }
    } onCancel: {
      let dropped: Waiter? = state.withLock { state in
        if let place = state.awaited.firstIndex(where: { $0.id == id }) {
          return state.awaited.remove(at: place)
        }
        return state.others.firstIndex(where: { $0.id == id }).map { state.others.remove(at: $0) }
      }
      dropped?.continuation.resume(returning: false)
    }
    guard isIn else { throw .cancelled }
  }

  func leave(_ outcome: Outcome) {
    let ready = state.withLock { state in
      state.inFlight -= 1
      switch outcome {
      case .moved(let bytes): state.control.ended(bytes: bytes, at: now())
      case .failed: state.control.failed(at: now())
      case .other: break
      }
      let ready = state.admit(at: now())
      if state.inFlight < state.control.limit { state.control.starved() }
      return ready
    }
    for waiter in ready { waiter.continuation.resume(returning: true) }
  }

  enum Outcome {
    case moved(Int)
    /// The store did not answer, or asked for a pause.
    case failed
    case other
  }
}

/// Lets as many transfers of content run at the same time as are worth it, each way. Other calls
/// pass. Stands below the retries: a call that waits to be made again has no place.
package final class ParallelStore: PassingStore {
  package let store: any ObjectStore
  private let gets: TransferPlaces
  private let puts: TransferPlaces

  /// The clock is for tests.
  package init(
    _ store: any ObjectStore, now: @escaping @Sendable () -> UInt64 = { monotonicNanoseconds() }
  ) {
    self.store = store
    gets = TransferPlaces(now: now)
    // A small change does not wait until a large upload's packs are through.
    puts = TransferPlaces(spare: 2, now: now)
  }

  /// How many are allowed now.
  package var limits: (gets: Int, puts: Int) { (gets.limit, puts.limit) }

  /// How many wait for a place.
  package var waiting: Int { gets.waiting + puts.waiting }

  package func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    guard call.isBulk else { return try await body(store) }
    let places = call.kind == .get ? gets : puts
    try await places.enter()
    guard Transfers.start?.begin() ?? true else {
      places.leave(.other)
      throw .cancelled
    }
    do throws(StoreError) {
      let answer = try await body(store)
      places.leave(.moved(call.sends + received(answer)))
      return answer
    } catch {
      switch error {
      case .unavailable, .busy: places.leave(.failed)
      default: places.leave(.other)
      }
      throw error
    }
  }
}
