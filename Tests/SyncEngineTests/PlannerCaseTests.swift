import Model
import SyncEngine
import Testing

/// Single cases of the planner, each of which a simulated life once came to.
@Suite struct PlannerCaseTests {
  private let me = Model.DeviceID(high: 7, low: 0)
  private let item = ItemID(high: 1, low: 1)

  private func announced(by device: Model.DeviceID, conflicts: [ContentVersion] = []) throws
    -> ItemRecord
  {
    let time = Timestamp(nanoseconds: 1000)
    return ItemRecord(
      id: item, kind: .file, links: [Link(parent: .documents, name: try ItemName("a"))],
      mode: 0o644, modified: time, created: time,
      content: ContentVersion(
        id: VersionID(high: 2, low: 2), parent: nil, device: device, modified: time, size: 1,
        manifest: nil),
      conflicts: conflicts)
  }

  private func plan(_ record: ItemRecord) throws -> Plan {
    var device = SimulatedDevice(device: me)
    device.remote[item] = record
    return try Planner(device: me, view: device).plan(device.gather())
  }

  /// This device announced a file, did not hear that it had, and the file went before it was sent.
  /// Taken for news it came back, on all devices, with a content that nobody had.
  @Test func whatNobodyCanSendAnyMoreGoes() throws {
    let plan = try plan(announced(by: me))
    #expect(plan.removals == [item])
    #expect(plan.local.isEmpty && plan.upserts.isEmpty)
  }

  @Test func whatAnotherDeviceIsAboutToSendComes() throws {
    let plan = try plan(announced(by: Model.DeviceID(high: 7, low: 1)))
    #expect(plan.removals.isEmpty)
    #expect(plan.local.count == 1)
  }

  /// Somebody else's content is among its conflict versions: that is no reason to remove it.
  @Test func whatHasOtherContentsStays() throws {
    let version = VersionID(high: 3, low: 3)
    let other = ContentVersion(
      id: version, parent: nil, device: Model.DeviceID(high: 7, low: 1),
      modified: Timestamp(nanoseconds: 1), size: 1, manifest: SimulatedDevice.manifest(of: version))
    let plan = try plan(announced(by: me, conflicts: [other]))
    #expect(plan.removals.isEmpty)
  }

  @Test("a removed directory stays if the end of a cycle puts a directory back into it")
  func brokenCyclesKeepTheirDirectory() throws {
    func directory(_ number: UInt64, _ name: String, in parent: ItemID) throws -> ItemRecord {
      let time = Timestamp(nanoseconds: 1000)
      return ItemRecord(
        id: ItemID(high: 4, low: number), kind: .directory,
        links: [Link(parent: parent, name: try ItemName(name))], mode: 0o755, modified: time,
        created: time)
    }
    let (moved, other, target) = (
      try directory(1, "moved", in: .documents), try directory(2, "other", in: .documents),
      try directory(3, "target", in: .documents)
    )
    var device = SimulatedDevice(device: me)
    for record in [moved, other, target] {
      device.local[record.id] = SimulatedDevice.Node(record: record)
      device.base[record.id] = record
      device.remote[record.id] = record
    }
    // Here "moved" goes into "other", and "target" is removed.
    device.local[moved.id]?.record = try directory(1, "moved", in: other.id)
    device.touch(moved.id)
    device.remove(target.id)
    // Another device moved "other" into "moved", and that into "target".
    device.remote[moved.id] = try directory(1, "moved", in: target.id)
    device.remote[other.id] = try directory(2, "other", in: moved.id)
    let plan = try Planner(device: me, view: device).plan(device.gather())
    #expect(plan.removals.isEmpty)
    let placed = plan.local.compactMap { operation -> ItemRecord? in
      guard case .upsert(let record, _, _) = operation else { return nil }
      return record
    }
    // Parents first.
    #expect(placed.map(\.id) == [target.id, moved.id, other.id])
    #expect(placed.map { $0.links.first?.parent } == [.documents, target.id, moved.id])
  }

  // MARK: After a recovery of the store

  private func content(_ number: UInt64, parent: VersionID? = nil, time: Int64) -> ContentVersion {
    let id = VersionID(high: 5, low: number)
    return ContentVersion(
      id: id, parent: parent, device: me, modified: Timestamp(nanoseconds: time), size: 1,
      manifest: SimulatedDevice.manifest(of: id))
  }

  private func file(_ content: ContentVersion, conflicts: [ContentVersion] = []) throws
    -> ItemRecord
  {
    var record = try announced(by: me, conflicts: conflicts)
    record.content = content
    record.modified = content.modified
    return record
  }

  @Test("an item removed elsewhere comes back for a conflict version that only this device keeps")
  func keptConflictsOutliveARemoval() throws {
    let record = try file(content(1, time: 10))
    let kept = content(2, time: 5)
    var known = record
    known.conflicts = [kept]
    for (removed, comesBack) in [(record, true), (known, false)] {
      let trees = ItemTrees(
        local: LocalSide(record: record, size: 1, stamp: 1), base: record, remote: nil, stamp: 1,
        removed: removed, keptConflicts: [kept])
      let plan = try Planner(device: me, view: SimulatedDevice(device: me)).plan([item: trees])
      #expect(plan.upserts.map(\.conflicts) == (comesBack ? [[kept]] : []))
      #expect(plan.upserts.map(\.content) == (comesBack ? [record.content] : []))
    }
  }

  @Test("it comes back too when the removed item had the content that is here")
  func keptConflictsOutliveTheSameBytes() throws {
    let record = try file(content(1, time: 10))
    let kept = content(2, time: 5)
    let edit = try #require(record.content)
    var known = record
    known.conflicts = [kept]
    for (removed, comesBack) in [(record, true), (known, false)] {
      let trees = ItemTrees(
        local: LocalSide(
          record: record, size: 1,
          edited: EditedContent(version: content(4, time: 10).id, manifest: edit.manifest),
          stamp: 1),
        base: try file(content(3, time: 1)), remote: nil, stamp: 1, removed: removed,
        keptConflicts: [kept])
      let plan = try Planner(device: me, view: SimulatedDevice(device: me)).plan([item: trees])
      #expect(plan.upserts.map(\.conflicts) == (comesBack ? [[kept]] : []))
      #expect(plan.upserts.map(\.content?.manifest) == (comesBack ? [edit.manifest] : []))
    }
  }

  @Test("a content that was announced by name keeps its parent when it is sent")
  func theParentOfAnAnnouncedContent() throws {
    let sent = content(2, parent: VersionID(high: 5, low: 1), time: 10)
    let record = try file(sent.withoutManifest)
    let trees = ItemTrees(
      local: LocalSide(
        record: record, size: 1, edited: EditedContent(version: sent.id, manifest: sent.manifest),
        stamp: 1), base: record, remote: record, stamp: 1)
    let plan = try Planner(device: me, view: SimulatedDevice(device: me)).plan([item: trees])
    #expect(plan.upserts.map(\.content) == [sent])
  }

  @Test("the winner of a conflict has as its parent the content that it was made of")
  func parentOfTheWinner() throws {
    let base = content(1, time: 1)
    // The other device had its own content saved a second time.
    let unseen = content(2, parent: base.id, time: 2)
    let remote = content(3, parent: unseen.id, time: 3)
    let mine = content(4, time: 10)
    let (known, current) = (try file(base), try file(remote))
    var device = SimulatedDevice(device: me)
    device.remote[item] = current
    let local = LocalSide(
      record: try file(mine), size: 1,
      edited: EditedContent(version: mine.id, manifest: mine.manifest), stamp: 1)
    let plan = try Planner(device: me, view: device).plan([
      item: ItemTrees(local: local, base: known, remote: current)
    ])
    let winner = try #require(plan.upserts.first?.content)
    #expect(winner.id == mine.id && winner.parent == base.id)
    // A recovered log goes back to the content that this device has never seen.
    let recovered = try file(unseen)
    device.remote[item] = recovered
    let lineage = Lineage(parent: winner.parent)
    let supplied = LocalSide(
      record: try file(winner), size: 1,
      edited: EditedContent(version: winner.id, manifest: winner.manifest, lineage: lineage),
      stamp: 1)
    let again = try Planner(device: me, view: device).plan([
      item: ItemTrees(local: supplied, base: nil, remote: recovered)
    ])
    #expect(again.upserts.map(\.content) == [winner])
    #expect(again.upserts.map(\.conflicts) == [[unseen]])
  }

  @Test("without a base, a content that was made of the other one is newer")
  func contentsOfOneLine() throws {
    let older = content(1, time: 5)
    let newer = content(2, parent: older.id, time: 10)
    for (mine, theirs) in [(older, newer), (newer, older)] {
      let edited = EditedContent(
        version: mine.id, manifest: mine.manifest, lineage: Lineage(parent: mine.parent))
      let trees = ItemTrees(
        local: LocalSide(record: try file(mine), size: 1, edited: edited, stamp: 1), base: nil,
        remote: try file(theirs), stamp: 1)
      var device = SimulatedDevice(device: me)
      device.remote[item] = try file(theirs)
      let plan = try Planner(device: me, view: device).plan([item: trees])
      #expect(plan.upserts.map(\.content) == (mine == newer ? [newer] : []))
      #expect(plan.upserts.allSatisfy { $0.conflicts.isEmpty })
    }
  }

  @Test("conflict versions that the recovered log lacks come into it again")
  func keptConflictsComeBack() throws {
    let record = try file(content(1, time: 10))
    let kept = content(2, time: 5)
    var device = SimulatedDevice(device: me)
    device.remote[item] = record
    let trees = ItemTrees(
      local: LocalSide(record: record, size: 1, stamp: 1), base: record, remote: record,
      keptConflicts: [kept, content(1, time: 10)])
    let plan = try Planner(device: me, view: device).plan([item: trees])
    #expect(plan.upserts.map(\.conflicts) == [[kept]])
    #expect(plan.upserts.map(\.content) == [record.content])
  }

  @Test(
    "what another device supplied from before is a conflict, and what was made of this is newer")
  func suppliedContents() throws {
    let mine = content(1, time: 10)
    func plan(_ other: ContentVersion) throws -> Plan {
      let (base, remote) = (try file(mine), try file(other))
      var device = SimulatedDevice(device: me)
      device.remote[item] = remote
      let local = LocalSide(
        record: base, size: 1, edited: EditedContent(version: mine.id, manifest: mine.manifest),
        stamp: 1)
      return try Planner(device: me, view: device).plan([
        item: ItemTrees(local: local, base: base, remote: remote)
      ])
    }
    let older = content(2, time: 5)
    let conflict = try plan(older)
    #expect(conflict.upserts.first?.content?.id == mine.id)
    #expect(conflict.upserts.first?.conflicts == [older])
    let newer = try plan(content(3, parent: mine.id, time: 20))
    #expect(newer.upserts.isEmpty)
    #expect(newer.local.count == 1)
  }

  @Test("a version that a recovery left by name only is no conflict of itself")
  func ownVersionByName() throws {
    let mine = content(1, time: 10)
    let unsent = ContentVersion(
      id: mine.id, parent: nil, device: me, modified: mine.modified, size: 1, manifest: nil)
    let remote = try file(content(2, time: 5), conflicts: [unsent])
    var device = SimulatedDevice(device: me)
    device.remote[item] = remote
    let local = LocalSide(
      record: try file(mine), size: 1,
      edited: EditedContent(version: mine.id, manifest: mine.manifest), stamp: 1)
    let plan = try Planner(device: me, view: device).plan([
      item: ItemTrees(local: local, remote: remote)
    ])
    let record = try #require(plan.upserts.first)
    #expect(record.content?.id == mine.id)
    #expect(record.conflicts.map(\.id) == [VersionID(high: 5, low: 2)])
  }

  // MARK: Packages that lose a conflict

  private let them = Model.DeviceID(high: 7, low: 1)
  private let package = ItemID(high: 1, low: 2)

  private func version(_ number: UInt64, time: Int64) -> ContentVersion {
    let id = VersionID(high: 9, low: number)
    return ContentVersion(
      id: id, parent: nil, device: them, modified: Timestamp(nanoseconds: time), size: 1,
      manifest: SimulatedDevice.manifest(of: id))
  }

  /// Both devices know a package with one file and what `inside` says; both edited the file, this
  /// device last.
  private func conflict(_ inside: ItemRecord) throws -> SimulatedDevice {
    let time = Timestamp(nanoseconds: 1000)
    let folder = ItemRecord(
      id: package, kind: .directory,
      links: [Link(parent: .documents, name: try ItemName("p.pages"))], mode: 0o755,
      modified: time, created: time)
    var file = ItemRecord(
      id: item, kind: .file, links: [Link(parent: package, name: try ItemName("a"))], mode: 0o644,
      modified: time, created: time, content: version(1, time: 1000))
    var device = SimulatedDevice(device: me)
    for record in [folder, file, inside] {
      device.base[record.id] = record
      device.remote[record.id] = record
      device.local[record.id] = .init(record: record)
    }
    let mine = VersionID(high: 8, low: 1)
    device.local[item]?.edited = EditedContent(
      version: mine, manifest: SimulatedDevice.manifest(of: mine))
    device.local[item]?.record.modified = Timestamp(nanoseconds: 9000)
    device.touch(item)
    file.content = version(2, time: 5000)
    device.remote[item] = file
    return device
  }

  /// What was a package once and waits for someone to choose a version was removed here by somebody
  /// who had not seen that. The package that it is in loses, and what is kept of it has no
  /// versions.
  @Test func versionsOfWhatAPackageIsInAreNotLostWithIt() throws {
    let inner = ItemID(high: 1, low: 3)
    let time = Timestamp(nanoseconds: 1000)
    let former = ItemRecord(
      id: inner, kind: .directory, links: [Link(parent: package, name: try ItemName("former"))],
      mode: 0o755, modified: time, created: time)
    var device = try conflict(former)
    device.remote[inner]?.conflicts = [version(3, time: 2000)]
    device.remove(inner)
    let plan = try Planner(device: me, view: device).plan(device.gather())
    #expect(plan.archives[package] != nil)
    #expect(!plan.removals.contains(inner))
    #expect(
      plan.local.contains { operation in
        guard case .upsert(let record, _, _) = operation else { return false }
        return record.id == inner && record.conflicts.count == 1
      })
  }

  @Test("nothing of a package's conflict goes while the package itself waits")
  func winnerThatWaits() throws {
    let (folder, added) = (ItemID(high: 1, low: 4), ItemID(high: 1, low: 3))
    var file = try announced(by: them)
    file.id = added
    file.links = [Link(parent: package, name: try ItemName("b"))]
    file.content = version(3, time: 1000)
    var device = try conflict(file)
    // The other device made this file meanwhile.
    device.base[added] = nil
    device.local[added] = nil
    // Here the package was put into a new directory, which a program has claimed.
    let time = Timestamp(nanoseconds: 1000)
    let record = ItemRecord(
      id: folder, kind: .directory, links: [Link(parent: .documents, name: try ItemName("new"))],
      mode: 0o755, modified: time, created: time)
    device.local[folder] = .init(record: record)
    device.touch(folder)
    device.local[package]?.record.links = [Link(parent: folder, name: try ItemName("p.pages"))]
    device.touch(package)
    let waiting = try Planner(device: me, view: device, claimed: [folder]).plan(device.gather())
    #expect(waiting.removals.isEmpty && waiting.upserts.isEmpty && waiting.archives.isEmpty)
    let plan = try Planner(device: me, view: device).plan(device.gather())
    #expect(plan.removals == [added])
    #expect(plan.archives[package] != nil)
  }

  @Test("an item that was moved out of a package stays when the package lost a conflict elsewhere")
  func movedOutOfALoser() throws {
    let (inner, file) = (ItemID(high: 1, low: 3), ItemID(high: 1, low: 4))
    let time = Timestamp(nanoseconds: 1000)
    func record(
      _ id: ItemID, _ kind: ItemKind, _ name: String, in parent: ItemID
    ) throws -> ItemRecord {
      ItemRecord(
        id: id, kind: kind, links: [Link(parent: parent, name: try ItemName(name))], mode: 0o755,
        modified: time, created: time, content: kind == .file ? version(2, time: 1000) : nil)
    }
    for waits in [true, false] {
      var device = SimulatedDevice(device: me)
      let records = [
        try record(package, .directory, "p.pages", in: .documents),
        try record(inner, .directory, "b", in: package), try record(file, .file, "f", in: inner),
      ]
      for record in records {
        device.base[record.id] = record
        device.remote[record.id] = record
        device.local[record.id] = .init(record: record)
      }
      // They went with the version that another device kept of the package.
      device.remote[inner] = nil
      device.remote[file] = nil
      if waits { device.remote[package]?.conflicts = [version(3, time: 2000)] }
      device.local[inner]?.record.links = [Link(parent: .documents, name: try ItemName("b"))]
      device.local[inner]?.record.attributes = ["user.mine": [1]]
      device.touch(inner)
      let plan = try Planner(device: me, view: device).plan(device.gather())
      let kept = plan.upserts.filter { [inner, file].contains($0.id) }
      #expect(kept.map(\.attributes) == (waits ? [["user.mine": [1]], [:]] : []))
      for id in [inner, file] {
        let goes = plan.local.contains { if case .remove(id, _) = $0 { true } else { false } }
        #expect(goes == !waits)
      }
    }
  }

  @Test("a file of a package that comes back has the bytes that were sent before its removal")
  func announcedAndSent() throws {
    let inner = ItemID(high: 1, low: 3)
    var file = try announced(by: them)
    file.id = inner
    file.links = [Link(parent: package, name: try ItemName("b"))]
    var device = try conflict(file)
    // This device took the name up, but not the bytes before another one removed the file.
    device.remote[inner] = nil
    var sent = file
    let name = try #require(file.content)
    sent.content = ContentVersion(
      id: name.id, parent: nil, device: them, modified: name.modified, size: 1,
      manifest: SimulatedDevice.manifest(of: name.id))
    var items = device.gather()
    items[inner]?.removed = sent
    let plan = try Planner(device: me, view: device).plan(items)
    let record = try #require(plan.upserts.first { $0.id == inner })
    #expect(record.content == sent.content)
  }

  @Test("a file of a package that comes back has the content that replaced an announced one")
  func announcedAndReplaced() throws {
    let inner = ItemID(high: 1, low: 3)
    var file = try announced(by: them)
    file.id = inner
    file.links = [Link(parent: package, name: try ItemName("b"))]
    var device = try conflict(file)
    // Another device wrote the file again before its content was sent, then removed the package.
    var last = file
    last.content = version(4, time: 2000)
    last.modified = Timestamp(nanoseconds: 2000)
    last.conflicts = [version(5, time: 1500)]
    for id in [package, item, inner] { device.remote[id] = nil }
    var items = device.gather()
    items[inner]?.removed = last
    let plan = try Planner(device: me, view: device).plan(items)
    let record = try #require(plan.upserts.first { $0.id == inner })
    #expect(record.content == last.content)
    #expect(record.conflicts == last.conflicts)
    #expect(record.modified == last.modified)
    #expect(plan.replaced.contains(inner))
  }

  @Test("a file that comes back for a hard link has the content that replaced an announced one")
  func announcedAndLinked() throws {
    let base = try announced(by: them)
    var here = base
    here.links.append(Link(parent: .documents, name: try ItemName("b")))
    var last = base
    last.content = version(4, time: 2000)
    for removed in [last, nil] {
      let trees = ItemTrees(
        local: LocalSide(record: here, size: 1, stamp: 1), base: base, remote: nil, stamp: 1,
        removed: removed)
      let plan = try Planner(device: me, view: SimulatedDevice(device: me)).plan([item: trees])
      #expect(plan.upserts.map(\.content) == [removed?.content ?? base.content])
      #expect(plan.upserts.map(\.links) == [[here.links[1]]])
      #expect(plan.replaced == (removed == nil ? [] : [item]))
    }
    // The content was replaced here, and another device was first with its segment.
    var shown = here
    shown.content = last.content
    let trees = ItemTrees(
      local: LocalSide(record: shown, size: 1, stamp: 1), base: base, remote: nil, stamp: 1,
      removed: last)
    let plan = try Planner(device: me, view: SimulatedDevice(device: me)).plan([item: trees])
    #expect(plan.upserts.map(\.content) == [last.content])
    #expect(plan.upserts.map(\.conflicts) == [[]])
  }

  @Test("a file of a package that loses stays for a conflict version that only this device keeps")
  func keptConflictsOutliveTheirPackage() throws {
    let inner = ItemID(high: 1, low: 3)
    let kept = version(4, time: 500)
    var file = try announced(by: them)
    file.id = inner
    file.links = [Link(parent: package, name: try ItemName("b"))]
    file.content = version(3, time: 1000)
    for hasKept in [true, false] {
      var device = try conflict(file)
      // The other device edited the package last, and a third one removed the file.
      device.remote[item]?.content = version(2, time: 20_000)
      device.remote[item]?.modified = Timestamp(nanoseconds: 20_000)
      device.remote[inner] = nil
      device.base[inner] = nil
      device.touch(inner)
      var items = device.gather()
      if hasKept { items[inner]?.keptConflicts = [kept] }
      // First the log gets the version of this device.
      let first = try Planner(device: me, view: device).plan(items)
      let archive = try #require(first.archives[package])
      device.remote[package]?.conflicts = [
        ContentVersion(
          id: archive.id, parent: nil, device: me, modified: archive.modified, size: 1,
          manifest: SimulatedDevice.manifest(of: archive.id))
      ]
      items = device.gather()
      if hasKept { items[inner]?.keptConflicts = [kept] }
      let second = try Planner(device: me, view: device).plan(items)
      let stays = second.upserts.filter { $0.id == inner }
      #expect(stays.map(\.conflicts) == (hasKept ? [[kept]] : []))
      #expect(stays.map(\.content) == (hasKept ? [file.content] : []))
    }
  }

  /// Of a package that loses is kept what somebody has: a file that is announced and not sent is
  /// not in it, so what was given to it elsewhere is given to the one that wins.
  @Test func attributesOfWhatIsNotSentYetAreNotLostWithTheirPackage() throws {
    let other = ItemID(high: 1, low: 3)
    var unsent = try announced(by: me)
    unsent.id = other
    unsent.links = [Link(parent: package, name: try ItemName("b"))]
    var device = try conflict(unsent)
    let mine = VersionID(high: 8, low: 2)
    device.local[other]?.edited = EditedContent(
      version: mine, manifest: SimulatedDevice.manifest(of: mine))
    device.touch(other)
    device.remote[other]?.attributes = ["user.theirs": [1]]
    let plan = try Planner(device: me, view: device).plan(device.gather())
    #expect(plan.archives[package] != nil)
    let record = try #require(plan.upserts.first { $0.id == other })
    #expect(record.attributes == ["user.theirs": [1]])
  }
}
