internal import Backend
internal import ControlProtocol
internal import Model
internal import Platform

/// What the network is like, and what is to be made of it.
extension DaemonService {
  func startNetwork() {
    network.start(
      networkChanged: { [weak self] change in
        guard let reachability = self?.account?.stack.reachability else { return }
        switch change {
        case .came: reachability.hint()
        case .went: Task { await reachability.doubt() }
        }
      },
      metered: { [weak self] isMetered in
        guard let self else { return }
        logger.info("the network is \(isMetered ? "metered" : "not metered") from now on")
        for session in account?.sessions ?? [] { session.sync.meteredChanged() }
      })
  }

  /// Once when the backend goes, and once when it is back.
  var tellReachability: @Sendable (Reachability.Outage?) -> Void {
    let logger = logger
    return { outage in
      if let outage {
        logger.warning("the backend cannot be reached: \(outage.reason)")
      } else {
        logger.notice("the backend can be reached again")
      }
    }
  }

  /// Before what somebody asked for by name: a backend that is known to be away may be back.
  func lookForBackend(_ session: AccountSession, _ connection: ClientConnection)
    throws(ControlError)
  {
    guard !offline.isOffline, !session.stack.reachability.isReachable else { return }
    let reachability = session.stack.reachability
    // Who comes back sees the outage, which says why.
    try? connection.wait {
      try await Self.abandoning(after: .seconds(10)) { _ = await reachability.verify() }
    }
    if let outage = reachability.outage {
      throw ControlError(.offline, StoreError.unreachable(outage.reason).description)
    }
  }

  func setLimits(_ request: LimitRequest) throws(ControlError) -> LimitsReport {
    if request.up != nil || request.down != nil {
      try network.setLimits(up: request.up, down: request.down)
      let now = limitsReport
      logger.info("limits: \(now.described)")
    }
    return limitsReport
  }

  private var limitsReport: LimitsReport {
    LimitsReport(uploadLimit: network.limits.up.rate, downloadLimit: network.limits.down.rate)
  }

  func setMetered(_ request: MeteredRequest) throws(ControlError) -> MeteredReport {
    if let text = request.mode {
      guard let mode = MeteredMode(text: text) else {
        throw ControlError(.usage, "\"\(text)\" is not one of on, off and auto")
      }
      try network.setMetered(mode)
    }
    return meteredReport
  }

  private var meteredReport: MeteredReport {
    let reason = network.meteredReason
    return MeteredReport(mode: network.mode.rawValue, isMetered: reason != nil, reason: reason)
  }

  func networkReport(_ session: AccountSession?) -> NetworkReport {
    let outage = session?.stack.reachability.outage
    let limits = session?.stack.parallel.limits
    return NetworkReport(
      reachable: outage == nil,
      since: outage.map { Instant.text(Timestamp(nanoseconds: $0.since)) }, reason: outage?.reason,
      limits: limitsReport, metered: meteredReport, parallelDownloads: limits?.gets,
      parallelUploads: limits?.puts)
  }
}

extension TrafficReport {
  init(_ traffic: TrafficCounters) {
    self.init(
      bytesUploaded: traffic.bytesUploaded, bytesDownloaded: traffic.bytesDownloaded,
      requests: TrafficReport.Requests(
        get: traffic.gets, put: traffic.puts, list: traffic.lists, delete: traffic.deletes),
      retries: traffic.retries)
  }
}
