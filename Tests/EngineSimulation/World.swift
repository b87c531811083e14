import Glibc
import Model
import Platform
import RemoteStore

/// One run: a cloud, a few devices, and a seed from which everything follows.
final class World: @unchecked Sendable {
  // Unchecked: the simulation has one thread.
  let seed: UInt64
  let directory: String
  let scheduler: Scheduler
  let cloud: Cloud
  let bug: PlantedBug?
  var random: SeededGenerator
  var accounts: [SimulatedAccount] = []
  var devices: [SimulatedDevice] = []
  /// Whether each life opens the account with its secret, as a device does that signs in.
  private(set) var opensAccounts = false
  private(set) var problems: [String] = []
  /// What users did, and what befell them.
  private(set) var acts = 0
  /// What was done, and what became of it.
  private(set) var tally: [String: Int] = [:]
  /// Of the stretch that goes on: how many acts it still has, and how long the longest pause in it
  /// is.
  private var stretch = (left: 0, longest: Int64(0))

  /// A run in which nothing is wrong has a handful of these at most.
  private static let problemLimit = 20
  static let leastActs = 200
  static let second: Int64 = 1_000_000_000

  init(seed: UInt64, directory: String, bug: PlantedBug?, isTold: Bool) throws {
    self.seed = seed
    self.directory = directory
    self.bug = bug
    takesFewForMany = Self.isWanted("SIMULATION_MANY", else: seed % 5 == 0)
    hasPackages = Self.isWanted("SIMULATION_PACKAGES", else: seed % 2 == 0)
    let hasQuota = Self.isWanted("SIMULATION_QUOTA", else: seed % 4 == 1)
    let needsRollbacks =
      PlantedMistake.putsUnchecked.isPlanted || PlantedMistake.evictsUnchecked.isPlanted
    let rollsBack = Self.isWanted(
      "SIMULATION_ROLLBACK", else: seed % 9 == 6 || needsRollbacks)
    self.rollsBack = rollsBack
    // By its seed alone, every run with rollbacks would compact.
    let compacts = rollsBack ? seed / 9 % 3 == 0 : seed % 3 == 0
    self.compacts = Self.isWanted("SIMULATION_COMPACTS", else: compacts)
    // It cannot be judged without the whole log.
    self.hasQuota = hasQuota && !rollsBack
    hasForeignObjects = Self.isWanted("SIMULATION_FOREIGN", else: seed % 7 == 3)
    deletesContainer = Self.isWanted("SIMULATION_DELETION", else: seed % 11 == 5 && !rollsBack)
    hidesContainers = Self.isWanted(
      "SIMULATION_ABSENCE", else: seed % 13 == 4 && !rollsBack)
    changesMembers = Self.isWanted("SIMULATION_MEMBERS", else: seed % 4 == 3 && !rollsBack)
    litterRandom = SeededGenerator(seed: seed, stream: 8)
    isNarrow = Self.isWanted("SIMULATION_NARROW", else: seed % 4 == 2)
    keepsFilesOpen = Self.isWanted("SIMULATION_OPEN", else: seed % 4 == 3)
    hasPlots = Self.isWanted("SIMULATION_PLOTS", else: seed % 4 >= 2 && !rollsBack)
    // Of what a store that was set back had, not every device has heard.
    emptiesTrash = self.compacts || rollsBack
    plots = Plots(seed: seed)
    scheduler = Scheduler.begin(seed: seed)
    scheduler.isTold = isTold
    cloud = Cloud(scheduler)
    cloud.bug = bug
    random = SeededGenerator(seed: seed, stream: 3)
    try Files.makeDirectories(directory)
    scheduler.skew = { [unowned self] owner in device(of: owner)?.clock.skew ?? 0 }
    FaultPoint.observer = { [unowned self] place in
      device(of: scheduler.owner)?.reached(place)
    }
  }

  /// Those that nobody removes.
  var members: [SimulatedDevice] { devices.filter { !$0.isLeaving } }

  private func device(of owner: Int) -> SimulatedDevice? {
    guard let index = SimulatedDevice.index(of: owner) else { return nil }
    return devices.indices.contains(index) ? devices[index] : nil
  }

  func name(of device: Model.DeviceID) -> String? { devices.first { $0.id == device }?.name }

  /// Devices compact all the time, or never. In the end they cease to: at rest nothing may happen.
  var compacts: Bool
  /// Removed items are forgotten some time after.
  let emptiesTrash: Bool
  /// Users do something with versions and the trash on purpose.
  let hasPlots: Bool
  private var plots: Plots
  /// The account has room for some of what is written and not for all of it, until faults end.
  let hasQuota: Bool
  /// The cloud goes back to earlier states, and is recovered.
  let rollsBack: Bool
  private(set) var rollbacks: Rollbacks?
  /// Uploads take long, until faults end, and users change files that are being uploaded.
  var isNarrow: Bool
  /// Programs keep files open for minutes while users go on.
  let keepsFilesOpen: Bool
  /// Directories may have the name of a package.
  let hasPackages: Bool
  /// Other programs put files among the objects of the cloud.
  let hasForeignObjects: Bool
  var litterRandom: SeededGenerator
  /// In the end a device deletes the container.
  let deletesContainer: Bool
  /// Devices make new keys and remove each other.
  private(set) var changesMembers: Bool
  private(set) var memberChanges: MemberChanges?
  /// In the end the cloud does not show any container for a while.
  let hidesContainers: Bool
  /// What is new is taken in parts, as if it were a hundred thousand items.
  let takesFewForMany: Bool

  /// What a run has is its seed's to say, unless it is asked for or not wanted.
  private static func isWanted(_ variable: String, else usual: Bool) -> Bool {
    switch getenv(variable).map({ String(cString: $0) }) {
    case "1": true
    case "0": false
    default: usual
    }
  }

  func count(_ what: String) { tally[what, default: 0] += 1 }

  func countAct() { acts += 1 }

  func report(_ problem: String) {
    scheduler.note("PROBLEM \(problem)")
    if problems.count < Self.problemLimit { problems.append(problem) }
  }

  // MARK: The run

  func run() throws {
    let wanted = Self.leastActs + random.number(0...40)
    if rollsBack { rollbacks = Rollbacks(self) }
    var joining = try begin(acts: wanted)
    // Each life of theirs would sign in with a secret that is of no use any more.
    if opensAccounts || deletesContainer || hidesContainers || rollsBack { changesMembers = false }
    if changesMembers { memberChanges = MemberChanges(self) }
    while acts < wanted, problems.isEmpty {
      while let next = joining.last, next.act <= acts {
        joining.removeLast()
        try join(next.account)
      }
      try step()
      try rollbacks?.step()
      try memberChanges?.step()
      litter()
      if hasPlots { try plots.go(on: self) }
      scheduler.run(for: pause())
    }
    for next in joining where problems.isEmpty { try join(next.account) }
    if problems.isEmpty { try deletesContainer && !opensAccounts ? deleteAndSettle() : settle() }
    for device in devices { device.stop() }
    let areStopped = scheduler.run(within: 600 * Self.second) {
      devices.allSatisfy { $0.life == nil }
    }
    if !areStopped, problems.isEmpty { report("a device does not stop") }
  }

  private struct Joining {
    let act: Int
    let account: SimulatedAccount
  }

  /// Makes the accounts and their first devices; gives those that come later, the last first.
  private func begin(acts: Int) throws -> [Joining] {
    opensAccounts = random.chance(5)
    let count = random.number(2...5)
    for index in 0..<(count > 2 && random.chance(10) ? 2 : 1) {
      accounts.append(
        try SimulatedAccount(index: index, seed: seed, cloud: cloud, scheduler: scheduler))
      // Of a source of its own: what runs without a quota do is what they always did.
      var own = SeededGenerator(seed: seed, stream: 4 + UInt64(index))
      if hasQuota { accounts[index].quota = UInt64(own.number(2_000...120_000)) }
    }
    var joining: [Joining] = []
    for index in 0..<count {
      // Of two accounts the second has the last device.
      let account = accounts[index == count - 1 ? accounts.count - 1 : 0]
      if index > 0, random.chance(30) {
        joining.append(Joining(act: random.number(1...acts), account: account))
      } else {
        try join(account)
      }
    }
    return joining.sorted { $0.act > $1.act }
  }

  @discardableResult
  func join(_ account: SimulatedAccount) throws -> SimulatedDevice {
    try SimulatedDevice(index: devices.count, account: account, world: self)
  }

  /// Known before its first life begins: its pieces are its own from the first on.
  func joins(_ device: SimulatedDevice) {
    if !devices.contains(where: { $0 === device }) { devices.append(device) }
  }

  /// Acts come in stretches: a program's one after the other, a person's with moments between them.
  /// After a stretch there is time, at times enough for all to be in sync, seldom an hour.
  private func pause() -> Int64 {
    stretch.left -= 1
    guard stretch.left <= 0 else { return random.chance(60) ? 0 : span(stretch.longest) }
    let millisecond = Self.second / 1000
    stretch =
      switch random.number(0...9) {
      case 0..<6: (random.number(5...40), 20 * millisecond)
      case 6..<9: (random.number(3...20), 1000 * millisecond)
      default: (random.number(2...5), 10 * Self.second)
      }
    return switch random.number(0...99) {
    case 0..<40: span(Self.second)
    case 40..<80: span(10 * Self.second)
    case 80..<98: span(120 * Self.second)
    default: 600 * Self.second + span(3600 * Self.second)
    }
  }

  private func span(_ longest: Int64) -> Int64 { Int64.random(in: 0...longest, using: &random) }

  private func step() throws {
    let device = devices[random.number(0...devices.count - 1)]
    guard let life = device.life else {
      if random.chance(30) { try device.start() }
      return
    }
    switch random.number(0...199) {
    case 0..<3:
      countAct()
      device.act()
      // In the midst of something, where there is most to lose.
      scheduler.run(pieces: random.number(0...150), within: Self.second)
      try device.crash()
    case 3..<8:
      countAct()
      device.crash(afterPlaces: random.chance(50) ? random.number(0...10) : random.number(0...100))
    case 8..<10:
      countAct()
      device.act()
      scheduler.run(pieces: random.number(0...150), within: Self.second)
      device.stop()
    case 10..<18:
      countAct()
      let isOffline = !life.offline.isOffline
      scheduler.note("\(device.name) is \(isOffline ? "offline" : "online")")
      count(isOffline ? "offline" : "online")
      scheduler.perform(life.owner) { life.offline.set(offline: isOffline) }
    case 18..<28:
      countAct()
      life.store.weather = .random(&random)
      count("weather")
      scheduler.note("\(device.name) has \(life.store.weather)")
    case 28..<40:
      // All at once: two that make the same name, or remove what the other moves.
      for device in devices where random.chance(70) { device.act() }
    case 40..<43:
      for device in devices { device.act(.renameTree) }
    default:
      device.act()
    }
  }
}
