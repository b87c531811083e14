import Catalog
import Model
import SystemPackage
import Testing

/// The fold keeps versions among the removed items, whatever software wrote a segment.
@Suite struct KeptVersionsTests {
  let fixture: Fixture
  var catalog: ContainerCatalog { fixture.catalog }

  init() throws { fixture = try Fixture() }

  private func fold(_ upserts: [ItemRecord] = [], removals: [ItemID] = []) throws {
    try catalog.fold(
      LogChanges(upserts: upserts, removals: removals), to: fixture.position(),
      from: LogOrigin(device: DeviceID(high: 7, low: 7), time: Timestamp(nanoseconds: 100)))
  }

  private func removed() throws -> [ItemRecord] {
    try catalog.removedItems(since: .earliest).map(\.record)
  }

  private func edited(_ record: ItemRecord, _ seed: UInt8, parent: VersionID?) -> ItemRecord {
    var result = record
    let content = contentVersion(10, seed)
    result.content = ContentVersion(
      id: content.id, parent: parent, device: content.device, modified: content.modified,
      size: content.size, manifest: content.manifest)
    return result
  }

  @Test("a record that brings an item back leaves the contents that it does not know in the trash")
  func revivalByAnotherDevice() throws {
    let base = record(.random(), .file, "f")
    var last = edited(base, 2, parent: base.content?.id)
    last.conflicts = [contentVersion(10, 3)]
    try fold([base])
    try fold([last])
    try fold(removals: [base.id])
    #expect(try removed() == [last])
    let revived = edited(base, 4, parent: base.content?.id)
    try fold([revived])
    #expect(try Set(removed().flatMap(\.contents)) == Set(last.contents))
    #expect(try removed().allSatisfy { $0.id != base.id && $0.links == base.links })
    // A later record that has them makes them versions again.
    var whole = revived
    whole.conflicts = last.contents
    try fold([whole])
    #expect(try removed().isEmpty)
    #expect(try fixture.isSound())
  }

  @Test("the content that an edit was made of goes from the trash when the edit can be read")
  func revivalOfTheSameContent() throws {
    let base = record(.random(), .file, "f")
    try fold([base])
    try fold(removals: [base.id])
    let whole = edited(base, 4, parent: base.content?.id)
    var announced = whole
    announced.content = whole.content.map {
      ContentVersion(
        id: $0.id, parent: $0.parent, device: $0.device, modified: $0.modified, size: $0.size,
        manifest: nil)
    }
    try fold([announced])
    #expect(try removed().compactMap(\.content) == [base.content])
    try fold([whole])
    #expect(try removed().isEmpty)
  }

  @Test("a file that comes back shows a content before the log has the file again")
  func shownBeforeItIsInTheLog() throws {
    var announced = record(.random(), .file, "f")
    announced.content = announced.content.map {
      ContentVersion(
        id: $0.id, parent: nil, device: $0.device, modified: $0.modified, size: $0.size,
        manifest: nil)
    }
    try fold([announced])
    try fixture.apply([.upsert(announced, content: .placeholder, stamp: nil)])
    let last = edited(announced, 2, parent: nil)
    try fold([last])
    try fold(removals: [announced.id])
    try fixture.apply([.upsert(last, content: .placeholder, stamp: nil)])
    // The log may not take the record that brings it back.
    let local = try #require(try catalog.local(announced.id))
    #expect(!local.isEdited)
    #expect(local.record.content == last.content)
    #expect(try fixture.isSound())
    try fold([last])
    #expect(try catalog.local(announced.id)?.record.content == last.content)
    #expect(try fixture.isSound())
  }

  @Test(
    "a segment whose origin is unknown keeps nothing, and one that restores drops what it restores")
  func restoring() throws {
    var item = record(.random(), .file, "f")
    item.conflicts = [contentVersion(10, 3)]
    try fold([item])
    try fold(removals: [item.id])
    try fold([item])
    #expect(try removed().isEmpty)
    var resolved = item
    resolved.conflicts = []
    try fixture.folded([resolved])
    #expect(try removed().isEmpty)
  }

  @Test("a file whose name a directory takes was removed, not saved over")
  func replacing() throws {
    let (first, second) = (record(.random(), .file, "a"), record(.random(), .file, "b"))
    try fold([first, second])
    try fold(
      [record(.random(), .directory, "a"), record(.random(), .file, "b")],
      removals: [first.id, second.id].sorted())
    #expect(try removed() == [first])
  }

  @Test("an identity that cannot be kept is left out, and the segment is folded")
  func hostileIdentities() throws {
    var item = record(.random(), .file, "f")
    let rest = contentVersion(10, 3)
    // Its kept version would be the root, or its own directory.
    let rotated = ItemRecord.keptIdentity(of: VersionID(high: 0, low: 0), in: item.id)
    item.conflicts = [ItemID.root, .documents].map { target in
      ContentVersion(
        id: VersionID(high: rotated.high ^ target.high, low: rotated.low ^ target.low), parent: nil,
        device: rest.device, modified: rest.modified, size: rest.size,
        manifest: Manifest(chunks: [chunk(UInt8(target.low) + 10, 10)]))
    }
    try fold([item])
    item.conflicts = []
    try fold([item])
    #expect(try removed().isEmpty)
    #expect(try catalog.remote(item.id) == item)
  }

  @Test("a version that was restored as a file and then edited leaves its first item in the trash")
  func restoredVersions() throws {
    var item = record(.random(), .file, "f")
    let version = contentVersion(10, 3)
    item.conflicts = [version]
    try fold([item])
    let kept = item.keeping(version)
    #expect(ItemRecord.owner(of: version.id, keptAs: kept.id) == item.id)
    var resolved = item
    resolved.conflicts = []
    try fold([resolved])
    #expect(try removed() == [kept])
    var restored = kept
    restored.links = record(.random(), .file, "g").links
    try fold([restored])
    try fold(removals: [item.id])
    #expect(try removed() == [resolved])
    try fold([edited(restored, 5, parent: version.id)])
    #expect(try removed() == [resolved])
  }
}
