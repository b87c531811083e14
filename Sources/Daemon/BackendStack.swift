package import Backend

/// The store of an account with what stands around it. From the outside in: news that the store
/// does not tell are looked for; calls are let through only while the device is online and the
/// backend is not known to be away, are done again when they may succeed a little later, keep to
/// the limits of bandwidth, run as many at a time as is worth it, and are counted where they go
/// out.
package struct BackendStack: Sendable {
  package let late: LateStore
  package let metered: MeteredStore
  package let parallel: ParallelStore
  package let limits: BandwidthLimits
  package let reachability: Reachability
  package let store: any ObjectStore

  package init(
    _ address: BackendAddress, environment: [String: String] = [:], offline: OfflineSwitch,
    limits: BandwidthLimits = BandwidthLimits(),
    changed: @escaping @Sendable (Reachability.Outage?) -> Void = { _ in }
  ) {
    late = LateStore(address, environment: environment)
    let metered = MeteredStore(late)
    let reachability = Reachability(
      probe: GatedStore(metered, offline: offline), changed: changed)
    parallel = ParallelStore(metered)
    let retrying = RetryingStore(
      PacedStore(parallel, limits: limits), isWorthIt: { reachability.isReachable },
      retrying: { metered.retrying($0) })
    self.metered = metered
    self.limits = limits
    self.reachability = reachability
    store = PollingStore(
      GatedStore(ReachableStore(retrying, reachability), offline: offline))
  }
}
