package import Backend
package import ControlProtocol
internal import Dispatch
package import Platform
internal import SystemPackage

/// What the user says of the network, and what the network says of itself: limits of bandwidth and
/// whether bytes cost money. What was said to the daemon is kept in the state directory, and wins
/// over the configuration.
package final class NetworkWeather: Sendable {
  private struct State {
    var choices: StoredChoices
    /// Why the network costs money, when it was last looked at.
    var found: String?
    /// Nil: it is to be looked at again.
    var looked: UInt64?
    var hasLooked = false
    var isLooking = false
    var told = false
  }

  /// What is in `network.json`; nil: as the configuration has it.
  struct StoredChoices: Codable, Equatable {
    var upload: String?
    var download: String?
    var metered: String?
  }

  package let limits: BandwidthLimits
  private let directory: StateDirectory
  private let configured: NetworkConfiguration
  private let network: MeteredNetwork
  private let state: Lock<State>
  private let watcher = Lock<NetworkChanges?>(nil)
  private let meteredChanged = Lock<(@Sendable (Bool) -> Void)?>(nil)

  /// Networks change without the kernel telling: a telephone may say so late.
  private let lookLasts: UInt64

  package init(
    _ directory: StateDirectory, _ configured: NetworkConfiguration,
    network: MeteredNetwork = MeteredNetwork(), lookLasts: UInt64 = 30_000_000_000
  ) {
    self.directory = directory
    self.lookLasts = lookLasts
    self.configured = configured
    self.network = network
    let choices = directory.networkChoices
    let (up, down) = Self.rates(choices, configured)
    limits = BandwidthLimits(up: BandwidthLimit(rate: up), down: BandwidthLimit(rate: down))
    state = Lock(State(choices: choices))
  }

  /// Begins to watch. `networkChanged` hears of networks that come and go, `metered` of changes of
  /// what `isMetered` says.
  package func start(
    networkChanged: @escaping @Sendable (NetworkChanges.Change) -> Void,
    metered: @escaping @Sendable (Bool) -> Void
  ) {
    guard watcher.withLock({ $0 == nil }) else { return }
    meteredChanged.withLock { $0 = metered }
    _ = meteredReason
    let changes = NetworkChanges { [weak self] change in
      self?.state.withLock { $0.looked = nil }
      _ = self?.meteredReason
      networkChanged(change)
    }
    watcher.withLock { $0 = changes }
  }

  package func stop() {
    watcher.withLock { watcher in
      watcher?.stop()
      watcher = nil
    }
    meteredChanged.withLock { $0 = nil }
  }

  // MARK: Limits

  private static func rates(_ choices: StoredChoices, _ configured: NetworkConfiguration)
    -> (up: UInt64?, down: UInt64?)
  {
    func rate(_ stored: String?, _ configured: ByteRate?) -> UInt64? {
      guard let choice = stored.flatMap(RateChoice.init) else { return configured?.bytes }
      return choice.rate
    }
    return (
      rate(choices.upload, configured.uploadLimit),
      rate(choices.download, configured.downloadLimit)
    )
  }

  /// Nil leaves a way as it is.
  package func setLimits(up: String?, down: String?) throws(ControlError) {
    func choice(_ text: String?) throws(ControlError) -> RateChoice? {
      guard let text else { return nil }
      guard let choice = RateChoice(text) else {
        throw ControlError(.usage, "\"\(text)\" is not a limit; \(RateChoice.help)")
      }
      return choice
    }
    let (up, down) = (try choice(up), try choice(down))
    try change { choices in
      if let up { choices.upload = up.stored }
      if let down { choices.download = down.stored }
    }
    if let up { limits.up.set(rate: up.rate) }
    if let down { limits.down.set(rate: down.rate) }
  }

  // MARK: Money

  package var mode: MeteredMode {
    let stored = state.withLock { $0.choices.metered }
    return stored.flatMap { MeteredMode(text: $0) } ?? configured.metered
  }

  package func setMetered(_ mode: MeteredMode) throws(ControlError) {
    try change { $0.metered = mode.rawValue }
    state.withLock { $0.looked = nil }
    _ = meteredReason
  }

  /// For any thread: once the network was looked at, which `start` does, this reads no file. A look
  /// that is due runs on another thread, and the answer is that of the last one until then.
  package var isMetered: Bool {
    guard mode == .auto else { return meteredReason != nil }
    let now = monotonicNanoseconds()
    let (isKnown, reason, isDue) = state.withLock { state in
      let isFresh = state.looked.map { now < $0 + lookLasts } ?? false
      let isDue = state.hasLooked && !isFresh && !state.isLooking
      if isDue { state.isLooking = true }
      return (state.hasLooked, state.found, isDue)
    }
    guard isKnown else { return meteredReason != nil }
    if isDue {
      DispatchQueue.global().async {
        _ = self.meteredReason
        self.state.withLock { $0.isLooking = false }
      }
    }
    return reason != nil
  }

  /// Why bytes cost money; nil: they do not. May read files.
  package var meteredReason: String? {
    let reason: String?
    switch mode {
    case .yes: reason = "set by the user"
    case .no: reason = nil
    case .auto: reason = found()
    }
    let isMetered = reason != nil
    let isNews = state.withLock { state in
      defer { state.told = isMetered }
      return state.told != isMetered
    }
    if isNews { meteredChanged.withLock { $0 }?(isMetered) }
    return reason
  }

  private func found() -> String? {
    let now = monotonicNanoseconds()
    let known: String?? = state.withLock { state in
      guard let looked = state.looked, now < looked + lookLasts else { return .none }
      return .some(state.found)
    }
    if let known { return known }
    let reason = network.reason()
    state.withLock { state in
      state.found = reason
      state.looked = now
      state.hasLooked = true
    }
    return reason
  }

  private func change(_ body: (inout StoredChoices) -> Void) throws(ControlError) {
    try state.withLock { state throws(ControlError) in
      var choices = state.choices
      body(&choices)
      try directory.setNetworkChoices(choices)
      state.choices = choices
    }
  }
}
