import Coordination
import Testing

/// What is evicted first, and what that costs beside plain least-recently-used.
@Suite struct EvictionOrderTests {
  private func candidate(_ id: Int, size: UInt64, lastUse: Int64, files: Int = 1)
    -> EvictionCandidate<Int>
  {
    EvictionCandidate(id: id, freed: size, size: size, files: files, lastUse: lastUse)
  }

  private static let second: Int64 = 1_000_000_000

  @Test func ofOneSizeTheLeastRecentlyUsedGoesFirst() {
    let now = 1000 * Self.second
    let files = (0..<50).map {
      candidate($0, size: 300_000, lastUse: Int64(($0 * 37) % 50) * Self.second)
    }
    let order = EvictionOrder.sorted(files, now: now).map(\.lastUse)
    #expect(order == order.sorted())
  }

  @Test func ofOneAgeTheLargestGoesFirst() {
    let files = [10_000, 3_000_000, 500_000, 80_000_000].map {
      candidate($0, size: UInt64($0), lastUse: 5)
    }
    let order = EvictionOrder.sorted(files, now: 1000 * Self.second).map(\.id)
    #expect(order == [80_000_000, 3_000_000, 500_000, 10_000])
  }

  @Test func ageDecidesInTheEnd() {
    let now = 100_000 * Self.second
    let small = candidate(1, size: 100_000, lastUse: 0)
    let large = candidate(2, size: 10_000_000, lastUse: now - 100 * Self.second)
    #expect(EvictionOrder.sorted([large, small], now: now).first?.id == 1)
  }

  @Test func aPackageOfManyFilesCostsAsManyRequests() {
    let now = 1000 * Self.second
    let package = candidate(1, size: 4_000_000, lastUse: 0, files: 400)
    let file = candidate(2, size: 4_000_000, lastUse: 0)
    #expect(EvictionOrder.sorted([package, file], now: now).first?.id == 2)
  }

  @Test func clocksThatWentBackDoNoHarm() {
    let files = [candidate(1, size: 10, lastUse: 500), candidate(2, size: 10, lastUse: .max)]
    #expect(EvictionOrder.sorted(files, now: 0).count == 2)
  }

  // MARK: Traces

  /// Files of a person: many small, few large, used as by a law of powers that shifts slowly.
  @Test(arguments: [1, 2, 3] as [UInt64]) func aPersonsFilesAreFetchedLessOften(seed: UInt64) {
    let trace = CacheTrace.person(seed: seed)
    let ours = trace.run(budget: 256 << 20, EvictionOrder.sorted)
    let plain = trace.run(budget: 256 << 20, CacheTrace.leastRecentlyUsed)
    #expect(ours.files * 4 < plain.files * 3)
    #expect(Double(ours.bytes) < Double(plain.bytes) * 1.05)
    #expect(ours.greatest <= 256 << 20 + trace.largest)
  }

  /// Everything in order, again and again: what is used next is what plain LRU has just thrown out.
  @Test func aLoopOverMoreThanFitsKeepsItsSmallFiles() {
    let trace = CacheTrace.loop(rounds: 3)
    let ours = trace.run(budget: 256 << 20, EvictionOrder.sorted)
    let plain = trace.run(budget: 256 << 20, CacheTrace.leastRecentlyUsed)
    #expect(plain.hits == 0)
    #expect(ours.files < plain.files)
    #expect(ours.bytes < plain.bytes)
  }
}

/// Uses of files, and what a cache that is emptied as `LocalSpace` does it fetches for them.
struct CacheTrace {
  var sizes: [UInt64]
  var uses: [Int]
  var largest: UInt64 { sizes.max() ?? 0 }

  struct Outcome {
    var hits = 0
    var files = 0
    var bytes: UInt64 = 0
    var greatest: UInt64 = 0
  }

  typealias Order = ([EvictionCandidate<Int>], Int64) -> [EvictionCandidate<Int>]

  static func leastRecentlyUsed(_ candidates: [EvictionCandidate<Int>], _ now: Int64)
    -> [EvictionCandidate<Int>]
  {
    candidates.sorted { $0.lastUse < $1.lastUse }
  }

  func run(budget: UInt64, _ order: Order) -> Outcome {
    let marks = SpaceMarks(limit: budget, minimumFree: nil)
    var here: [Int: Int64] = [:]
    var used: UInt64 = 0
    var result = Outcome()
    for (step, file) in uses.enumerated() {
      let now = Int64(step + 1) * 1_000_000_000
      if here[file] != nil {
        result.hits += 1
      } else {
        result.files += 1
        result.bytes += sizes[file]
        var excess = marks.excess(used: used, free: 0, coming: sizes[file])
        if excess > 0 {
          let candidates = here.map {
            EvictionCandidate(
              id: $0.key, freed: sizes[$0.key], size: sizes[$0.key], lastUse: $0.value)
          }
          for gone in order(candidates, now) where excess > 0 {
            here[gone.id] = nil
            used -= gone.freed
            excess -= min(excess, gone.freed)
          }
        }
        used += sizes[file]
        result.greatest = max(result.greatest, used)
      }
      here[file] = now
    }
    return result
  }

  struct Random: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
      state &+= 0x9E37_79B9_7F4A_7C15
      var word = state
      word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
      word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
      return word ^ (word >> 31)
    }
  }

  /// 4 KiB to 64 MiB, each doubling as likely as the next larger one is less by half.
  private static func size(_ random: inout Random) -> UInt64 {
    var size: UInt64 = 4096
    while size < 64 << 20, UInt8.random(in: 0..<100, using: &random) < 72 { size *= 2 }
    return size + UInt64.random(in: 0..<size, using: &random)
  }

  static func person(seed: UInt64) -> CacheTrace {
    var random = Random(state: seed)
    let sizes = (0..<2000).map { _ in size(&random) }
    var uses: [Int] = []
    for step in 0..<8000 {
      let rank = Int(pow2(Double.random(in: 0..<1, using: &random)) * 2000)
      uses.append((min(1999, rank) * 7 + step / 8) % 2000)
    }
    return CacheTrace(sizes: sizes, uses: uses)
  }

  /// Skews a uniform number towards 0.
  private static func pow2(_ value: Double) -> Double { value * value * value * value }

  static func loop(rounds: Int) -> CacheTrace {
    var random = Random(state: 4)
    var sizes: [UInt64] = []
    var sum: UInt64 = 0
    while sum < 4 << 30 {
      sizes.append(size(&random))
      sum += sizes.last ?? 0
    }
    let uses = (0..<rounds).flatMap { _ in sizes.indices }
    return CacheTrace(sizes: sizes, uses: uses)
  }
}
