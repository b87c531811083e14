import Model
import SyncEngine

/// A made-up life of a few devices: what their users and their engines do, step by step. A step
/// holds all the numbers that it needs, so that it means something whatever other steps are left
/// out.
struct PlannerLife {
  enum Step {
    case act(device: Int, choice: Int, item: Int, parent: Int, name: Int, seed: UInt64)
    /// `holds`: packages are not quiet.
    case round(device: Int, losesRace: Bool, stops: Bool, holds: Bool)
  }

  let name: String
  let devices: Int
  let steps: [Step]
  /// What a planner does that keeps no loser of a conflict; to try the tests themselves.
  var forgetsConflicts = false

  init(name: String, devices: Int, steps: [Step], forgetsConflicts: Bool = false) {
    self.name = name
    self.devices = devices
    self.steps = steps
    self.forgetsConflicts = forgetsConflicts
  }

  /// 20 to 80 steps of two to four devices, a third of them rounds of an engine.
  init(seed: UInt64) {
    var random = SplitMix64(seed: seed)
    name = "PLANNER_SEED=\(seed)"
    let count = Int.random(in: 2...4, using: &random)
    devices = count
    steps = (0..<Int.random(in: 20...80, using: &random)).map { _ in
      Self.step(of: Int.random(in: 0..<count, using: &random), rounds: 33, &random)
    }
  }

  /// A tree that all have, then 10 to 40 steps of each device without hearing of the others.
  init(apart seed: UInt64, devices wanted: Int? = nil) {
    var random = SplitMix64(seed: seed &+ 1_000_000)
    name = "PLANNER_SEED=\(seed) PLANNER_APART=1"
    let count = wanted ?? Int.random(in: 2...4, using: &random)
    devices = count
    var steps = (0..<Int.random(in: 3...15, using: &random)).map { _ in
      Self.step(of: 0, rounds: 0, &random)
    }
    for _ in 0..<3 {
      for device in 0..<count {
        steps.append(.round(device: device, losesRace: false, stops: false, holds: false))
      }
    }
    for device in 0..<count {
      steps += (0..<Int.random(in: 10...40, using: &random)).map { _ in
        Self.step(of: device, rounds: 0, &random)
      }
    }
    self.steps = steps
  }

  private static func step(of device: Int, rounds: Int, _ random: inout SplitMix64) -> Step {
    if Int.random(in: 0..<100, using: &random) < rounds {
      return .round(
        device: device, losesRace: Int.random(in: 0..<4, using: &random) == 0,
        stops: Int.random(in: 0..<6, using: &random) == 0,
        holds: Int.random(in: 0..<3, using: &random) == 0)
    }
    func number() -> Int { Int.random(in: 0..<1_000_000, using: &random) }
    return .act(
      device: device, choice: number() % 13, item: number(), parent: number(), name: number(),
      seed: random.next())
  }

  /// What is wrong at its end; nil when nothing is.
  func problem() -> String? {
    var simulation = Simulation(self)
    do {
      let problems = try simulation.run()
      return problems.isEmpty ? nil : problems.joined(separator: "\n")
    } catch {
      return "\(error)"
    }
  }

  /// What happens, told step by step.
  func told() -> String {
    var simulation = Simulation(self)
    simulation.isTold = true
    do { _ = try simulation.run() } catch { simulation.tell("\(error)") }
    return simulation.story.joined(separator: "\n")
  }
}

struct Simulation {
  private let life: PlannerLife
  private var log = SimulatedLog()
  private var devices: [SimulatedDevice] = []
  private var written: Set<Manifest> = []
  private var superseded: Set<Manifest> = []
  private var time: Int64 = 1000
  var isTold = false
  private(set) var story: [String] = []

  init(_ life: PlannerLife) {
    self.life = life
    for index in 0..<life.devices {
      devices.append(SimulatedDevice(device: Model.DeviceID(high: 7, low: UInt64(index))))
    }
  }

  mutating func run() throws -> [String] {
    for step in life.steps {
      switch step {
      case .round(let device, let losesRace, let stops, let holds):
        devices[device].holdsPackages = holds
        _ = try round(device, losesRace: losesRace, stops: stops)
      case .act(let device, let choice, let item, let parent, let name, let seed):
        act(device, choice, item, parent, name, SplitMix64(seed: seed))
      }
    }
    for index in devices.indices {
      devices[index].busy = []
      devices[index].holdsPackages = false
    }
    return try settle() ? problems() : ["it does not end"]
  }

  /// Rounds of all until nothing moves; false if that does not come.
  private mutating func settle() throws -> Bool {
    for _ in 0..<200 {
      var moved = false
      for index in devices.indices where try round(index, losesRace: false, stops: false) {
        moved = true
      }
      if !moved, devices.allSatisfy({ $0.position == log.segments.count }) { return true }
    }
    return false
  }

  private mutating func round(_ index: Int, losesRace: Bool, stops: Bool) throws -> Bool {
    let before = log.segments.count
    let moved = try devices[index].round(
      &log, losesRace: losesRace, stopsBeforeNoting: stops, isTraced: false)
    if life.forgetsConflicts {
      for place in before..<log.segments.count {
        for record in log.segments[place].upserts.indices {
          log.segments[place].upserts[record].conflicts = []
        }
      }
    }
    if isTold, moved || log.segments.count > before {
      let segments = log.segments[before...].map { "\($0.upserts) removes \($0.removals)" }
      tell(
        """
        device \(index) syncs\(losesRace ? ", loses the race" : "")\
        \(stops ? ", stops before it notes" : ""): \(segments.joined(separator: " "))
        """)
    }
    return moved
  }

  mutating func tell(_ text: @autoclosure () -> String) {
    if isTold { story.append(text()) }
  }

  /// What is wrong now that all is at rest; empty when nothing is.
  private func problems() -> [String] {
    var result: [String] = []
    let remote = devices[0].remote
    for (index, device) in devices.enumerated() {
      if device.remote != remote { result.append("device \(index) folds the log to another tree") }
      if device.base != remote { result.append("device \(index): the base is behind") }
      let local = device.local.mapValues { node in
        var record = node.record
        record.conflicts = remote[record.id]?.conflicts ?? []
        // What is shown is known by its version; whether its chunks are up is the base's to say.
        if record.content?.id == remote[record.id]?.content?.id {
          record.content = remote[record.id]?.content
        }
        return record
      }
      for id in Set(local.keys).union(remote.keys).sorted() where local[id] != remote[id] {
        result.append(
          """
          device \(index) shows \(String(describing: local[id])), edited \
          \(String(describing: device.local[id]?.edited)), stamp \
          \(String(describing: device.stamp(of: id))), the log has \(String(describing: remote[id]))
          """)
      }
    }
    var kept: Set<Manifest> = []
    var links: Set<Link> = []
    for record in remote.values.sorted(by: { $0.id < $1.id }) {
      for version in [record.content].compactMap(\.self) + record.conflicts {
        // Of a package its files' own chunks: in the simulation a content is one.
        for chunk in version.manifest?.chunks ?? [] { kept.insert(Manifest(chunks: [chunk])) }
      }
      for link in record.links {
        if !links.insert(link).inserted { result.append("two items are called \(link)") }
        if remote[link.parent]?.kind != .directory { result.append("no directory for \(link)") }
      }
      if !reachesRoot(record, in: remote) { result.append("\(record.id) is in a cycle") }
    }
    let lost = written.subtracting(superseded).subtracting(kept)
    if !lost.isEmpty {
      result.append("lost: \(lost.map { Hex.encode($0.chunks[0].id.bytes.prefix(16)) }.sorted())")
    }
    return result
  }

  private func reachesRoot(_ record: ItemRecord, in tree: [ItemID: ItemRecord]) -> Bool {
    var current = record
    for _ in 0...tree.count {
      if current.id == .root { return true }
      guard let above = current.links.first.flatMap({ tree[$0.parent] }) else { return false }
      current = above
    }
    return false
  }

  // MARK: Actions

  private mutating func act(
    _ index: Int, _ choice: Int, _ item: Int, _ parent: Int, _ name: Int, _ random: SplitMix64
  ) {
    var random = random
    time += Int64.random(in: 1...5, using: &random)
    // Clocks differ by more than the whole run takes.
    let now = time + Int64(index) * 100
    let items = devices[index].local.keys.sorted()
    let directories = items.filter { devices[index].local[$0]?.record.kind == .directory }
    let item = items[item % items.count]
    let letters = ["a", "b", "c", "d.txt", "p.pages"]
    guard let name = try? ItemName(letters[name % letters.count]) else { return }
    let link = Link(parent: directories[parent % directories.count], name: name)
    tell("device \(index): \(Self.acts[choice]) \(item), \(link)")
    switch choice {
    case 0...2:
      let version = VersionID.random(using: &random)
      if devices[index].create(
        .random(using: &random), .file, at: link,
        content: EditedContent(version: version, manifest: nil), time: now)
      {
        written.insert(SimulatedDevice.manifest(of: version))
      }
    case 3:
      _ = devices[index].create(
        .random(using: &random), .directory, at: link, content: nil, time: now)
    case 4...6:
      write(item, on: index, at: now, VersionID.random(using: &random))
    case 7, 8:
      _ = devices[index].move(item, to: link)
    case 9, 10:
      remove(item, on: index)
    case 12:
      guard devices[index].local[item]?.record.kind == .file else { break }
      if devices[index].busy.remove(item) == nil { devices[index].busy.insert(item) }
    default:
      devices[index].local[item]?.record.mode = UInt16.random(in: 0...0o777, using: &random)
      devices[index].local[item]?.record.attributes["user.k"] = [
        UInt8.random(in: 0...9, using: &random)
      ]
      devices[index].touch(item)
    }
  }

  private static let acts = [
    "makes a file at", "makes a file at", "makes a file at", "makes a directory at", "writes",
    "writes", "writes", "moves", "moves", "removes", "removes", "changes attributes of",
    "opens or closes",
  ]

  private mutating func write(_ item: ItemID, on index: Int, at now: Int64, _ version: VersionID) {
    guard let node = devices[index].local[item], node.record.kind == .file else { return }
    supersede(node)
    written.insert(SimulatedDevice.manifest(of: version))
    devices[index].local[item]?.edited = EditedContent(version: version, manifest: nil)
    devices[index].local[item]?.record.modified = Timestamp(nanoseconds: now)
    devices[index].touch(item)
  }

  private mutating func remove(_ item: ItemID, on index: Int) {
    var pending = [item]
    while let next = pending.popLast(), next != .root, next != .documents {
      if let node = devices[index].local[next] { supersede(node) }
      // With a file go the conflict versions that it showed.
      for version in devices[index].base[next]?.conflicts ?? [] {
        for chunk in version.manifest?.chunks ?? [] { superseded.insert(Manifest(chunks: [chunk])) }
      }
      pending += (try? devices[index].localChildren(of: next)) ?? []
    }
    devices[index].remove(item)
  }

  private mutating func supersede(_ node: SimulatedDevice.Node) {
    guard let id = node.edited?.version ?? node.record.content?.id else { return }
    superseded.insert(SimulatedDevice.manifest(of: id))
  }
}
