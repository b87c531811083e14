import Backend
import BackendDirectory
import Testing

@Suite struct ConformanceTests {
  @Test(arguments: Conformance.cases.indices) func memory(_ index: Int) async throws {
    let store = MemoryStore()
    try await Conformance.cases[index].check(Conformance(one: store, other: store))
  }

  @Test(arguments: Conformance.cases.indices) func directory(_ index: Int) async throws {
    let place = try TemporaryDirectory()
    let path = place.path + "/store"
    let one = try DirectoryStore(path: path, createIfMissing: true)
    let other = try DirectoryStore(path: path, createIfMissing: false)
    try await Conformance.cases[index].check(Conformance(one: one, other: other))
  }

  @Test(arguments: Conformance.cases.indices) func decorated(_ index: Int) async throws {
    let meter = MeteredStore(MemoryStore())
    let limits = BandwidthLimits(
      up: BandwidthLimit(rate: 1 << 40), down: BandwidthLimit(rate: 1 << 40))
    let store = GatedStore(
      ReachableStore(
        RetryingStore(PacedStore(ParallelStore(meter), limits: limits)),
        Reachability(probe: meter)),
      offline: OfflineSwitch())
    try await Conformance.cases[index].check(Conformance(one: store, other: store))
  }
}
