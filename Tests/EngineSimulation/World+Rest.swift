import Backend
import Model
import RemoteStore

/// What has to hold when faults are over.
extension World {
  /// Faults end, all devices run; then nothing may differ any more.
  func settle() throws {
    try endFaults()
    try memberChanges?.finish()
    for account in accounts where account.quota != nil { try checkQuota(account) }
    for device in members { device.liftQuota() }
    guard problems.isEmpty else { return }
    if rollsBack { recoverAll() }
    try comeToRest()
    if compacts, problems.isEmpty {
      compacts = false
      try restart()
      try comeToRest()
    }
    if hidesContainers, !opensAccounts, problems.isEmpty {
      hideContainers()
      try comeToRest()
    }
    guard problems.isEmpty else { return }
    for account in accounts { try check(account) }
    if accounts.count > 1 { checkStranger() }
  }

  /// All devices are up, and their ways to the cloud without faults.
  func endFaults() throws {
    scheduler.note("faults end")
    isNarrow = false
    // Who is being stopped is waited for.
    _ = scheduler.run(within: 600 * Self.second) {
      devices.allSatisfy { $0.life == nil || $0.isUp }
    }
    for device in devices {
      device.crashesNoMore()
      if device.life == nil { try device.start() }
      guard let life = device.life else { return report("\(device.name) does not stop") }
      life.store.weather = .fair
      life.store.bytesPerSecond = nil
      scheduler.perform(life.owner) { life.offline.set(offline: false) }
    }
    guard
      scheduler.run(
        within: 1200 * Self.second, until: { devices.allSatisfy { !$0.isWorking && !$0.isHolding } }
      )
    else { return report("a user's work does not end") }
    // Calls that began in bad weather are as slow as it was.
    guard
      scheduler.run(
        within: 600 * Self.second, until: { devices.allSatisfy { $0.life?.store.calls == 0 } })
    else { return report("the store does not answer") }
  }

  private func comeToRest() throws {
    var failures: [String] = []
    for _ in 0..<12 {
      failures = []
      for device in members { if let failure = synchronize(device) { failures.append(failure) } }
      if failures.isEmpty, try isAtRest() { return }
      scheduler.run(for: 30 * Self.second)
    }
    for failure in failures { report(failure) }
  }

  private func restart() throws {
    for device in members { device.stop() }
    guard scheduler.run(within: 600 * Self.second, until: { members.allSatisfy { $0.life == nil } })
    else { return report("a device does not stop") }
    for device in members { try device.start() }
    // A daemon mounts what has begun.
    scheduler.run(for: Self.second)
  }

  func synchronize(_ device: SimulatedDevice) -> String? {
    guard let life = device.life else { return "\(device.name) is down" }
    guard scheduler.run(within: 60 * Self.second, until: { life.hasStarted }) else {
      return "\(device.name) does not start"
    }
    nonisolated(unsafe) var result: Result<Void, any Error>?
    scheduler.perform(life.owner) {
      Task {
        do {
          try await life.sync.sync(timeout: .seconds(300))
          result = .success(())
        } catch {
          result = .failure(error)
        }
      }
    }
    guard scheduler.run(within: 900 * Self.second, until: { result != nil }) else {
      return "\(device.name) does not come to an end"
    }
    if case .failure(let error)? = result { return "\(device.name) cannot sync: \(error)" }
    return nil
  }

  private func isAtRest() throws -> Bool {
    try accounts.allSatisfy { account in
      let lives = members.filter { $0.account === account }.compactMap(\.life)
      let positions = Set(try lives.map { try $0.catalog.position() })
      return try positions.count <= 1 && lives.allSatisfy { try $0.catalog.differing().isEmpty }
    }
  }

  private func check(_ account: SimulatedAccount) throws {
    if random.chance(25) {
      // Or one that has seen nothing of all this.
      if let failure = synchronize(try join(account)) { report("newcomer: \(failure)") }
    }
    let devices = members.filter { $0.account === account }
    guard let first = devices.first else { return }
    try checkEqual(devices)
    guard problems.isEmpty else { return }
    // The log before a recovery is not all of it.
    if rollbacks?.restores ?? 0 == 0 { try checkLog(account, devices) }
    try checkContents(of: first)
    if changesMembers { for device in devices { try checkForbidden(device) } }
    try checkAttributes(of: first)
    for device in devices {
      readAll(device)
      try checkFiles(of: device)
    }
    guard problems.isEmpty else { return }
    try checkQuiet(devices)
    // Content files go a moment after the rows that named them.
    scheduler.run(for: 5 * Self.second)
    for device in devices {
      for problem in try device.life?.problems() ?? [] { report("\(device.name): \(problem)") }
    }
  }

  /// No segment made the account larger than its quota.
  private func checkQuota(_ account: SimulatedAccount) throws {
    guard let quota = account.quota else { return }
    account.quota = nil
    var sizes: [ItemID: UInt64] = [:]
    var used: UInt64 = 0
    let container = account.history
    nonisolated(unsafe) var position = LogPosition.start
    while true {
      let segments = try scheduler.wait { try await container.segments(after: position) }
      guard let last = segments.last else { break }
      for segment in segments {
        for record in segment.changes.upserts { sizes[record.id] = record.allottedBytes }
        for id in segment.changes.removals { sizes[id] = nil }
        let now = sizes.values.reduce(0, +)
        if now > quota, now > used {
          report("\(now) bytes of \(quota) with segment \(segment.position.sequence)")
        }
        used = now
      }
      position = last.position
    }
    let waiting = members.filter { $0.account === account }.reduce(0) { sum, device in
      sum + (device.life?.sync.waitingForRoom.files ?? 0)
    }
    if waiting > 0 { count("quota met") }
    scheduler.note("\(used) bytes of \(quota), \(waiting) files without room")
  }

  private func checkEqual(_ devices: [SimulatedDevice]) throws {
    let first = try devices[0].listing() + devices[0].trash()
    for device in devices.dropFirst() {
      let other = try device.listing() + device.trash()
      guard first != other else { continue }
      for line in Set(first).symmetricDifference(other).sorted().prefix(6) {
        report("only \(first.contains(line) ? devices[0].name : device.name) has \(line)")
      }
    }
  }

  /// The log, folded by the book, is what every device takes it for.
  private func checkLog(_ account: SimulatedAccount, _ devices: [SimulatedDevice]) throws {
    var tree: [ItemID: ItemRecord] = [:]
    // Devices may have read a snapshot where its beginning is gone.
    let container = account.history
    var history = ItemHistory(
      restored: account.ledger.restored, linked: account.ledger.linked)
    nonisolated(unsafe) var position = LogPosition.start
    while true {
      let segments = try scheduler.wait { try await container.segments(after: position) }
      guard let last = segments.last else { break }
      for segment in segments {
        // A package comes back as a whole, whichever of its files was edited.
        if !hasPackages { history.note(segment.changes).forEach(report) }
        noteReplaced(segment.changes, tree, account.ledger)
        for record in segment.changes.upserts {
          tree[record.id] = record
          for version in [record.content].compactMap(\.self) + record.conflicts {
            guard let content = version.manifest else { continue }
            account.ledger.learn(version.id, content)
            if account.ledger.paused.contains(content) { count("open file in the log") }
            if account.ledger.halfDone.contains(content) {
              report("the log has a half-written content of \(record.id)")
            }
          }
        }
        for id in segment.changes.removals {
          let record = tree.removeValue(forKey: id)
          // Its content was never uploaded, so no version of its package and no trash has the item
          // and its attributes. The device that wrote it brings it back without them.
          if let content = record?.content, content.manifest == nil {
            account.ledger.removeAttributes(of: id)
          }
        }
      }
      position = last.position
    }
    for device in devices {
      guard let life = device.life else { continue }
      if try life.catalog.position() != position {
        report("\(device.name) has not read all the log")
      }
      if try life.catalog.usage() != tree.values.reduce(0, { $0 + $1.allottedBytes }) {
        report("\(device.name) does not know what the container takes")
      }
      for (id, record) in tree.sorted(by: { $0.key < $1.key })
      where try life.catalog.remote(id) != record {
        report("\(device.name) takes \(id) of the log for something else")
      }
      let shown = Set(try life.items().map(\.inode.item))
      for id in shown where tree[id] == nil {
        report("\(device.name) shows \(id), the log does not")
      }
      for id in tree.keys where id != .root && !shown.contains(id) {
        report("\(device.name) does not show \(id) of the log")
      }
    }
  }

  /// A file that is removed, and another one of its name made before the device sends that: to the
  /// other devices that is a file that was saved over, as programs do that remove the old file
  /// first.
  private func noteReplaced(
    _ changes: LogChanges, _ tree: [ItemID: ItemRecord], _ ledger: Ledger
  ) {
    let files = Set(changes.upserts.lazy.filter { $0.kind == .file }.flatMap(\.links))
    for id in changes.removals {
      guard let old = tree[id], old.kind == .file, old.links.allSatisfy(files.contains),
        !old.conflicts.contains(where: { $0.manifest != nil }), let content = old.content?.manifest
      else { continue }
      ledger.supersede(content)
    }
  }

  /// What was acknowledged and not done away with by who saw it is a file's content, or a conflict
  /// version. What was removed is in the trash, if the log ever had it.
  private func checkContents(of device: SimulatedDevice) throws {
    guard let life = device.life else { return }
    let ledger = device.account.ledger
    var there: Set<Manifest> = []
    for item in try life.items() {
      if item.inode.kind == .file, let content = try life.shown(item.inode) {
        there.insert(content)
      }
      there.formUnion(life.keptInConflicts(of: item.inode))
    }
    var kept = there
    for removed in try life.catalog.removedItems(since: .earliest) {
      kept.formUnion(DeviceLife.contents(of: removed.record))
    }
    let lost = ledger.acknowledged.filter { content, _ in
      guard !ledger.isSuperseded(content), !there.contains(content) else { return false }
      guard ledger.discarded.contains(content) else { return true }
      return !emptiesTrash && ledger.logged.contains(content) && !kept.contains(content)
    }
    for (content, device) in lost.sorted(by: { ($0.value, $0.key.size) < ($1.value, $1.key.size) })
    {
      report("lost: \(Ledger.name(of: content)) that \(device) wrote")
    }
  }

  /// Nothing that a device wrote after it was removed is anywhere else.
  private func checkForbidden(_ device: SimulatedDevice) throws {
    guard let life = device.life else { return }
    let forbidden = device.account.ledger.forbidden
    for item in try life.items() where item.name == MemberChanges.intruder {
      report("\(device.name) shows \(item.path), which a removed device made")
    }
    for item in try life.items() where item.inode.kind == .file {
      if let content = try life.shown(item.inode), forbidden.contains(content) {
        report("\(device.name) shows \(item.path) as a removed device wrote it")
      }
    }
  }

  /// Attributes of different names never stand in each other's way.
  private func checkAttributes(of device: SimulatedDevice) throws {
    guard let life = device.life else { return }
    var numbers: [ItemID: TreeItem] = [:]
    for item in try life.items() { numbers[item.inode.item] = item }
    for key in device.account.ledger.attributes.keys.sorted() {
      guard let item = numbers[key.item] else { continue }
      let value = try? life.catalog.attribute(key.name, of: item.inode.number)
      if let value {
        if !device.account.ledger.values.contains(value) {
          report("\(key.name) of \(item.path) is nobody's")
        }
      } else if !device.account.ledger.mayMiss(key), try !isArchived(key, life) {
        report("lost: \(key.name) of \(item.path), \(key.item)")
      }
    }
  }

  /// What an item in a package had when that lost a conflict is in the version that was kept of it.
  private func isArchived(_ key: Ledger.AttributeKey, _ life: DeviceLife) throws -> Bool {
    let values = life.account.ledger.attributes[key]?.set ?? []
    let fields = values.map { Array("SCHILY.xattr.\(key.name)=".utf8) + $0 }
    for item in try life.items() where item.inode.kind == .directory {
      for version in life.conflicts(of: item.inode) {
        let number = item.inode.number
        let archive = try scheduler.wait { () async throws -> [UInt8] in
          nonisolated(unsafe) var bytes: [UInt8] = []
          try await life.sync.read(version.id, of: number) { bytes += $0 }
          return bytes
        }
        if fields.contains(where: archive.contains(_:)) { return true }
      }
    }
    return false
  }

  /// The bytes that are here are those of the version that the row names.
  func checkFiles(of device: SimulatedDevice) throws {
    guard let life = device.life else { return }
    for item in try life.items() where item.inode.kind == .file && item.inode.content == .local {
      let named = try life.shown(item.inode)
      guard item.inode.size > 0 else { continue }
      if try life.stored(item.inode) != named {
        report("\(device.name) has other bytes for \(item.path) than its version")
      }
    }
  }

  /// All can be read, on the first device of an account and on the last; the others read a few.
  private func readAll(_ device: SimulatedDevice) {
    guard let life = device.life else { return }
    let mates = members.filter { $0.account === device.account }
    let isThorough = device === mates.first || device === mates.last
    nonisolated(unsafe) var isDone = false
    scheduler.perform(life.owner) {
      Task {
        do {
          for item in try life.items() where item.inode.kind == .file {
            guard isThorough || self.random.chance(10) else { continue }
            do { try await device.read(item.inode.number, life) } catch {
              if try self.isExcused(item, life, device.account) { continue }
              if try self.isLeft(item, life) { continue }
              self.report(
                "\(device.name) cannot read \(item.path), \(item.inode.item): \(error)")
            }
            guard device === mates.first else { continue }
            for version in try life.sync.versions(of: item.inode.number) where version.isConflict {
              let kept = life.conflicts(of: item.inode).first { $0.id == version.id }
              if self.rollsBack, try self.isExcused(kept?.manifest, life, device.account) {
                continue
              }
              nonisolated(unsafe) var bytes: [UInt8] = []
              try await life.sync.read(version.id, of: item.inode.number) { bytes += $0 }
              if !device.account.ledger.knows(bytes) {
                self.report(
                  "a conflict version of \(item.path), \(bytes.count) bytes, is nobody's content")
              }
            }
          }
        } catch {
          self.report("\(device.name) cannot read everything: \(error)")
        }
        isDone = true
      }
    }
    if !scheduler.run(within: 900 * Self.second, until: { isDone }) {
      report("\(device.name) does not come to the end of reading")
    }
  }

  /// A file that a device announced which was removed before it uploaded the content.
  private func isLeft(_ item: TreeItem, _ life: DeviceLife) throws -> Bool {
    guard let content = try life.catalog.remote(item.inode.item)?.content, content.manifest == nil
    else { return false }
    return devices.contains { $0.isLeaving && $0.id == content.device }
  }

  /// A file that the log has by name only, or in lost packs, since no device had it locally when
  /// the cloud lost it.
  private func isExcused(_ item: TreeItem, _ life: DeviceLife, _ account: SimulatedAccount) throws
    -> Bool
  {
    guard rollbacks?.restores ?? 0 > 0,
      let content = try life.catalog.remote(item.inode.item)?.content
    else { return false }
    return try isExcused(content.manifest, life, account)
  }

  func isExcused(_ content: Manifest?, _ life: DeviceLife, _ account: SimulatedAccount) throws
    -> Bool
  {
    guard let content else { return true }
    guard let rollbacks else { return false }
    let ledger = account.ledger
    let isFree = ledger.acknowledged[content] == nil || ledger.isSuperseded(content)
    if isFree, rollbacks.packLosses > 0 { return true }
    // A set-back takes a pack that was put just before, and a segment names it all the same. Who
    // did away with the content before anybody noticed may have had the only copy.
    guard isFree || ledger.discarded.contains(content) else { return false }
    return try rollbacks.hasLost(content, life)
  }

  /// Devices may tell where they are at any time.
  private var contentObjects: Int {
    cloud.objects.keys.reduce(0) { $0 + ($1.contains("/devices/") ? 0 : 1) }
  }

  /// At rest nothing is left to do: syncing once more puts nothing into the cloud. The network may.
  private func checkQuiet(_ devices: [SimulatedDevice]) throws {
    let before = contentObjects - cloud.repeatedObjects
    for device in devices {
      if let failure = synchronize(device) { report("once more: \(failure)") }
      guard let life = device.life else { continue }
      var status = try scheduler.wait { await life.sync.status() }
      // A read returns before the downloaded content is durable.
      for _ in 0..<60 where status.pendingDownloads > 0 {
        _ = scheduler.run(within: Self.second, until: { false })
        status = try scheduler.wait { await life.sync.status() }
      }
      if status.pendingUploads > 0 || status.pendingDownloads > 0 || !status.errors.isEmpty {
        report("\(device.name) at rest: \(status)")
      }
    }
    if contentObjects - cloud.repeatedObjects != before {
      report("at rest something was put into the cloud")
    }
    guard try !isAtRest() else { return }
    report("a rest that does not last")
  }

  /// With another account's secret nobody gets in, and nothing changes.
  private func checkStranger() {
    let before = cloud.objects.count
    let store = PlainStore(cloud, prefix: accounts[0].prefix)
    let secret = accounts[1].secret
    do {
      _ = try scheduler.wait {
        try await RemoteAccount.open(store: store, secret: secret, createIfMissing: true)
      }
      report("another account's secret opens the first one")
    } catch RemoteError.wrongSecret {
    } catch {
      report("another account's secret: \(error)")
    }
    if cloud.objects.count != before { report("a stranger changed the cloud") }
  }
}

/// The history of each item in the log: one that was removed comes back for a reason.
struct ItemHistory {
  let restored: Set<ItemID>
  /// Those that somebody gave a hard link.
  let linked: Set<ItemID>
  private var contents: [ItemID: Set<Manifest>] = [:]
  private var versions: [ItemID: Set<VersionID>] = [:]
  /// The contents of the newest record.
  private var latest: [ItemID: Set<Manifest>] = [:]
  /// Its names.
  private var links: [ItemID: Set<Link>] = [:]
  private var removed: Set<ItemID> = []

  init(restored: Set<ItemID>, linked: Set<ItemID>) {
    self.restored = restored
    self.linked = linked
  }

  /// The defects of a segment. The reasons to come back are the trash, an edit that the removal
  /// did not know, a hard link that it did not know, and for a directory what is in it.
  mutating func note(_ changes: LogChanges) -> [String] {
    var problems: [String] = []
    for record in changes.upserts {
      let manifest = record.content?.manifest
      if removed.remove(record.id) != nil, record.kind != .directory,
        !restored.contains(record.id)
      {
        let isNewLink =
          linked.contains(record.id)
          && links[record.id, default: []].isDisjoint(with: record.links)
        if !isEdit(record), !isNewLink {
          let what = manifest.map(Ledger.name(of:)) ?? "nothing"
          problems.append("\(record.id) was removed and came back without a reason, with \(what)")
        }
      }
      if let manifest { contents[record.id, default: []].insert(manifest) }
      let all = record.conflicts + [record.content].compactMap(\.self)
      versions[record.id, default: []].formUnion(all.map(\.id))
      latest[record.id] = Set(all.compactMap(\.manifest))
      links[record.id] = Set(record.links)
    }
    removed.formUnion(changes.removals)
    return problems
  }

  /// An edit may give a file an earlier content again, as a crash leaves a file truncated. It is
  /// an edit unless the file had that content when it was removed.
  private func isEdit(_ record: ItemRecord) -> Bool {
    guard let content = record.content else { return false }
    guard let manifest = content.manifest, contents[record.id, default: []].contains(manifest)
    else { return true }
    return !versions[record.id, default: []].contains(content.id)
      && !latest[record.id, default: []].contains(manifest)
  }
}

extension SimulatedDevice {
  /// The trash; the same on all devices as long as none forgets it.
  func trash() throws -> [String] {
    guard let life, !world.emptiesTrash else { return [] }
    return try life.catalog.removedItems(since: .earliest).map { removed in
      let contents = removed.record.contents.map { "\($0.id)" }.sorted()
      return "trash \(removed.record.id) \(removed.record.kind) \(contents) by \(removed.device)"
    }.sorted()
  }

  /// Everything that has to be equal on all devices.
  func listing() throws -> [String] {
    guard let life else { return [] }
    return try life.items().map { item in
      let inode = item.inode
      let attributes = try life.catalog.attributeNames(of: inode.number).map {
        "\($0)=\(String(decoding: try life.catalog.attribute($0, of: inode.number), as: UTF8.self))"
      }
      let times = inode.kind == .directory ? "" : "\(inode.modified.nanoseconds)"
      let version = inode.version.map { "\($0)" } ?? "-"
      return """
        \(item.path) \(inode.kind) \(inode.item) \(inode.size) \(String(inode.mode, radix: 8)) \
        \(times) \(inode.linkCount) \(String(decoding: inode.target, as: UTF8.self)) \(version) \
        \(attributes.joined(separator: ",")) \(life.conflicts(of: inode).map { "\($0.id)" }.sorted())
        """
    }.sorted()
  }
}
