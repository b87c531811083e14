import CSimulation
import Glibc
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage

extension CompactionPolicy {
  fileprivate static var never: CompactionPolicy {
    var policy = CompactionPolicy()
    policy.interval = .seconds(100 * 365 * 86_400)
    return policy
  }

  /// So that every run compacts again and again, and devices are away for longer than the log
  /// reaches.
  fileprivate static var restless: CompactionPolicy {
    let second = Int64(1_000_000_000)
    var policy = CompactionPolicy()
    policy.removesPacks = true
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

extension ManyItems {
  fileprivate static var few: ManyItems {
    var result = ManyItems()
    result.arrivals = 3
    result.arrivalPart = 2
    result.departures = 3
    result.departurePart = 2
    return result
  }
}

/// One machine, through all its lives, and the user in front of it.
final class SimulatedDevice: @unchecked Sendable {
  // Unchecked: the simulation has one thread.
  let name: String
  let index: Int
  let world: World
  let account: SimulatedAccount
  let clock: SkewedClock
  let id: Model.DeviceID
  let member: SimulatedMember
  /// What it knew of the account when another device began to remove it.
  var formerMemory: SimulatedMemory?
  /// Another device is removing it, or has: nobody waits for it in the end.
  var isLeaving = false
  /// It is removed for sure: nothing that it writes from here on may reach the others.
  var isRemoved = false
  private let poll: Duration
  private let keepRemovedDays: Int
  private var directory: String
  private(set) var life: DeviceLife?
  /// What is known here of the account's quota outlives the daemon.
  private(set) var quota: UInt64?
  private var allotment = Allotment()
  /// What the user does now; one thing at a time.
  var isWorking = false
  /// The eviction that the user waits for: each one has another number.
  var eviction: Int?
  /// A program keeps a file open.
  var isHolding = false
  private var lives = 0
  private var isStopping = false
  /// The places where it can crash that are to be passed before it does; nil for never.
  private var placesLeft: Int?
  /// What its files held when it was to crash, in the midst of a piece. That piece goes on to its
  /// end, and nothing of it counts any more.
  private var remains: String?
  /// Lives that ended in a crash. Their tasks stay where they are for ever, and they with them:
  /// nothing of them may run any more, not even what frees them.
  private var dead: [DeviceLife] = []
  var random: SeededGenerator
  /// For what only some runs have: the others go on as they did.
  var ownRandom: SeededGenerator

  private static let day: Int64 = 86_400_000_000_000

  init(index: Int, account: SimulatedAccount, world: World) throws {
    self.index = index
    self.account = account
    self.world = world
    name = "device \(index)"
    random = SeededGenerator(seed: world.seed, stream: 10 + UInt64(index))
    ownRandom = SeededGenerator(seed: world.seed, stream: 500 + UInt64(index))
    id = .random(using: &random)
    let credentials = try account.credentials(world.scheduler)
    member = SimulatedMember(
      identity: DeviceIdentity(device: id, name: name), memory: SimulatedMemory(),
      secret: credentials.secret, format: credentials.format)
    try account.signIn(member, world.scheduler)
    clock = SkewedClock(world.scheduler, skew: Self.anySkew(&random))
    poll = Duration.seconds([60, 300, 900][random.number(0...2)])
    keepRemovedDays = [0, 30][random.number(0...1)]
    directory = "\(world.directory)/\(index)-0"
    quota = account.quota
    try Self.prepare(directory)
    try start()
  }

  private static func anySkew(_ random: inout SeededGenerator) -> Int64 {
    Int64.random(in: -5 * day...5 * day, using: &random)
  }

  /// The redo journal is to find bytes that it need not write.
  private static func prepare(_ directory: String) throws {
    try Files.makeDirectories(directory)
    for name in ["a", "b"] {
      let file = try OpenFile.open(
        "\(directory)/catalog.sqlite-redo-\(name)", flags: O_RDWR | O_CREAT)
      try file.truncate(to: 4 << 20)
    }
  }

  var isUp: Bool { life != nil && !isStopping && remains == nil }

  /// Whether what it did up to now is what its next life finds.
  var isIntact: Bool { remains == nil }

  /// The first owner of its pieces; each life has a number of its own.
  private var owner: Int { (index + 1) * 1000 + lives }

  static func index(of owner: Int) -> Int? { owner >= 1000 ? owner / 1000 - 1 : nil }

  /// There is room for everything from now on.
  func liftQuota() {
    quota = nil
    let allotment = allotment
    guard let life else { return }
    world.scheduler.perform(life.owner) { allotment.set(limit: nil) }
  }

  func setClock() {
    clock.skew = Self.anySkew(&random)
    world.scheduler.note("\(name) has another time")
  }

  func start() throws {
    lives += 1
    world.scheduler.note("\(name) starts")
    world.joins(self)
    var settings = SyncSettings(
      poll: poll, keepRemovedDays: keepRemovedDays,
      compaction: world.compacts ? .restless : .never)
    if world.takesFewForMany { settings.manyItems = .few }
    if world.isNarrow { settings.longReplacement = 2_000 }
    if world.keepsFilesOpen { settings.snapshotQuiet = .seconds(60) }
    allotment = Allotment(limit: quota)
    let allotment = allotment
    try world.scheduler.perform(owner) {
      let life = try DeviceLife(
        owner: owner, directory: directory, device: id, name: name, clock: clock,
        account: account, member: member, opensAccount: world.opensAccounts, world: world,
        settings: settings,
        allotment: allotment)
      self.life = life
      isWorking = false
      eviction = nil
      isHolding = false
      isStopping = false
      for problem in try life.problems() { world.report("\(name) after its start: \(problem)") }
      Task {
        await life.sync.start()
        life.hasStarted = true
      }
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
        // What is left of it now has nothing to do with the next life.
        guard self.life === life else { return }
        self.life = nil
        self.isStopping = false
      }
    }
  }

  // MARK: Crashes

  /// Ends the life between two pieces.
  func crash() throws {
    guard life != nil, remains == nil else { return }
    world.count("crash \(isWorking ? "at work" : "idle")")
    try snapshot()
    bury()
  }

  /// Ends the life at one of the next places that are named as fault points.
  func crash(afterPlaces count: Int) { placesLeft = count }

  func crashesNoMore() { placesLeft = nil }

  /// It passes such a place.
  func reached(_ place: String) {
    guard remains == nil, let left = placesLeft else { return }
    placesLeft = left > 0 ? left - 1 : nil
    guard left == 0 else { return }
    world.count("crash at \(place)")
    world.scheduler.note("\(name) crashes at \(place)")
    do { try snapshot() } catch { world.report("\(name) cannot crash: \(error)") }
    world.scheduler.afterPiece = { [self] in bury() }
  }

  /// What its files hold at this moment is what the next life finds: a copy, since this process
  /// still has the old ones open.
  private func snapshot() throws {
    let next = "\(world.directory)/\(index)-\(lives)"
    guard simulation_copy(directory, next) == 0 else { throw Errno.current }
    remains = next
    guard world.bug == .losesJournal else { return }
    for name in try Files.names(in: next) where name.contains("-redo-") {
      try Files.remove("\(next)/\(name)")
    }
  }

  private func bury() {
    guard let next = remains else { return }
    world.scheduler.note("\(name) crashed")
    world.scheduler.kill(owner)
    world.cloud.forget(owner)
    if let life { dead.append(life) }
    life = nil
    if simulation_remove(directory) != 0 { world.report("\(directory) cannot be removed") }
    directory = next
    remains = nil
    placesLeft = nil
    isStopping = false
  }
}

extension Errno {
  static var current: Errno { Errno(rawValue: errno) }
}
