import Model
import RemoteStore

/// Devices that make new keys for their account, and remove others.
///
/// A device that is being removed goes on as long as it knows nothing of it. In the end it has to
/// have stopped, and the others must not have anything that it wrote after its removal was done.
final class MemberChanges {
  private unowned let world: World
  private var random: SeededGenerator
  /// One at a time: users do not remove each other at the same moment in most runs.
  private var isBusy = false
  private var isUnfinished = false

  init(_ world: World) {
    self.world = world
    random = SeededGenerator(seed: world.seed, stream: 9)
  }

  func step() throws {
    guard !isBusy, random.chance(4) else { return }
    let able = world.members.filter { $0.account === world.accounts[0] && $0.isUp }
    guard let device = able.randomElement(using: &random), let life = device.life,
      life.hasStarted
    else { return }
    let others = world.members.filter { $0.account === world.accounts[0] && $0 !== device }
    var leaving: SimulatedDevice?
    if others.count > 1, random.chance(50) { leaving = others.randomElement(using: &random) }
    change(life, device, removing: leaving)
  }

  private func change(_ life: DeviceLife, _ device: SimulatedDevice, removing: SimulatedDevice?) {
    let world = world
    world.countAct()
    world.count(removing == nil ? "rotation" : "removal")
    world.scheduler.note(
      "\(device.name) \(removing.map { "removes \($0.name)" } ?? "makes new keys")")
    if let removing {
      removing.isLeaving = true
      removing.formerMemory = removing.member.memory.copy()
      removing.account.ledger.excuse(removing.name)
    }
    isBusy = true
    isUnfinished = true
    nonisolated(unsafe) let changes = self
    world.scheduler.perform(life.owner) {
      Task {
        do {
          _ = try await life.remote.rotate(
            removing: removing.map { [$0.id] } ?? [], secret: .generate())
          removing?.isRemoved = true
          changes.isUnfinished = false
          world.count("rotation done")
          world.scheduler.note("\(device.name) has done so")
        } catch {
          world.scheduler.note("\(device.name) has not: \(error)")
        }
        changes.isBusy = false
      }
    }
  }

  static let intruder = try! ItemName("intruder")

  /// A removed device that does not care that it was removed puts a segment at the end of the log.
  private func intrude(as device: SimulatedDevice) throws {
    guard let memory = device.formerMemory else { return }
    let (account, member) = (device.account, device.member)
    let container = account.container
    let store = PlainStore(account.cloud, prefix: account.prefix)
    let item = ItemRecord(
      id: .random(using: &random), kind: .directory,
      links: [Link(parent: .documents, name: Self.intruder)], mode: 0o755,
      modified: Timestamp(nanoseconds: 1), created: Timestamp(nanoseconds: 1))
    let isPut = try world.scheduler.wait { () async throws -> Bool in
      var last: UInt64 = 0
      while let next = try await container.segmentNumbers(after: last, limit: 1000).last {
        last = next
      }
      let stale = try RemoteAccount(
        store: store, secret: member.secret, format: member.format, device: member.identity,
        memory: memory)
      let head = try await container.position(of: last)
      return try await stale.container(DeviceLife.container, incarnation: container.incarnation)
        .commit(
          LogChanges(upserts: [item]), after: head,
          from: LogOrigin(device: member.identity.device, time: Timestamp(nanoseconds: 1))) != nil
    }
    if !isPut { world.report("\(device.name) cannot even put a void segment") }
  }

  /// Without faults: what was begun is ended, and the removed devices have stopped.
  func finish() throws {
    isBusy = false
    let account = world.accounts[0]
    let opened = account.opened
    let leaving = world.devices.filter(\.isLeaving)
    let ids = Set(leaving.map(\.id))
    try world.scheduler.wait {
      try await opened.refreshMembers()
      if !ids.isEmpty { _ = try await opened.rotate(removing: ids, secret: .generate()) }
      try await opened.settleMembers()
    }
    for device in leaving {
      device.isRemoved = true
      try intrude(as: device)
      if device.life == nil { try device.start() }
      guard let failure = world.synchronize(device) else {
        world.report("\(device.name) was removed and syncs")
        continue
      }
      if !failure.contains("removed from the account") { world.report(failure) }
      device.stop()
    }
    let world = world
    if !world.scheduler.run(
      within: 600 * World.second, until: { leaving.allSatisfy { $0.life == nil } })
    {
      world.report("a removed device does not stop")
    }
  }
}
