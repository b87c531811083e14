import Model

/// Short plots around one file, among everything else that happens: conflicts that somebody renames
/// over, resolves by an old list or edits after a removal, and things that come back from the
/// trash.
///
/// They draw from a stream of their own: runs without them keep their course.
struct Plots {
  private struct Step {
    let act: Int
    let body: (World) -> Void
  }

  private var random: SeededGenerator
  private var steps: [Step] = []
  private var next = 0

  init(seed: UInt64) { random = SeededGenerator(seed: seed, stream: 900) }

  /// Does the steps that are due after so many acts. Begins another plot when the last one is over.
  mutating func go(on world: World) throws {
    while let step = steps.first, step.act <= world.acts {
      steps.removeFirst()
      step.body(world)
    }
    guard steps.isEmpty, world.acts >= next else { return }
    next = world.acts + random.number(5...25)
    try begin(world)
  }

  private mutating func begin(_ world: World) throws {
    let first = world.devices[random.number(0...world.devices.count - 1)]
    let mates = world.devices.filter { $0.account === first.account && $0 !== first }
    let now = world.acts
    if random.chance(25) {
      let choice = random.number(0...1_000_000)
      steps = [Step(act: now) { _ in first.restore(choice: choice) }]
      return
    }
    guard let second = mates.randomElement(using: &random), let life = first.life,
      let other = second.life
    else { return }
    let known = Set(try other.items().map(\.inode.item))
    let files = try life.items().filter { $0.inode.kind == .file && known.contains($0.inode.item) }
    guard let file = files.randomElement(using: &random)?.inode.item else { return }
    let another = files.randomElement(using: &random)?.inode.item
    let (seconds, choice) = (random.number(1...60), random.number(0...1000))
    let kind = random.number(0...2)
    world.count("plot \(kind)")
    let pause = random.number(1...10)
    // Users who are still at something have time to end it, and what is edited offline has to be
    // local.
    world.scheduler.run(for: 3 * World.second)
    for device in [first, second] { device.read(file) }
    world.scheduler.run(for: 3 * World.second)
    switch kind {
    case 0, 1:
      // A conflict first.
      steps = [
        Step(act: now) { world in
          for device in [first, second] {
            world.setOffline(device, true)
            device.overwrite(file)
          }
        },
        Step(act: now + 6) { world in
          for device in [first, second] { world.setOffline(device, false) }
          world.scheduler.run(for: 20 * World.second)
        },
      ]
      let time = now + 6 + pause
      if kind == 0, let another, another != file {
        steps.append(Step(act: time) { _ in first.renameOver(file, by: another) })
      } else {
        steps += [
          Step(act: time) { _ in first.resolveAsListed(file, after: seconds, keeping: choice) },
          Step(act: time + 1) { _ in second.overwrite(file) },
        ]
      }
    default:
      // `second` edits what it knows, while `first` edits it, and removes that.
      steps = [
        Step(act: now) { world in
          world.setOffline(second, true)
          first.overwrite(file)
          second.overwrite(file)
          world.scheduler.run(for: 20 * World.second)
        },
        Step(act: now + pause) { world in
          first.remove(file)
          world.scheduler.run(for: 10 * World.second)
        },
        Step(act: now + pause + 3) { world in world.setOffline(second, false) },
      ]
    }
  }
}

extension World {
  func setOffline(_ device: SimulatedDevice, _ isOffline: Bool) {
    guard let life = device.life, device.isUp else { return }
    scheduler.perform(life.owner) { life.offline.set(offline: isOffline) }
  }
}
