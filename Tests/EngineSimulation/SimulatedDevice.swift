import Foundation
import Glibc
import Model
import RemoteStore
import SyncEngine

extension CompactionPolicy {
  /// So that every run compacts again and again, and devices are away for longer than the log reaches.
  fileprivate static var restless: CompactionPolicy {
    let second = Int64(1_000_000_000)
    var policy = CompactionPolicy()
    policy.interval = .seconds(15)
    policy.snapshotSegments = 8
    policy.leastSegments = 4
    policy.snapshotWeight = 0
    policy.keepSegments = 2
    policy.keepLog = 20 * second
    policy.grace = 30 * second
    policy.away = 120 * second
    policy.garbageInterval = 30 * second
    policy.leastPackAge = 10 * second
    policy.liveShare = 0.6
    policy.strayInterval = 60 * second
    policy.strayAge = 90 * second
    return policy
  }
}

/// One machine, through all its lives, and the user in front of it.
final class SimulatedDevice: @unchecked Sendable {
  // Unchecked: the simulation has one thread.
  let name: String
  let index: Int
  let world: World
  let clock: SkewedClock
  let id: Model.DeviceID
  private let settings: SyncSettings
  private var directory: String
  private(set) var life: DeviceLife?
  /// What the user does now; one thing at a time.
  var isWorking = false
  private var lives = 0
  private var isStopping = false
  var random: SeededGenerator

  init(index: Int, world: World) throws {
    self.index = index
    self.world = world
    name = "device \(index)"
    random = SeededGenerator(seed: world.seed, stream: 10 + UInt64(index))
    id = .random(using: &random)
    let day: Int64 = 86_400_000_000_000
    clock = SkewedClock(world.scheduler, skew: Int64.random(in: -5 * day...5 * day, using: &random))
    settings = SyncSettings(
      poll: .seconds([20, 60, 300][random.number(0...2)]),
      keepRemovedDays: [0, 30][random.number(0...1)], compaction: .restless)
    directory = "\(world.directory)/\(index)-0"
    try start()
  }

  var isUp: Bool { life != nil && !isStopping }

  func start() throws {
    lives += 1
    let owner = (index + 1) * 1000 + lives
    world.scheduler.note("\(name) starts")
    try world.scheduler.perform(owner) {
      let life = try DeviceLife(
        owner: owner, directory: directory, device: id, name: name, seed: world.seed,
        clock: clock, cloud: world.cloud, secret: world.secret, scheduler: world.scheduler,
        settings: settings, count: world.count)
      self.life = life
      isWorking = false
      isStopping = false
      for problem in try life.problems() { world.report("\(name) after its start: \(problem)") }
      Task { await life.sync.start() }
    }
  }

  /// Ends the life as the daemon does when it is told to, while the user may still be at work.
  func stop() {
    guard let life, !isStopping else { return }
    isStopping = true
    world.scheduler.note("\(name) stops")
    world.count("stop \(isWorking ? "at work" : "idle")")
    world.scheduler.perform(life.owner) {
      Task {
        life.fileSystem.reset()
        await life.sync.stop()
        do { try life.catalog.close() } catch { world.report("\(name) cannot close: \(error)") }
        world.scheduler.note("\(name) stopped")
        self.life = nil
        self.isStopping = false
      }
    }
  }

  /// Ends the life between two steps. What its files hold at this moment is what the next one finds:
  /// a copy, since this process still has the old ones open.
  func crash() throws {
    guard let life else { return }
    world.scheduler.note("\(name) crashes")
    world.count("crash \(isWorking ? "at work" : "idle")")
    world.scheduler.kill(life.owner)
    world.cloud.forget(life.owner)
    let next = "\(world.directory)/\(index)-\(lives)"
    try FileManager.default.copyItem(atPath: directory, toPath: next)
    try Self.copyTimes(from: directory, to: next)
    if world.bug == .losesJournal {
      for file in try FileManager.default.contentsOfDirectory(atPath: next)
      where file.contains("-redo-") {
        try FileManager.default.removeItem(atPath: "\(next)/\(file)")
      }
    }
    // For its descriptors: its tasks stay where they are for ever, and hold it.
    try? life.catalog.close()
    try FileManager.default.removeItem(atPath: directory)
    directory = next
    self.life = nil
    isStopping = false
  }

  /// A start after a crash goes by the times of content files.
  private static func copyTimes(from old: String, to new: String) throws {
    let content = "/content"
    for path in FileManager.default.enumerator(atPath: old + content) ?? .init() {
      guard let path = path as? String else { continue }
      var status = stat()
      guard stat("\(old)\(content)/\(path)", &status) == 0 else { continue }
      let times = [status.st_atim, status.st_mtim]
      utimensat(AT_FDCWD, "\(new)\(content)/\(path)", times, 0)
    }
  }
}
