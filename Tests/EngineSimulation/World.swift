import Foundation
import RemoteStore

/// One run: a cloud, a few devices, and a seed from which everything follows.
final class World: @unchecked Sendable {
  // Unchecked: the simulation has one thread.
  let seed: UInt64
  let directory: String
  let scheduler: Scheduler
  let cloud: Cloud
  let ledger: Ledger
  let secret: AccountSecret
  let bug: PlantedBug?
  var random: SeededGenerator
  var devices: [SimulatedDevice] = []
  private(set) var problems: [String] = []
  private(set) var actions = 0
  /// What was done, and what became of it.
  private(set) var tally: [String: Int] = [:]

  /// A run in which nothing is wrong has a handful of these at most.
  private static let problemLimit = 20
  static let second: Int64 = 1_000_000_000

  init(seed: UInt64, directory: String, bug: PlantedBug?, isTold: Bool) throws {
    self.seed = seed
    self.directory = directory
    self.bug = bug
    scheduler = Scheduler.begin(seed: seed)
    scheduler.isTold = isTold
    cloud = Cloud(scheduler)
    cloud.bug = bug
    ledger = Ledger(seed: seed)
    random = SeededGenerator(seed: seed, stream: 3)
    secret = AccountSecret.generate()
    try FileManager.default.createDirectory(
      atPath: directory, withIntermediateDirectories: true)
  }

  func count(_ what: String) { tally[what, default: 0] += 1 }

  func countAction() { actions += 1 }

  func report(_ problem: String) {
    scheduler.note("PROBLEM \(problem)")
    if problems.count < Self.problemLimit { problems.append(problem) }
  }

  func run() throws {
    for index in 0..<random.number(2...5) {
      devices.append(try SimulatedDevice(index: index, world: self))
      scheduler.run(for: Int64(random.number(0...5)) * Self.second)
    }
    for _ in 0..<random.number(30...150) where problems.isEmpty {
      try step()
      scheduler.run(for: pause())
    }
    if problems.isEmpty { try settle() }
    for device in devices { device.stop() }
    let areStopped = scheduler.run(within: 600 * Self.second) {
      devices.allSatisfy { $0.life == nil }
    }
    if !areStopped, problems.isEmpty { report("a device does not stop") }
    for device in devices { device.life.map { scheduler.kill($0.owner) } }
  }

  /// Mostly a moment, at times long enough for all to be in sync, seldom an hour.
  private func pause() -> Int64 {
    switch random.number(0...199) {
    case 0..<150: Int64(random.number(0...500)) * Self.second / 1000
    case 150..<185: Int64(random.number(0...15)) * Self.second
    case 185..<199: Int64(random.number(15...200)) * Self.second
    default: Int64(random.number(600...3600)) * Self.second
    }
  }

  private func step() throws {
    let device = devices[random.number(0...devices.count - 1)]
    guard let life = device.life else {
      if random.chance(30) { try device.start() }
      return
    }
    switch random.number(0...99) {
    case 0..<2:
      device.act()
      // In the midst of something, where there is most to lose.
      scheduler.run(pieces: random.number(0...150), within: Self.second)
      try device.crash()
    case 2..<4:
      device.act()
      scheduler.run(pieces: random.number(0...150), within: Self.second)
      device.stop()
    case 4..<8:
      let isOffline = !life.offline.isOffline
      scheduler.note("\(device.name) is \(isOffline ? "offline" : "online")")
      scheduler.perform(life.owner) { life.offline.set(offline: isOffline) }
    case 8..<14:
      life.store.weather = .random(&random)
      scheduler.note("\(device.name) has \(life.store.weather)")
    case 14..<40:
      // All at once: two that make the same name, or remove what the other moves.
      for device in devices where random.chance(70) { device.act() }
    default:
      device.act()
    }
  }
}
