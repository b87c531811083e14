import Catalog
import Glibc
import Model
import Platform
import SystemPackage
import Testing

@Suite struct CrashTests {
  let fixture: Fixture
  var catalog: ContainerCatalog { fixture.catalog }

  init() throws { fixture = try Fixture() }

  @Test(arguments: [false, true]) func whatIsCommittedSurvives(durable: Bool) throws {
    let file = try fixture.file("file")
    try fixture.write(file.number, 42)
    try catalog.commit(durable: durable)
    let generation = catalog.nextGeneration()
    let after = try fixture.crashed()
    #expect(after.endedUncleanly)
    #expect(try after.lookup("file", in: fixture.documents)?.size == 42)
    #expect(try after.dirtyStamp(file.item) != nil)
    #expect(after.nextGeneration() > generation)
    #expect(try fixture.isSound(after))
  }

  /// As where a container fails to open after its catalog did.
  @Test func aCatalogMayBeLetGoWithinATransaction() throws {
    let directory = try TemporaryDirectory()
    for _ in 0..<2 {
      let catalog = try ContainerCatalog(
        path: directory.path + "/catalog.sqlite", owner: 0, group: 0, clock: SystemClock())
      _ = try catalog.create(
        ItemName("f\(catalog.nextGeneration())"), in: .root,
        NewItem(kind: .file, mode: 0o644, owner: 0, group: 0))
    }
  }

  @Test func anOperationSurvivesWholeOrNotAtAll() throws {
    let first = try fixture.folder("first")
    try fixture.file("file", in: first.number)
    let second = try fixture.folder("second")
    try catalog.commit(durable: false)
    for index in 0..<50 {
      let (from, to) = index % 2 == 0 ? (first, second) : (second, first)
      _ = try catalog.rename("file", in: from.number, to: "file", in: to.number, mode: .noReplace)
      if index % 7 == 0 { try catalog.commit(durable: false) }
      let after = try fixture.crashed()
      let found = try [first, second].compactMap { try after.lookup("file", in: $0.number) }
      #expect(found.count == 1)
      #expect(try fixture.isSound(after))
    }
  }

  @Test func aCleanEndIsKnownAsOne() throws {
    try fixture.file("file")
    try fixture.reopen()
    #expect(!catalog.endedUncleanly)
    #expect(try fixture.names(fixture.documents) == ["file"])
  }

  @Test func orphansOfTheFormerProcessAreReclaimed() throws {
    let file = try fixture.file("file")
    let unnamed = try catalog.createUnnamed(
      in: fixture.documents, NewItem(kind: .file, mode: 0o600, owner: 1, group: 1))
    _ = try catalog.remove("file", in: fixture.documents, directory: false)
    try catalog.commit(durable: false)
    let after = try fixture.crashed()
    #expect(Set(after.startupObsolete) == [file.contentKey, unnamed.contentKey])
    #expect(throws: Errno.noSuchFileOrDirectory) { try after.inode(file.number) }
  }

  @Test func whatWasWrittenBeforeACrashIsReadBack() throws {
    let uploaded = try fixture.file("uploaded")
    let untouched = try fixture.file("untouched")
    let edited = try fixture.file("edited")
    for file in [uploaded, untouched, edited] { try fixture.write(file.number, 10) }
    try fixture.commitAll()
    try fixture.write(edited.number, 11)
    try catalog.commit(durable: false)
    // Nothing says that this is written but the mark, which is committed at once.
    try catalog.noteWriteBegan(uploaded.number)
    let began = Timestamp(nanoseconds: fixture.clock.nanoseconds())
    let after = try fixture.crashed()
    let corrected = try after.recover { key throws(Errno) in
      switch key {
      case uploaded.contentKey: FoundContent(size: 10, modified: began.advanced(by: 1), blocks: 8)
      case edited.contentKey: FoundContent(size: 99, modified: began.advanced(by: 1), blocks: 16)
      default: FoundContent(size: 10, modified: Timestamp(nanoseconds: 0))
      }
    }
    #expect(corrected == [uploaded.number, edited.number].sorted())
    #expect(try after.inode(uploaded.number).version == nil)
    #expect(try after.dirtyStamp(uploaded.item) != nil)
    #expect(try after.inode(edited.number).size == 99)
    #expect(try after.inode(edited.number).blocks == 16)
    #expect(try after.inode(uploaded.number).blocks == 8)
    #expect(try after.inode(untouched.number).version != nil)
    #expect(try after.dirtyStamp(untouched.item) == nil)
    // Closed in good order, there is nothing to read back.
    try catalog.noteWriteEnded(uploaded.number)
    try catalog.commit(durable: false)
    let closed = try fixture.crashed()
    let none = try closed.recover { key throws(Errno) in
      key == edited.contentKey
        ? FoundContent(size: 11, modified: Timestamp(nanoseconds: 0))
        : FoundContent(size: 10, modified: began.advanced(by: 1))
    }
    #expect(none.isEmpty)
  }

  @Test func anFsyncLeavesSizeAndTimeToTheContentFile() throws {
    let new = try fixture.file("new")
    let uploaded = try fixture.file("uploaded")
    try fixture.write(uploaded.number, 10)
    try fixture.commitAll()
    try catalog.noteWriteBegan(uploaded.number)
    try fixture.write(new.number, 1)
    try catalog.commit(durable: true)
    let before = try fixture.journal()
    for size in UInt64(1)...3000 {
      for file in [new, uploaded] {
        try fixture.write(file.number, size)
        try catalog.commit(synchronized: file.number)
      }
    }
    // What is written after some time comes there anyway: not thousands of records.
    let after = try fixture.journal()
    #expect(zip(before, after).filter { $0 != $1 }.count < 3000 * 40)
    let written = Timestamp(nanoseconds: fixture.clock.nanoseconds())
    let left = try fixture.crashed()
    let read = try left.recover { _ throws(Errno) in
      FoundContent(size: 3000, modified: written)
    }
    #expect(read == [new.number, uploaded.number].sorted())
    for file in [new, uploaded] {
      let inode = try left.inode(file.number)
      #expect(inode.size == 3000)
      #expect(inode.modified == written)
      #expect(inode.version == nil)
      #expect(try left.dirtyStamp(file.item) != nil)
    }
  }

  @Test func theFirstFsyncAfterAnUploadRecordsTheEdit() throws {
    let file = try fixture.file("file")
    try fixture.write(file.number, 10)
    try fixture.commitAll()
    try catalog.commit(durable: true)
    try fixture.write(file.number, 10)
    try catalog.commit(synchronized: file.number)
    let after = try fixture.crashed()
    #expect(try after.inode(file.number).version == nil)
    #expect(try after.dirtyStamp(file.item) != nil)
  }

  @Test func anFsyncMakesWhatElseWasDoneDurable() throws {
    let first = try fixture.file("first")
    try catalog.commit(durable: true)
    let done = Counter()
    try fixture.write(first.number, 10)
    try fixture.file("second")
    catalog.afterDurableCommit { done.increment() }
    try catalog.commit(synchronized: first.number)
    #expect(done.value == 1)
  }

  @Test func aTimeThatWasSetIsNotTakenFromTheContentFile() throws {
    let file = try fixture.file("file")
    try fixture.write(file.number, 10)
    let written = Timestamp(nanoseconds: fixture.clock.nanoseconds())
    let old = Timestamp(nanoseconds: 42)
    _ = try catalog.setAttributes(file.number, AttributeChanges(modified: old))
    try catalog.commit(durable: true)
    let after = try fixture.crashed()
    #expect(
      try after.recover { _ throws(Errno) in FoundContent(size: 10, modified: written) }.isEmpty)
    #expect(try after.inode(file.number).modified == old)
  }

  @Test func theEndOfWritingIsNotRecordedBeforeWhatWasWritten() throws {
    let file = try fixture.file("file")
    try fixture.write(file.number, 10)
    try fixture.commitAll()
    try catalog.noteWriteBegan(file.number)
    try fixture.write(file.number, 10)
    try catalog.noteWriteEnded(file.number)
    let after = try fixture.crashed()
    #expect(try after.inode(file.number).version == nil)
    #expect(try after.dirtyStamp(file.item) != nil)
  }

  /// More than a flush, and more than the journal's files have at first.
  @Test func veryManyChangesOutliveTheProcess() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/catalog.sqlite"
    let count = 16_000
    do {
      let catalog = try ContainerCatalog(path: path, owner: 0, group: 0, clock: SystemClock())
      for index in 0..<count {
        _ = try catalog.create(
          ItemName("a file with a long name, so that records are large \(index)"), in: .root,
          NewItem(kind: .file, mode: 0o644, owner: 0, group: 0))
      }
      // With thousands of names in memory alone.
      #expect(try catalog.readDirectory(.root, after: 0, limit: 2 * count).count == count + 1)
      for index in 0..<100 {
        let name = try ItemName("a file with a long name, so that records are large \(index)")
        _ = try catalog.remove(name, in: .root, directory: false)
      }
    }
    let sizes = try ["-redo-a", "-redo-b"].map { try Files.status(path + $0).st_size }
    #expect(sizes.allSatisfy { $0 <= 16 << 20 })
    #expect(sizes.contains { $0 > 4 << 20 })
    let catalog = try ContainerCatalog(path: path, owner: 0, group: 0, clock: SystemClock())
    #expect(catalog.endedUncleanly)
    #expect(try catalog.readDirectory(.root, after: 0, limit: 2 * count).count == count - 99)
    #expect(try fixture.isSound(catalog))
    try catalog.close()
  }

  @Test func aFileWhoseContentWasNeverOnTheDiskIsEmpty() throws {
    let file = try fixture.file("file")
    try fixture.write(file.number, 10)
    try catalog.commit(durable: true)
    let after = try fixture.crashed()
    #expect(try after.recover { _ throws(Errno) in nil } == [file.number])
    #expect(try after.inode(file.number).size == 0)
    #expect(try after.dirtyStamp(file.item) != nil)
  }

  @Test func leftoversAreTold() throws {
    let local = try fixture.file("local")
    let remote = record(.random(), .file, "remote")
    try fixture.folded([remote])
    try fixture.apply([.upsert(remote, content: .placeholder, stamp: nil)])
    let placeholder = try #require(try catalog.inode(try fixture.number(remote.id)).contentKey)
    let key = try #require(local.contentKey)
    let stray = ContentKey(item: .random(), generation: 1)
    let former = ContentKey(item: local.item, generation: 1)
    #expect(
      try catalog.unneededContent(among: [key, placeholder, stray, former])
        == [placeholder, stray, former])
  }

  @Test func actionsWaitForTheDurableCommit() throws {
    let done = Counter()
    try fixture.file("file")
    catalog.afterDurableCommit { done.increment() }
    #expect(done.value == 0)
    try catalog.commit(durable: true)
    #expect(done.value == 1)
    try catalog.commit(durable: true)
    #expect(done.value == 1)
  }

  @Test func whatIsNoCatalogIsNotOpened() throws {
    func error(_ bytes: [UInt8], _ name: String) throws -> CatalogError? {
      let path = fixture.directory.path + "/" + name
      try Files.replace(path, with: bytes)
      do {
        _ = try ContainerCatalog(path: path, owner: 1, group: 1, clock: fixture.clock)
        return nil
      } catch {
        #expect(!error.description.isEmpty)
        return error
      }
    }
    guard case .damaged = try error([UInt8](repeating: 0x41, count: 9000), "text") else {
      Issue.record("a text was opened")
      return
    }
    try catalog.commit(durable: true)
    try fixture.reopen()
    try catalog.close()
    var bytes = try Files.read(fixture.path)
    // The user version, big-endian at offset 60 of the header.
    bytes[60...63] = [0, 0, 0, 99]
    #expect(try error(bytes, "newer") == .newerFormat(99))
    bytes = try Files.read(fixture.path)
    bytes[68...71] = [0, 0, 0, 0]
    guard case .damaged = try error(bytes, "foreign") else {
      Issue.record("another program's database was opened")
      return
    }
  }

  @Test func aFailedOperationLeavesTheTransactionUsable() throws {
    try fixture.file("before")
    try catalog.commit(durable: false)
    // Every operation after a failing one still works, and the failing one left nothing.
    #expect(throws: ApplyFailure.self) {
      try fixture.apply([
        .upsert(record(.random(), .directory, "d"), content: .keep, stamp: nil),
        .upsert(record(.random(), .file, "before"), content: .placeholder, stamp: nil),
      ])
    }
    try fixture.file("after")
    #expect(try fixture.names(fixture.documents) == ["after", "before"])
    #expect(try fixture.names(try fixture.crashed()) == ["after", "before"])
  }
}

extension Fixture {
  func journal() throws -> [UInt8] {
    try ["-redo-a", "-redo-b"].flatMap { try Files.read(path + $0) }
  }

  func names(_ other: ContainerCatalog) throws -> [String] {
    try other.readDirectory(documents, after: 0, limit: 1000).map { $0.name.description }.sorted()
  }
}
