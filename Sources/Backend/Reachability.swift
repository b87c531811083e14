package import Platform

/// Whether the backend answers, found out by itself.
///
/// A call that failed after all its retries is no proof: it may be one object's fault. So one more,
/// small one is made, and when that fails too, the backend is away: nothing is asked of it then but
/// that small call, after pauses that grow from one second to a minute, or at once when something
/// says that it may be back. Once it answers, listeners are told to look.
///
/// Any thread. The lock is a leaf.
package final class Reachability: Sendable {
  package struct Outage: Equatable, Sendable {
    /// Nanoseconds since 1970.
    package let since: Int64
    package var reason: String
  }

  package struct Policy: Sendable {
    package var firstPause = Duration.seconds(1)
    package var longestPause = Duration.seconds(60)
    /// While somebody wants something of the backend, it is tried after this long at most.
    package var longestWhileWanted = Duration.seconds(5)
    /// A store that asks for a longer pause is tried again after this one.
    package var longestAsked = Duration.seconds(600)
    /// An attempt that has taken longer is given up for one that may do better.
    package var patience = Duration.seconds(2)

    package init() {}
  }

  private struct State {
    var outage: Outage?
    /// When it last answered.
    var answered: UInt64 = 0
    /// When it was last tried while it was away.
    var tried: UInt64 = 0
    var check: Task<StoreError?, Never>?
    var pause: Task<Void, Never>?
    /// Which of the runs of `keepTrying` is to go on; one is at most.
    var run: Int?
    var lastRun = 0
    /// The store asked to be left alone until then.
    var notBefore: UInt64 = 0
    /// How often something said that it may be back.
    var hints = 0
    /// The next pause is this long at most.
    var longest: Duration

    mutating func newRun() -> Int {
      lastRun += 1
      run = lastRun
      return lastRun
    }
  }

  /// Any object will do: an answer that there is none is one too.
  private static let key = "format"

  private let probe: any ObjectStore
  private let policy: Policy
  private let clock: any WallClock
  private let monotonic: @Sendable () -> UInt64
  private let sleep: @Sendable (Duration) async throws -> Void
  private let changed: @Sendable (Outage?) -> Void
  private let state: Lock<State>
  let hub = NewsHub()

  /// `probe` is asked without retries. `changed` is told once when the backend goes, and once when
  /// it comes back. The clocks and `sleep` are for tests.
  package init(
    probe: any ObjectStore, policy: Policy = Policy(), clock: any WallClock = SystemClock(),
    monotonic: @escaping @Sendable () -> UInt64 = { monotonicNanoseconds() },
    sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
    changed: @escaping @Sendable (Outage?) -> Void = { _ in }
  ) {
    self.probe = probe
    self.policy = policy
    self.clock = clock
    self.monotonic = monotonic
    self.sleep = sleep
    self.changed = changed
    state = Lock(State(longest: policy.firstPause))
  }

  deinit { state.withLock { $0.pause?.cancel() } }

  /// Nil while the backend answers, as far as is known.
  package var outage: Outage? { state.withLock { $0.outage } }

  package var isReachable: Bool { outage == nil }

  // MARK: What is told

  /// Something happened after which the backend may be there again: it is tried now. What is under
  /// way of an earlier attempt may wait for what is no more, and is given up.
  package func hint() {
    let run: Int? = state.withLock { state in
      guard state.outage != nil else { return nil }
      state.hints += 1
      state.longest = policy.firstPause
      state.notBefore = 0
      state.pause?.cancel()
      // Where there is one hint after another, none of the attempts would come to its end.
      if monotonic() - state.tried > nanoseconds(policy.patience) { state.check?.cancel() }
      return state.run == nil ? state.newRun() : nil
    }
    if let run { keepTrying(run, atOnce: true) }
  }

  /// Somebody would ask something of it: it is tried soon, if it was not lately.
  package func wanted() {
    let run: Int? = state.withLock { state in
      guard state.outage != nil, monotonic() >= state.notBefore,
        monotonic() - state.tried > nanoseconds(policy.longestWhileWanted)
      else { return nil }
      state.pause?.cancel()
      return state.run == nil ? state.newRun() : nil
    }
    if let run { keepTrying(run, atOnce: true) }
  }

  /// The store asked for a pause.
  func leaveAlone(_ asked: Duration?) {
    guard let asked else { return }
    let pause = nanoseconds(min(asked, policy.longestAsked))
    state.withLock { $0.notBefore = max($0.notBefore, monotonic() + pause) }
  }

  private func nanoseconds(_ duration: Duration) -> UInt64 { UInt64(duration / .nanoseconds(1)) }

  /// Something says that it may be gone: it is looked whether it is.
  package func doubt() async {
    guard isReachable else { return }
    await failed(since: monotonic())
  }

  /// It is tried now if it is away; gives what came of it. Without traffic where it is not.
  package func verify() async -> Outage? {
    guard !isReachable else { return nil }
    switch await check() {
    case nil: cameBack()
    case .unavailable(let text)?, .busy(let text, _)?: wentAway(text)
    default: break
    }
    return outage
  }

  // MARK: What the calls say

  var now: UInt64 { monotonic() }

  /// The store answered, be it with a refusal.
  func answered() {
    let wasAway = state.withLock { state in
      state.answered = monotonic()
      return state.outage != nil
    }
    if wasAway { cameBack() }
  }

  /// A call that was begun at `start` failed for good. Returns when it is known what that means.
  func failed(since start: UInt64) async {
    let isKnown = state.withLock { $0.outage != nil || $0.answered > start }
    guard !isKnown else { return }
    switch await check() {
    case .unavailable(let text)?, .busy(let text, _)?: wentAway(text)
    // It answered, or is not to be asked.
    default: break
    }
  }

  // MARK: Trying

  /// One at a time, for whoever wants to know. Nil: it answers.
  private func check() async -> StoreError? {
    let task = state.withLock { state in
      if let running = state.check { return running }
      state.tried = monotonic()
      let probe = probe
      let task = Task { () -> StoreError? in
        do throws(StoreError) {
          _ = try await probe.get(Self.key, range: 0..<1)
          return nil
        } catch {
          switch error {
          case .unavailable, .busy, .unreachable, .offline, .cancelled: return error
          case .notFound, .notPermitted, .noSpace, .invalid: return nil
          }
        }
      }
      state.check = task
      return task
    }
    let failure = await task.value
    if case .busy(_, let asked)? = failure { leaveAlone(asked) }
    state.withLock { state in
      if state.check == task { state.check = nil }
      if failure == nil { state.answered = monotonic() }
    }
    return failure
  }

  private func wentAway(_ reason: String) {
    let (isNew, run): (Bool, Int?) = state.withLock { state in
      if state.outage != nil {
        state.outage?.reason = reason
        return (false, state.run == nil ? state.newRun() : nil)
      }
      state.outage = Outage(since: clock.nanoseconds(), reason: reason)
      state.longest = policy.firstPause
      return (true, state.newRun())
    }
    if isNew { changed(outage) }
    if let run { keepTrying(run, atOnce: false) }
  }

  private func cameBack() {
    let wasAway = state.withLock { state in
      defer {
        state.outage = nil
        state.run = nil
      }
      state.pause?.cancel()
      return state.outage != nil
    }
    guard wasAway else { return }
    changed(nil)
    hub.tell()
  }

  /// Ends when the backend is back, when it is not to be asked, and with this object.
  private func keepTrying(_ run: Int, atOnce: Bool) {
    Task { [weak self] in
      var isFirst = atOnce
      while true {
        if !isFirst {
          guard let pause = self?.beginPause(run) else { return }
          await pause.value
        }
        isFirst = false
        guard await self?.tryOnce(run) ?? false else { return }
      }
    }
  }

  private func beginPause(_ run: Int) -> Task<Void, Never>? {
    state.withLock { state in
      guard state.run == run else { return nil }
      let now = monotonic()
      let asked = Duration.nanoseconds(state.notBefore - min(now, state.notBefore))
      // A little more than asked, as clocks differ.
      let pause = max(
        state.longest * Double.random(in: 0.5...1),
        asked > .zero ? asked + .milliseconds(10) : .zero)
      state.longest = min(state.longest * 2, policy.longestPause)
      let task = Task { [sleep] in _ = try? await sleep(pause) }
      state.pause = task
      return task
    }
  }

  /// Gives whether to go on.
  private func tryOnce(_ run: Int) async -> Bool {
    guard let hints = state.withLock({ $0.run == run ? $0.hints : nil }) else { return false }
    switch await check() {
    case nil: cameBack()
    // Whoever goes online again says so.
    case .offline?: state.withLock { if $0.run == run, $0.hints == hints { $0.run = nil } }
    case .unavailable(let text)?, .busy(let text, _)?: wentAway(text)
    default: break
    }
    return state.withLock { $0.run == run }
  }
}
