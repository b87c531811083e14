import Catalog
import Model
import SystemPackage
import Testing

@Suite struct SyncTests {
  let fixture: Fixture
  var catalog: ContainerCatalog { fixture.catalog }

  init() throws { fixture = try Fixture() }

  /// Items that are in the log and here, placeholders where they are files.
  private func have(_ records: [ItemRecord]) throws {
    try fixture.folded(records)
    try fixture.apply(records.map { .upsert($0, content: .placeholder, stamp: nil) })
    #expect(try catalog.differing().isEmpty)
  }

  private func moved(_ record: ItemRecord, _ name: ItemName, in parent: ItemID = .documents)
    -> ItemRecord
  {
    var result = record
    result.links = [Link(parent: parent, name: name)]
    return result
  }

  @Test func foldingKeepsTheRemoteTreeApartFromTheLocalOne() throws {
    let folder = record(.random(), .directory, "folder")
    let file = record(.random(), .file, "file", in: folder.id)
    try fixture.folded([folder, file])
    #expect(try catalog.differing() == [folder.id, file.id].sorted())
    #expect(try catalog.remote(file.id) == file && catalog.base(file.id) == nil)
    #expect(try catalog.remoteChild(folder.id, "file") == file.id)
    #expect(try catalog.remoteChildren(of: folder.id) == [file.id])
    #expect(try fixture.names(fixture.documents).isEmpty)
    #expect(try catalog.position().sequence == 2)
    // A removal of what was never here leaves nothing.
    try fixture.folded([], removals: [file.id, folder.id])
    #expect(try catalog.differing().isEmpty)
    #expect(try catalog.remote(file.id) == nil)
    #expect(try fixture.isSound())
  }

  @Test func whatIsRememberedOfDeletionsOutlivesTheCatalog() throws {
    #expect(try catalog.deletionRecord() == DeletionRecord())
    var written = DeletionRecord()
    written.window = DeletionRecord.Window(
      began: Timestamp(nanoseconds: 1_700_000_000_123_456_789), items: 5, removed: 3)
    written.isHeld = true
    written.confirmed = 3 << 32 | 1
    written.confirmedUntil = Timestamp(nanoseconds: -1)
    written.restoring = .max
    try catalog.setDeletionRecord(written)
    #expect(try catalog.deletionRecord() == written)
    try fixture.reopen()
    #expect(try catalog.deletionRecord() == written)
    // A directory counts as long as it is empty.
    let folder = record(.random(), .directory, "folder")
    try fixture.folded([folder, record(.random(), .file, "other")])
    let items = try catalog.loggedLeafCount()
    let all = try catalog.loggedItemCount()
    try fixture.folded([record(.random(), .file, "in it", in: folder.id)])
    #expect(try catalog.loggedLeafCount() == items)
    #expect(try catalog.loggedItemCount() == all + 1)
    try fixture.folded([record(.random(), .file, "file")])
    #expect(try catalog.loggedLeafCount() == items + 1)
  }

  @Test func aSegmentThatMakesNoTreeIsRefusedWhole() throws {
    let folder = record(.random(), .directory, "folder")
    let inner = record(.random(), .directory, "inner", in: folder.id)
    try fixture.folded([folder, inner])
    let position = try catalog.position()
    let bad: [LogChanges] = [
      LogChanges(upserts: [record(.random(), .file, "x", in: .random())]),
      LogChanges(upserts: [record(.random(), .file, "folder")]),
      LogChanges(upserts: [moved(folder, "below", in: inner.id)]),
      LogChanges(removals: [folder.id]),
      LogChanges(removals: [.root]),
      LogChanges(upserts: [folder], removals: [folder.id]),
      LogChanges(upserts: [record(folder.id, .file, "folder")]),
      LogChanges(upserts: [record(.random(), .file, "y"), record(.random(), .file, "y")]),
    ]
    func next(_ more: UInt64) -> LogPosition {
      LogPosition(sequence: position.sequence + more, hash: position.hash)
    }
    for changes in bad {
      #expect(throws: Errno.badMessage) { try catalog.fold(changes, to: next(1)) }
    }
    #expect(throws: Errno.invalidArgument) { try catalog.fold(LogChanges(), to: next(2)) }
    #expect(throws: Errno.invalidArgument) { try catalog.fold(LogChanges(), to: position) }
    #expect(try catalog.position() == position)
    #expect(try catalog.remote(folder.id) == folder)
    #expect(try fixture.isSound())
  }

  /// A capability or a label is this machine's: no record holds it, and no record takes it away.
  @Test func attributesOfThisMachineStayHere() throws {
    var file = record(.random(), .file, "file")
    try have([file])
    let number = try #require(try catalog.inodeNumber(of: file.id))
    for name in ["trusted.a", "security.capability", "user.a"] {
      try catalog.setAttribute(name, of: number, to: [1], mode: .createOrReplace)
    }
    #expect(try catalog.local(file.id)?.record.attributes == ["user.a": [1]])
    try fixture.commitAll()
    file = try #require(try catalog.remote(file.id))
    file.attributes = ["user.b": [2]]
    try fixture.folded([file])
    try fixture.apply([.upsert(file, content: .keep, stamp: nil)])
    #expect(
      try catalog.attributeNames(of: number) == ["security.capability", "trusted.a", "user.b"])
    #expect(try fixture.isSound())
  }

  @Test func anArrivingFileIsAPlaceholder() throws {
    let arriving = record(.random(), .file, "file", size: 10)
    try have([arriving])
    let inode = try catalog.inode(try fixture.number(arriving.id))
    #expect(inode.content == .remote && inode.size == 10)
    #expect(inode.version == arriving.content?.id)
    #expect(inode.owner == 1000 && inode.group == 100 && inode.linkCount == 1)
    #expect(inode.modified == arriving.modified && inode.created == arriving.created)
    #expect(inode.changed > inode.modified)
    let local = try #require(try catalog.local(arriving.id))
    #expect(local.record == arriving && !local.isEdited && local.stamp == nil)
    #expect(try catalog.markContentLocal(inode.number, generation: inode.generation))
    #expect(try !catalog.markContentLocal(inode.number, generation: inode.generation + 1))
    #expect(throws: Errno.resourceBusy) { try catalog.evict(inode.number, isOpen: { _ in true }) }
    #expect(try catalog.evict(inode.number, isOpen: { _ in false }) == inode.contentKey)
    let evicted = try catalog.inode(inode.number)
    #expect(evicted.content == .remote && evicted.generation != inode.generation)
    #expect(try fixture.isSound())
  }

  /// Items that a plan brought here while it kept their base, for the conflict of a package.
  private func bring(_ records: [ItemRecord]) throws {
    let operations: [LocalOperation] = records.map {
      .upsert($0, content: .placeholder, stamp: nil)
    }
    _ = try catalog.apply(
      operations, keepingBaseOf: Set(records.map(\.id)), isOpen: { _ in false },
      isOpenForWriting: { _ in false })
  }

  @Test("what the log takes back before its base is settled differs", arguments: [false, true])
  func takenBack(bySnapshot: Bool) throws {
    let folder = record(.random(), .directory, "folder")
    let old = record(.random(), .directory, "old")
    try have([old])
    let new = moved(old, "new")
    try fixture.folded([folder, new])
    try bring([folder, new])
    #expect(try catalog.base(folder.id) == nil && catalog.base(old.id) == old)
    if bySnapshot {
      var part = SnapshotPart()
      part.items = try [ItemID.root, .documents].compactMap { try catalog.remote($0) } + [old]
      try catalog.beginSnapshot()
      try catalog.stage(part)
      try catalog.installSnapshot(
        SnapshotMark(sequence: 100, bytes: 1), hash: [UInt8](repeating: 1, count: 32),
        from: DeviceID(high: 3, low: 0))
    } else {
      try fixture.folded([old], removals: [folder.id])
    }
    #expect(try catalog.differing() == [folder.id, old.id].sorted())
    #expect(try catalog.base(folder.id) == folder && catalog.base(old.id) == new)
    #expect(try catalog.remote(folder.id) == nil && catalog.remote(old.id) == old)
  }

  @Test func twoNamesAreSwappedInOneBatch() throws {
    let first = record(.random(), .file, "a")
    let second = record(.random(), .file, "b")
    try have([first, second])
    let changed = [moved(first, "b"), moved(second, "a")]
    try fixture.folded(changed)
    let result = try fixture.apply(changed.map { .upsert($0, content: .keep, stamp: nil) })
    #expect(try catalog.localChild(.documents, "a") == second.id)
    #expect(try catalog.localChild(.documents, "b") == first.id)
    #expect(result.invalidations.contains(.entry(parent: fixture.documents, name: "a")))
    #expect(result.invalidations.contains(.entry(parent: fixture.documents, name: "b")))
    #expect(result.obsolete.isEmpty)
    #expect(try catalog.differing().isEmpty)
    #expect(try fixture.isSound())
  }

  @Test func aChainOfRenamesIsOneBatch() throws {
    let records = try (0..<5).map { record(.random(), .file, try ItemName("n\($0)")) }
    try have(records)
    let changed = try records.enumerated().map { moved($1, try ItemName("n\($0 + 1)")) }
    try fixture.folded(changed)
    try fixture.apply(changed.map { .upsert($0, content: .keep, stamp: nil) })
    #expect(try fixture.names(fixture.documents) == ["n1", "n2", "n3", "n4", "n5"])
    for record in changed {
      #expect(try catalog.localChild(.documents, record.links[0].name) == record.id)
    }
    #expect(try fixture.isSound())
  }

  @Test func directoriesSwapPlacesInTheTree() throws {
    let outer = record(.random(), .directory, "x")
    let inner = record(.random(), .directory, "y", in: outer.id)
    try have([outer, inner])
    let changed = [moved(inner, "x"), moved(outer, "y", in: inner.id)]
    try fixture.folded(changed)
    try fixture.apply(changed.map { .upsert($0, content: .keep, stamp: nil) })
    #expect(try catalog.localChild(.documents, "x") == inner.id)
    #expect(try catalog.localChild(inner.id, "y") == outer.id)
    #expect(try fixture.isSound())
    // One that would be below itself is refused whole.
    #expect(throws: ApplyFailure.system(.tooManySymbolicLinkLevels)) {
      try fixture.apply([
        .upsert(moved(inner, "z", in: outer.id), content: .keep, stamp: nil)
      ])
    }
    #expect(try catalog.localChild(.documents, "x") == inner.id)
    #expect(try fixture.isSound())
  }

  @Test func aFileIsReplacedByADirectoryWithContents() throws {
    let file = record(.random(), .file, "name")
    try have([file])
    let folder = record(.random(), .directory, "name")
    let inside = record(.random(), .file, "inside", in: folder.id)
    try fixture.folded([folder, inside], removals: [file.id])
    let key = try catalog.inode(try fixture.number(file.id)).contentKey
    let result = try fixture.apply([
      .upsert(inside, content: .placeholder, stamp: nil),
      .upsert(folder, content: .keep, stamp: nil), .remove(file.id, stamp: nil),
    ])
    #expect(result.obsolete == [key])
    #expect(try catalog.localChild(.documents, "name") == folder.id)
    #expect(try catalog.localChildren(of: folder.id) == [inside.id])
    #expect(try catalog.inodeNumber(of: file.id) == nil)
    #expect(try catalog.differing().isEmpty)
    #expect(try fixture.isSound())
  }

  @Test func whatIsOpenOutlivesItsRemoval() throws {
    let file = record(.random(), .file, "file")
    try have([file])
    let number = try fixture.number(file.id)
    fixture.openInodes = [number]
    try fixture.folded([], removals: [file.id])
    let result = try fixture.apply([.remove(file.id, stamp: nil)])
    #expect(result.obsolete.isEmpty)
    let orphan = try catalog.inode(number)
    #expect(orphan.isOrphan && orphan.size == 10)
    // Its content can still be found and downloaded.
    #expect(try catalog.shownContent(of: number) == file.content)
    #expect(try catalog.orphans().map(\.number) == [number])
    #expect(try catalog.differing().isEmpty)
    #expect(try catalog.reclaim(number) == orphan.contentKey)
    #expect(try fixture.isSound())
  }

  @Test func anOpenFileKeepsWhatItShowsWhenItIsReplaced() throws {
    var file = record(.random(), .file, "file", size: 10)
    try have([file])
    let old = try catalog.inode(try fixture.number(file.id))
    try catalog.setPinned(old.number, true)
    fixture.openInodes = [old.number]
    let before = file.content
    file.content = contentVersion(20, 2)
    file.attributes = ["user.a": [1]]
    try fixture.folded([file])
    let result = try fixture.apply([.upsert(file, content: .placeholder, stamp: nil)])
    let number = try fixture.number(file.id)
    #expect(number != old.number)
    let new = try catalog.inode(number)
    #expect(new.size == 20 && new.content == .remote && new.isPinned && new.linkCount == 1)
    let kept = try catalog.inode(old.number)
    #expect(kept.isOrphan && kept.size == 10 && kept.contentKey == old.contentKey)
    #expect(try catalog.shownContent(of: old.number) == before)
    #expect(try catalog.shownContent(of: number) == file.content)
    #expect(try catalog.lookup("file", in: fixture.documents)?.number == number)
    #expect(result.obsolete.isEmpty)
    #expect(result.invalidations.contains(.entry(parent: fixture.documents, name: "file")))
    #expect(try catalog.local(file.id)?.record == file)
    #expect(try fixture.isSound())
    // The two rows of one item are told apart after the next start too.
    try fixture.reopen()
    #expect(catalogObsolete == [old.contentKey])
    #expect(try fixture.number(file.id) == number)
    #expect(try fixture.isSound())
  }

  private var catalogObsolete: [ContentKey?] { fixture.catalog.startupObsolete }

  @Test func aStagedContentIsSwitchedTo() throws {
    var file = record(.random(), .file, "file", size: 10)
    try have([file])
    let old = try catalog.inode(try fixture.number(file.id))
    file.content = contentVersion(20, 2)
    try fixture.folded([file])
    let generation = catalog.nextGeneration()
    let result = try fixture.apply([
      .upsert(file, content: .staged(generation: generation), stamp: nil)
    ])
    let new = try catalog.inode(old.number)
    #expect(new.content == .local && new.generation == generation && new.size == 20)
    #expect(result.obsolete == [old.contentKey])
    #expect(result.invalidations.contains(.content(old.number)))
  }

  @Test func aPlanThatIsOutOfDateIsNotApplied() throws {
    let file = record(.random(), .file, "file")
    let other = record(.random(), .file, "other")
    try have([file, other])
    _ = try catalog.setAttributes(
      try fixture.number(file.id), AttributeChanges(mode: 0o600))
    #expect(throws: ApplyFailure.changed(file.id)) {
      try fixture.apply([
        .upsert(moved(other, "elsewhere"), content: .keep, stamp: nil),
        .remove(file.id, stamp: nil),
      ])
    }
    #expect(try fixture.names(fixture.documents) == ["file", "other"])
    let stamp = try catalog.dirtyStamp(file.id)
    #expect(stamp != nil)
    try fixture.folded([], removals: [file.id])
    try fixture.apply([.remove(file.id, stamp: stamp)])
    #expect(try catalog.differing().isEmpty)
  }

  /// An announced file of a package that lost a conflict goes here first, and then from the log.
  @Test(arguments: [false, true])
  func whatTheLogStillHasStaysMarkedWhenItGoesHere(isMarked: Bool) throws {
    let file = record(.random(), .file, "file")
    try have([file])
    if isMarked {
      _ = try catalog.setAttributes(try fixture.number(file.id), AttributeChanges(mode: 0o600))
    }
    try fixture.apply([.remove(file.id, stamp: try catalog.dirtyStamp(file.id))])
    #expect(try catalog.inodeNumber(of: file.id) == nil)
    // The segment was not first. The next plan has to see the item again.
    #expect(try catalog.dirtyStamp(file.id) != nil)
    #expect(try catalog.differing() == [file.id])
    try fixture.folded([], removals: [file.id])
    try fixture.apply([.agree(file.id, stamp: try catalog.dirtyStamp(file.id))])
    #expect(try catalog.differing().isEmpty)
    #expect(try catalog.dirtyStamp(file.id) == nil)
  }

  @Test func aFileThatIsBeingWrittenIsBusy() throws {
    var file = record(.random(), .file, "file")
    try have([file])
    fixture.writers = [try fixture.number(file.id)]
    fixture.openInodes = fixture.writers
    file.content = contentVersion(30)
    try fixture.folded([file])
    #expect(throws: ApplyFailure.busy(file.id)) {
      try fixture.apply([.upsert(file, content: .placeholder, stamp: nil)])
    }
    #expect(throws: ApplyFailure.busy(file.id)) {
      try fixture.apply([.remove(file.id, stamp: nil)])
    }
    // What does not touch the content may go on.
    try fixture.apply([.upsert(moved(file, "renamed"), content: .keep, stamp: nil)])
    #expect(try fixture.names(fixture.documents) == ["renamed"])
  }

  @Test func aTakenNameStopsTheBatch() throws {
    let file = try fixture.file("name")
    let arriving = record(.random(), .file, "name")
    try fixture.folded([arriving])
    #expect(throws: ApplyFailure.occupied(arriving.links[0])) {
      try fixture.apply([.upsert(arriving, content: .placeholder, stamp: nil)])
    }
    #expect(try catalog.lookup("name", in: fixture.documents)?.number == file.number)
    #expect(try catalog.inodeNumber(of: arriving.id) == nil)
  }

  @Test func anItemThatArrivesUnderAnotherNameStaysDirty() throws {
    let arriving = record(.random(), .file, "name")
    try fixture.folded([arriving])
    try fixture.apply([.upsert(moved(arriving, "name 2"), content: .placeholder, stamp: nil)])
    #expect(try catalog.dirtyStamp(arriving.id) != nil)
    #expect(try catalog.base(arriving.id) == arriving)
  }

  @Test func aDirectoryTakesTheRemoteIdentity() throws {
    let folder = try fixture.folder("folder")
    let file = try fixture.file("file", in: folder.number)
    let remote = record(.random(), .directory, "folder")
    try fixture.folded([remote])
    let stamp = try catalog.dirtyStamp(folder.item)
    try fixture.apply([
      .adopt(local: folder.item, as: remote.id), .upsert(remote, content: .keep, stamp: stamp),
    ])
    #expect(try fixture.number(remote.id) == folder.number)
    #expect(try catalog.inodeNumber(of: folder.item) == nil)
    #expect(try catalog.local(file.item)?.record.links == [Link(parent: remote.id, name: "file")])
    #expect(try catalog.dirtyStamp(folder.item) == nil && catalog.dirtyStamp(remote.id) == nil)
    #expect(try catalog.differing().filter { $0 != .documents } == [file.item])
    #expect(try fixture.isSound())
  }

  @Test func ourOwnSegmentSettlesWhatDidNotChangeMeanwhile() throws {
    let file = try fixture.file("file")
    try fixture.write(file.number, 10)
    let local = try #require(try catalog.local(file.item))
    #expect(local.isEdited && local.record.content == nil)
    let version = contentVersion(10)
    var sent = local.record
    sent.content = version
    let seen = UploadedContent(
      version: version.id, generation: local.inode.generation, size: 10,
      modified: local.inode.modified, changed: local.inode.changed)
    let stamps = [file.item: try #require(local.stamp)]
    // A chmod comes between reading and committing. It moves the change time, which alone tells an
    // edit that sets its times back, so the content counts as edited until it is looked at again.
    _ = try catalog.setAttributes(file.number, AttributeChanges(mode: 0o600))
    try catalog.committed(
      LogChanges(upserts: [sent]), to: fixture.position(), stamps: stamps,
      versions: [file.item: seen])
    #expect(try catalog.inode(file.number).version == nil)
    #expect(try catalog.dirtyStamp(file.item) != nil)
    #expect(try catalog.base(file.item) == sent && catalog.remote(file.item) == sent)
    #expect(try catalog.local(file.item)?.isEdited == true)
    // And when nothing comes between, nothing is left.
    try fixture.commitAll()
    #expect(try catalog.differing().isEmpty)
    // A write makes it edited again.
    try fixture.write(file.number, 11)
    #expect(try catalog.local(file.item)?.isEdited == true)
    #expect(throws: Errno.resourceBusy) { try catalog.evict(file.number, isOpen: { _ in false }) }
  }

  /// Also of a file that was only announced: it is not settled by the record that says so.
  @Test(arguments: [true, false])
  func whatWasRemovedWhileItsFirstRecordWasOnTheWayIsStillRemovedElsewhere(isSettled: Bool) throws {
    let file = try fixture.file("file")
    let local = try #require(try catalog.local(file.item))
    var sent = local.record
    sent.content = contentVersion(0)
    _ = try catalog.remove("file", in: fixture.documents, directory: false)
    #expect(try catalog.dirtyStamp(file.item) == nil)
    try catalog.committed(
      LogChanges(upserts: [sent]), to: fixture.position(),
      stamps: isSettled ? [file.item: try #require(local.stamp)] : [:], versions: [:])
    #expect(try catalog.differing().contains(file.item))
    try fixture.commitAll()
    #expect(try catalog.differing().isEmpty && catalog.remote(file.item) == nil)
  }

  /// The device is stopped, or the answer is lost, between the put and the fold.
  @Test(arguments: [true, false])
  func whatGoesWhileNobodyKnowsWhetherTheLogHasItStaysMarkedUntilThatIsKnown(isBefore: Bool) throws
  {
    let file = try fixture.file("file")
    let other = try fixture.file("other")
    var sent = try #require(try catalog.local(file.item)).record
    sent.content = contentVersion(0)
    func remove() throws { _ = try catalog.remove("file", in: fixture.documents, directory: false) }
    if isBefore { try remove() }
    try catalog.noteSending([sent])
    if !isBefore { try remove() }
    #expect(try catalog.dirtyStamp(file.item) != nil)
    // What was not on the way is forgotten as ever.
    _ = try catalog.remove("other", in: fixture.documents, directory: false)
    #expect(try catalog.dirtyStamp(other.item) == nil)
    try fixture.folded([sent])
    #expect(try catalog.dirtyStamp(file.item) != nil && catalog.base(file.item) == sent)
    // From now on it is known what the log has.
    let late = try fixture.file("late")
    _ = try catalog.remove("late", in: fixture.documents, directory: false)
    #expect(try catalog.dirtyStamp(late.item) == nil)
    try fixture.commitAll()
    #expect(try catalog.differing().isEmpty && catalog.remote(file.item) == nil)
  }

  @Test("the base of an edited file can be read though the log has its content as a version")
  func baseThatLostAConflict() throws {
    var file = record(.random(), .file, "file")
    try have([file])
    let edited = try #require(file.content)
    // Another device's content has won, and this device's edit was made of the one that lost.
    file.content = contentVersion(50, 5)
    file.conflicts = [edited]
    try fixture.folded([file])
    _ = try catalog.apply(
      [.upsert(file, content: .keep, stamp: nil)], keepingParentOf: [file.id],
      isOpen: { _ in false }, isOpenForWriting: { _ in false })
    let base = try #require(try catalog.base(file.id))
    #expect(base.content == edited && base.conflicts.isEmpty)
    #expect(try catalog.remote(file.id) == file)
  }

  @Test("the base of a file whose content won can be read though that had lost before")
  func baseOfAContentThatLostBefore() throws {
    var file = record(.random(), .file, "file")
    let winner = contentVersion(50, 5)
    file.conflicts = [winner]
    try have([file])
    let loser = try #require(file.content)
    file.content = winner
    file.conflicts = []
    try catalog.noteSending([file])
    file.conflicts = [loser]
    try fixture.folded([file])
    let base = try #require(try catalog.base(file.id))
    #expect(base.content == winner)
    #expect(base.contents.filter { $0.id == winner.id }.count == 1)
  }

  @Test func removingWhatTheLogHasStaysDirtyAndWhatItHasNotIsForgotten() throws {
    let known = try fixture.file("known")
    try fixture.commitAll()
    let unknown = try fixture.file("unknown")
    _ = try catalog.remove("known", in: fixture.documents, directory: false)
    _ = try catalog.remove("unknown", in: fixture.documents, directory: false)
    #expect(try catalog.dirtyStamp(known.item) != nil)
    #expect(try catalog.dirtyStamp(unknown.item) == nil)
    #expect(try catalog.local(known.item) == nil)
  }

  @Test func aStaleVersionCanStillBeFound() throws {
    var file = record(.random(), .file, "file")
    try have([file])
    let shown = file.content
    file.content = contentVersion(50, 5)
    try fixture.folded([file])
    #expect(try catalog.local(file.id)?.record.content == shown)
    // Base moves on, the content does not.
    try fixture.apply([.upsert(file, content: .keep, stamp: nil)])
    #expect(try catalog.base(file.id) == file)
    let local = try #require(try catalog.local(file.id))
    #expect(local.record.content == shown && !local.isEdited)
  }

  @Test func agreeAndForgetBase() throws {
    let folder = try fixture.folder("folder")
    let sent = try #require(try catalog.local(folder.item)).record
    try fixture.folded([sent])
    try fixture.apply([.agree(folder.item, stamp: 12345)])
    #expect(try catalog.base(folder.item) == sent)
    #expect(try catalog.dirtyStamp(folder.item) != nil)
    try fixture.apply([.agree(folder.item, stamp: try catalog.dirtyStamp(folder.item))])
    #expect(try !catalog.differing().contains(folder.item))
    try fixture.folder("kept.nosync", in: folder.number)
    #expect(try catalog.hasExcludedChildren(of: folder.item))
    #expect(try catalog.localChildren(of: folder.item).isEmpty)
    try fixture.folded([], removals: [folder.item])
    let stamp = try catalog.dirtyStamp(folder.item)
    #expect(throws: ApplyFailure.notEmpty(folder.item)) {
      try fixture.apply([.remove(folder.item, stamp: stamp)])
    }
    try fixture.apply([.forgetBase(folder.item)])
    #expect(try !catalog.differing().contains(folder.item))
    #expect(try fixture.names(folder.number) == ["kept.nosync"])
    #expect(try catalog.local(folder.item) != nil)
  }

  @Test func movingIntoAndOutOfWhatDoesNotSync() throws {
    let folder = try fixture.folder("folder")
    let file = try fixture.file("file", in: folder.number)
    let fresh = try fixture.file("fresh", in: folder.number)
    _ = try catalog.remove("fresh", in: folder.number, directory: false)
    try fixture.commitAll()
    let local = try fixture.folder("x.nosync")
    #expect(local.isExcluded)
    _ = try catalog.rename(
      "folder", in: fixture.documents, to: "folder", in: local.number, mode: .replace)
    #expect(try catalog.inode(file.number).isExcluded)
    #expect(try catalog.local(file.item) == nil && catalog.local(folder.item) == nil)
    let differing = try catalog.differing()
    #expect(differing.contains(file.item) && differing.contains(folder.item))
    #expect(!differing.contains(local.item) && !differing.contains(fresh.item))
    #expect(throws: Errno.notPermitted) { try catalog.evict(file.number, isOpen: { _ in false }) }
    try fixture.commitAll()
    #expect(try catalog.remote(file.item) == nil && catalog.differing().isEmpty)
    _ = try catalog.rename(
      "folder", in: local.number, to: "back", in: fixture.documents, mode: .replace)
    #expect(try catalog.local(file.item)?.isEdited == true)
    #expect(try catalog.local(folder.item)?.record.links.first?.name == "back")
    #expect(try catalog.differing().contains(file.item))
    #expect(try fixture.isSound())
  }

  @Test func evictedContentDoesNotGoWhereItWouldBeLost() throws {
    let arriving = record(.random(), .file, "file")
    try have([arriving])
    let local = try fixture.folder("x.nosync")
    #expect(throws: Errno.improperLink) {
      try catalog.rename(
        "file", in: fixture.documents, to: "file", in: local.number, mode: .replace)
    }
    #expect(throws: Errno.improperLink) {
      try catalog.rename(
        "file", in: fixture.documents, to: "file.nosync", in: fixture.documents, mode: .noReplace)
    }
    #expect(try catalog.local(arriving.id) != nil)
  }

  @Test func anItemThatComesBackLeavesTheExcludedCopyAlone() throws {
    let file = try fixture.file("file")
    try fixture.write(file.number, 10)
    try fixture.commitAll()
    let record = try #require(try catalog.remote(file.item))
    _ = try catalog.rename(
      "file", in: fixture.documents, to: "file.nosync", in: fixture.documents, mode: .replace)
    let stamp = try catalog.dirtyStamp(file.item)
    try fixture.apply([.upsert(record, content: .placeholder, stamp: stamp)])
    #expect(try fixture.names(fixture.documents) == ["file", "file.nosync"])
    #expect(try fixture.number(file.item) != file.number)
    #expect(try catalog.inode(file.number).contentKey == file.contentKey)
    #expect(try catalog.dirtyStamp(file.item) == nil)
    #expect(throws: Errno.improperLink) {
      try catalog.rename(
        "file.nosync", in: fixture.documents, to: "other", in: fixture.documents, mode: .replace)
    }
    #expect(try fixture.isSound())
  }

  @Test func hardLinksSyncByTheNamesThatDo() throws {
    let file = try fixture.file("file")
    _ = try catalog.link(file.number, as: "file.nosync", in: fixture.documents)
    #expect(try catalog.local(file.item)?.record.links.map { $0.name } == ["file"])
    try fixture.commitAll()
    // Removed elsewhere, the name that stays here stays.
    try fixture.folded([], removals: [file.item])
    try fixture.apply([.remove(file.item, stamp: nil)])
    #expect(try fixture.names(fixture.documents) == ["file.nosync"])
    #expect(try catalog.inode(file.number).isExcluded)
    #expect(try catalog.inode(file.number).linkCount == 1)
    #expect(try fixture.isSound())
  }

  @Test("a hard link that does not sync keeps the content here")
  func contentOfALinkThatDoesNotSync() throws {
    var other = record(.random(), .file, "other")
    other.content = contentVersion(3)
    try have([other])
    let file = try fixture.file("file")
    _ = try catalog.link(file.number, as: "file.nosync", in: fixture.documents)
    try fixture.commitAll()
    #expect(throws: Errno.notPermitted) { try catalog.evict(file.number) { _ in false } }
    #expect(try catalog.inode(file.number).content == .local)
    // A placeholder would be one for ever when the log forgets the file.
    let placeholder = try #require(try catalog.inodeNumber(of: other.id))
    #expect(throws: Errno.improperLink) {
      try catalog.link(placeholder, as: "other.nosync", in: fixture.documents)
    }
    #expect(try fixture.names(fixture.documents) == ["file", "file.nosync", "other"])
    // The other name of a file can be given it by a rename too.
    let renamed = try fixture.file("renamed")
    _ = try catalog.link(renamed.number, as: "second", in: fixture.documents)
    _ = try catalog.rename(
      "second", in: fixture.documents, to: "second.nosync", in: fixture.documents, mode: .replace)
    for (name, number) in [("file", file.number), ("renamed", renamed.number)] {
      _ = try catalog.remove(ItemName(name), in: fixture.documents, directory: false)
      #expect(try catalog.inode(number).isExcluded)
    }
    #expect(try catalog.local(file.item) == nil)
    #expect(try fixture.isSound())
  }

  @Test func whatIsOfNoSyncedKindStays() throws {
    let folder = try fixture.folder("folder")
    let fifo = try catalog.create(
      "fifo", in: folder.number, NewItem(kind: .fifo, mode: 0o600, owner: 1, group: 1))
    #expect(try catalog.local(fifo.item) == nil && catalog.dirtyStamp(fifo.item) == nil)
    #expect(try catalog.hasExcludedChildren(of: folder.item))
  }

  @Test func chunksHavePlaces() throws {
    let location = ChunkLocation(
      chunk: chunk(9, 7), pack: .random(), offset: 1 << 40, storedLength: 99)
    try catalog.fold(LogChanges(chunks: [location]), to: fixture.position())
    let other = chunk(8, 1).id
    #expect(
      try catalog.chunkLocations([location.chunk.id, other]) == [location.chunk.id: location])
  }

  @Test func conflictsAreCounted() throws {
    var file = record(.random(), .file, "file")
    file.conflicts = [contentVersion(3)]
    try have([file])
    #expect(try catalog.conflictCount() == 1)
    #expect(try catalog.local(file.id)?.record == file)
    var kept = record(.random(), .file, "kept")
    kept.conflicts = file.conflicts + [contentVersion(4)]
    try fixture.folded([kept])
    let expected = file.conflicts[0].size + kept.conflicts[1].size
    #expect(try catalog.conflictBytes() == expected)
    #expect(try catalog.conflictedItems() == [file.id, kept.id].sorted())
    try fixture.folded([], removals: [kept.id])
    file.conflicts = []
    try fixture.folded([file])
    #expect(try catalog.conflictCount() == 0)
  }
}
