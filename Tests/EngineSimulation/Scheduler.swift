import CSimulation

/// Runs everything of the process on one thread, one piece after the other, in virtual time.
///
/// Which of the pieces that could run is next is the seed's choice; when there is none, time goes
/// on to the next timer. Every piece belongs to an owner, one life of a device: who makes a piece
/// gives it its own. When a life ends as in a crash its pieces are never run.
final class Scheduler {
  /// The process's one; the callback from C has no other way to it.
  nonisolated(unsafe) static var current = Scheduler(seed: 0)

  static let nobody = 0

  private enum Work {
    case item(simulation_item)
    case call(() -> Void)
  }

  private struct Piece {
    let number: UInt64
    let owner: Int
    let work: Work
  }

  private var ready: [Piece] = []
  /// Sorted, the next one last.
  private var timers: [(time: Int64, piece: Piece)] = []
  private var random: SeededGenerator
  private var nextNumber: UInt64 = 0
  private var dead: Set<Int> = []
  private(set) var owner = Scheduler.nobody {
    didSet { if owner != oldValue { simulation_set_skew(skew(owner)) } }
  }
  /// By how much an owner's clock of day is wrong.
  var skew: (Int) -> Int64 = { _ in 0 }
  /// Called between two pieces, once; for what cannot be done within one.
  var afterPiece: (() -> Void)?
  /// Nanoseconds; clocks of machines do not begin at 0 either.
  private(set) var now: Int64 = 1_000_000_000_000
  /// How many pieces were run.
  private(set) var steps = 0
  /// Of every piece that was run, in order, and of whatever else is noted: equal for equal runs.
  private(set) var trace: UInt64 = 0xCBF2_9CE4_8422_2325
  var isTold = false

  init(seed: UInt64) { random = SeededGenerator(seed: seed, stream: 1) }

  /// Begins a run: this thread becomes the only one.
  static func begin(seed: UInt64) -> Scheduler {
    let scheduler = Scheduler(seed: seed)
    current = scheduler
    simulation_set_seed(seed)
    simulation_set_time(scheduler.now)
    simulation_set_skew(0)
    simulation_begin { item, time in Scheduler.current.add(.item(item), at: time) }
    return scheduler
  }

  // MARK: Adding

  private func add(_ work: Work, at time: Int64) {
    guard !dead.contains(owner) else { return }
    nextNumber += 1
    let piece = Piece(number: nextNumber, owner: owner, work: work)
    var time = time
    // Whatever a machine does takes it a while at times.
    if time <= now, owner != Self.nobody, random.chance(2) {
      let longest: Int64 = random.chance(10) ? 1_000_000_000 : 20_000_000
      time = now + Int64.random(in: 1...longest, using: &random)
    }
    guard time > now else { return ready.append(piece) }
    var low = 0
    var high = timers.count
    while low < high {
      let middle = (low + high) / 2
      if timers[middle].time >= time { low = middle + 1 } else { high = middle }
    }
    timers.insert((time, piece), at: low)
  }

  /// Calls `body` as part of a life, after a while.
  func call(_ owner: Int, after delay: Int64, _ body: @escaping () -> Void) {
    perform(owner) { add(.call(body), at: now + max(1, delay)) }
  }

  /// Does something now as part of a life: what it makes belongs to that.
  @discardableResult
  func perform<Result>(_ owner: Int, _ body: () throws -> Result) rethrows -> Result {
    let former = self.owner
    self.owner = owner
    defer {
      self.owner = former
      if former == Self.nobody { finishPiece() }
    }
    return try body()
  }

  /// The end of a life, between two steps of whatever it was doing.
  func kill(_ owner: Int) {
    dead.insert(owner)
    ready.removeAll { $0.owner == owner }
    timers.removeAll { $0.piece.owner == owner }
  }

  // MARK: Running

  /// Runs one piece whose time has come, or goes on to the next time up to `limit`; false when
  /// there is nothing until then.
  private func step(until limit: Int64) -> Bool {
    if ready.isEmpty {
      guard let next = timers.last, next.time <= limit else { return false }
      now = next.time
      simulation_set_time(now)
      while let timer = timers.last, timer.time <= now {
        ready.append(timer.piece)
        timers.removeLast()
      }
    }
    let piece = ready.remove(at: Int.random(in: ready.indices, using: &random))
    steps += 1
    note(piece.number)
    note(UInt64(piece.owner))
    owner = piece.owner
    switch piece.work {
    case .item(let item): simulation_run(item)
    case .call(let body): body()
    }
    owner = Self.nobody
    finishPiece()
    return true
  }

  private func finishPiece() {
    guard let call = afterPiece else { return }
    afterPiece = nil
    call()
  }

  /// Runs what there is for so long; then it is so much later.
  func run(for nanoseconds: Int64) {
    let end = now + nanoseconds
    while step(until: end) {}
    now = end
    simulation_set_time(now)
  }

  /// Runs so many pieces, or what there is for a while.
  func run(pieces: Int, within nanoseconds: Int64) {
    let last = steps + pieces
    _ = run(within: nanoseconds) { steps >= last }
  }

  /// Runs until something is so; false when it is not after so much time or so many steps.
  func run(within nanoseconds: Int64, steps limit: Int = 3_000_000, until isDone: () -> Bool)
    -> Bool
  {
    let end = now + nanoseconds
    let last = steps + limit
    while !isDone() {
      guard steps < last, step(until: end) else { return isDone() }
    }
    return true
  }

  // MARK: Tracing

  func note(_ value: UInt64) {
    var rest = value
    for _ in 0..<8 {
      trace = (trace ^ (rest & 0xFF)) &* 0x100_0000_01B3
      rest >>= 8
    }
  }

  /// Part of the trace, and told where a run is told.
  func note(_ text: @autoclosure () -> String) {
    let text = text()
    for byte in text.utf8 { trace = (trace ^ UInt64(byte)) &* 0x100_0000_01B3 }
    if isTold { print("\(Double((now - 1_000_000_000_000) / 1_000_000) / 1000) s: \(text)") }
  }
}
