import Backend
import Catalog
import Model
import SyncEngine

/// In some runs the cloud goes back to earlier states, as when somebody restores a backup of it,
/// and some device recovers it. What no device had locally at that moment, and the cloud has no
/// more, is excused; everything else has to be there in the end.
final class Rollbacks {
  private unowned let world: World
  private var random: SeededGenerator
  private var copy: [String: Cloud.Object]?
  /// At which acts something happens.
  private var nextCopy: Int
  private var nextRestore = Int.max
  private var nextRecovery = Int.max
  private(set) var restores = 0
  /// Runs in which the cloud loses packs alone, as when a backup copied them before the log.
  private var losesPacks: SeededGenerator
  private(set) var packLosses = 0
  /// All packs that the cloud lost, alone or when it was set back.
  private var lostPacks: Set<String> = []
  /// When the cloud was set back, and to which copy. A content that lost a conflict may still be
  /// replaced by a device that looked at the cloud just before, or that waits for the answer. An
  /// eviction looks for itself; one that was under way may have looked just before, too.
  private var setBack:
    (copy: [String: Cloud.Object], time: Int64, evictions: [Int: Int], asking: Set<Int>)?
  private static let lookLasts = World.second / 10
  private static let longestLook = 10 * World.second
  /// Since when, and of which copy, a device may not have listed the packs that are left.
  private var loss: (copy: [String: Cloud.Object], time: Int64)?
  /// A device that listed the packs evicts for so long on the strength of it.
  private static let inventoryLasts = 60 * World.second

  init(_ world: World) {
    self.world = world
    var random = SeededGenerator(seed: world.seed, stream: 9)
    nextCopy = random.number(5...60)
    self.random = random
    losesPacks = SeededGenerator(seed: world.seed, stream: 10)
  }

  /// When there are no more acts: the cloud may be set back at the last one. A copy that a later
  /// recovery drops is not excused.
  func settleForGood() throws {
    try settle()
    (setBack, loss) = (nil, nil)
  }

  /// Excuses copies that gave way on the strength of a look right before the cloud lost them.
  private func settle() throws {
    try excuseGarbage()
    if let setBack {
      let age = world.scheduler.now - setBack.time
      // Once more after the last of them has ended.
      try excuse(
        setBack.copy, onlyConflicts: setBack.evictions.isEmpty,
        of: age <= Self.lookLasts ? nil : setBack.asking)
      let evictions = setBack.evictions.filter { world.devices[$0.key].eviction == $0.value }
      self.setBack?.evictions = evictions
      let limit = setBack.asking.isEmpty ? Self.lookLasts : Self.longestLook
      if evictions.isEmpty, age > limit { self.setBack = nil }
    }
    if let loss {
      try excuse(loss.copy)
      if world.scheduler.now - loss.time > Self.inventoryLasts { self.loss = nil }
    }
  }

  func step() throws {
    try settle()
    if world.acts >= nextCopy {
      nextCopy = .max
      copy = world.cloud.objects
      nextRestore = world.acts + random.number(5...60)
      world.scheduler.note("the cloud is copied")
    }
    if world.acts >= nextRestore, let copy {
      nextRestore = .max
      self.copy = nil
      for key in world.cloud.objects.keys where StoreKey.isPack(key) && copy[key] == nil {
        if let pack = key.split(separator: "/").last { lostPacks.insert(String(pack)) }
      }
      try excuse(copy)
      if losesPacks.chance(4) {
        world.cloud.restore(
          world.cloud.objects.filter { !StoreKey.isPack($0.key) || copy[$0.key] != nil })
        loss = (copy, world.scheduler.now)
        packLosses += 1
        world.count("packs lost")
        world.scheduler.note("the cloud loses packs")
      } else {
        world.cloud.restore(copy)
        for account in world.accounts { try account.keepMembers(world.scheduler) }
        var evictions: [Int: Int] = [:]
        var asking: Set<Int> = []
        for (index, device) in world.devices.enumerated() {
          evictions[index] = device.eviction
          if device.life?.store.calls ?? 0 > 0 { asking.insert(index) }
        }
        setBack = (copy, world.scheduler.now, evictions, asking)
        world.count("cloud set back")
        world.scheduler.note("the cloud is set back")
      }
      restores += 1
      nextRecovery = world.acts + random.number(0...40)
      nextCopy = world.acts + random.number(10...80)
    }
    if world.acts >= nextRecovery {
      nextRecovery = .max
      let devices = world.devices.filter { $0.isUp }
      if !devices.isEmpty {
        let device = devices[random.number(0...devices.count - 1)]
        if let life = device.life {
          world.scheduler.note("\(device.name) recovers the cloud")
          world.scheduler.perform(life.owner) {
            Task { _ = try? await life.sync.recoverStore() }
          }
        }
      }
    }
  }

  /// Packs that devices removed are garbage of the log that the cloud went back to, and perhaps not
  /// of what other devices have read. Here they go within a minute, not a week, long before anybody
  /// recovers the cloud.
  private func excuseGarbage() throws {
    let removed = world.cloud.takeRemovedPacks()
    guard restores > 0, !removed.isEmpty else { return }
    try excuse(world.cloud.objects, in: Set(removed.compactMap { $0.split(separator: "/").last }))
  }

  /// Whether the log has a part of a content in a pack that the cloud lost.
  func hasLost(_ content: Manifest, _ life: DeviceLife) throws -> Bool {
    let places = try life.catalog.chunkLocations(content.chunks.map(\.id))
    return content.chunks.contains { chunk in
      places[chunk.id].map { lostPacks.contains("\($0.pack)") } ?? false
    }
  }

  /// Contents that no device has locally, and of which the copy lacks a part or no device shows
  /// them. `onlyConflicts`: of those the conflict versions alone, that these devices know, or any.
  /// `gone`: those alone of which a device takes a part to be in these packs.
  private func excuse(
    _ copy: [String: Cloud.Object], onlyConflicts: Bool = false, of losing: Set<Int>? = nil,
    in gone: Set<Substring>? = nil
  ) throws {
    let packs = Set(
      copy.keys.filter { StoreKey.isPack($0) }.compactMap { $0.split(separator: "/").last })
    for account in world.accounts {
      var local: Set<Manifest> = []
      var stored: Set<Manifest> = []
      var archived: Set<Manifest> = []
      var losers: Set<Manifest> = []
      var named: Set<Manifest> = []
      for (index, device) in world.devices.enumerated() where device.account === account {
        guard let life = device.life, device.isIntact else { continue }
        for item in try life.items() {
          if item.inode.kind == .directory {
            // A package's conflict version is one archive that only the cloud has.
            for content in life.keptInConflicts(of: item.inode) {
              archived.insert(content)
              if let gone, try life.isPartly(content, in: gone) { named.insert(content) }
            }
            continue
          }
          guard item.inode.kind == .file else { continue }
          let conflicts = life.keptInConflicts(of: item.inode)
          if losing?.contains(index) ?? true { losers.formUnion(conflicts) }
          var placeholders = conflicts
          if let content = try life.shown(item.inode) {
            if item.inode.content == .local {
              local.insert(content)
            } else {
              placeholders.append(content)
            }
          }
          for content in placeholders {
            if try life.isStored(content, in: packs) { stored.insert(content) }
            if let gone, try life.isPartly(content, in: gone) { named.insert(content) }
          }
        }
      }
      // A file of a package that is local may have been replaced by that version.
      local.subtract(archived)
      local.formUnion(stored)
      for content in account.ledger.acknowledged.keys
      where !local.contains(content) && (!onlyConflicts || losers.contains(content))
        && (gone == nil || named.contains(content))
      {
        account.ledger.supersede(content)
      }
      guard gone == nil else { continue }
      // What items had is merged by what devices know of it, and conflict versions go with the
      // cloud.
      account.ledger.removePackageVersion()
    }
  }
}

extension World {
  /// Until no device says that the cloud is not what it knows.
  func recoverAll() {
    recoverEach()
    // A pack that was put right before the cloud was set back may be named in the log all the same:
    // devices ask only for packs that they put longer ago.
    guard rollbacks?.restores ?? 0 > 0 else { return }
    for device in devices {
      guard let life = device.life else { continue }
      nonisolated(unsafe) var isDone = false
      scheduler.perform(life.owner) {
        Task {
          do {
            let report = try await life.sync.verify(VerifyOptions())
            self.scheduler.note("\(device.name) verifies the cloud: \(report.repaired) repaired")
          } catch {
            self.report("\(device.name) cannot verify the cloud: \(error)")
          }
          isDone = true
        }
      }
      guard scheduler.run(within: 1800 * Self.second, until: { isDone }) else {
        return report("\(device.name) does not come to the end of verifying")
      }
    }
    for device in devices where synchronize(device) != nil { saveOlderContents(of: device) }
  }

  /// A device keeps an older content for as long as the store does not have the newer one. Where
  /// nobody has that any more, somebody saves the file again.
  private func saveOlderContents(of device: SimulatedDevice) {
    guard let life = device.life, let items = try? life.items() else { return }
    for item in items where item.inode.kind == .file && item.inode.content == .local {
      guard let newer = try? life.catalog.remote(item.inode.item)?.content,
        newer.id != item.inode.version,
        (try? isExcused(newer.manifest, life, device.account)) ?? false
      else { continue }
      scheduler.note("\(device.name) saves what it has of \(item.inode.item)")
      device.overwrite(item.inode.item)
      _ = scheduler.run(within: 60 * Self.second, until: { !device.isWorking })
    }
    _ = synchronize(device)
  }

  private func recoverEach() {
    for _ in 0..<8 {
      for device in devices { _ = synchronize(device) }
      guard
        let device = devices.first(where: { !($0.life?.sync.condition.isNormal ?? true) }),
        let life = device.life
      else { return }
      do { try rollbacks?.settleForGood() } catch { report("the cloud's losses: \(error)") }
      nonisolated(unsafe) var isDone = false
      scheduler.note("\(device.name) recovers the cloud at the end")
      scheduler.perform(life.owner) {
        Task {
          do { _ = try await life.sync.recoverStore() } catch {
            self.scheduler.note("\(device.name) cannot recover: \(error)")
          }
          isDone = true
        }
      }
      guard scheduler.run(within: 1800 * Self.second, until: { isDone }) else {
        return report("\(device.name) does not come to the end of recovering")
      }
    }
  }
}

extension DeviceLife {
  /// Whether all chunks of a content are in one of these packs, as this device knows.
  fileprivate func isStored(_ content: Manifest, in packs: Set<Substring>) throws -> Bool {
    let places = try catalog.chunkLocations(content.chunks.map(\.id))
    return content.chunks.allSatisfy { chunk in
      places[chunk.id].map { packs.contains($0.pack.description[...]) } ?? false
    }
  }

  fileprivate func isPartly(_ content: Manifest, in packs: Set<Substring>) throws -> Bool {
    let places = try catalog.chunkLocations(content.chunks.map(\.id))
    return places.values.contains { packs.contains($0.pack.description[...]) }
  }
}
