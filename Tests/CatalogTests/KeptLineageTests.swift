import Model
import Testing

@testable import Catalog

/// The version of a local content through recoveries.
@Suite struct KeptLineageTests {
  /// Installs a recovery in which a file has a content. `known`: the last segment that its device
  /// had read.
  private func recover(
    _ number: UInt64, _ item: ItemID, with content: ContentVersion?, known: LogPosition,
    in fixture: Fixture
  ) throws {
    try fixture.recover(number, known: known) { record in
      if record.id == item { record.content = content }
    }
  }

  @Test("a second recovery keeps the version of a content that is not supplied since the first one")
  func twoRecoveries() throws {
    let fixture = try Fixture()
    let catalog = fixture.catalog
    let file = try fixture.file("f")
    try fixture.write(file.number, 10)
    try fixture.commitAll()
    let first = try catalog.remote(file.item)?.content
    let known = try catalog.position()
    try fixture.write(file.number, 20)
    try fixture.commitAll()
    let second = try #require(try catalog.remote(file.item)?.content)

    try recover(1, file.item, with: first, known: known, in: fixture)
    let kept = try #require(try catalog.keptVersion(of: file.item))
    #expect(kept.content.version == second.id)
    let elsewhere = LogPosition(sequence: 1_500_000, hash: [UInt8](repeating: 7, count: 32))
    try recover(2, file.item, with: contentVersion(30), known: elsewhere, in: fixture)
    let again = try #require(try catalog.keptVersion(of: file.item))
    #expect(again.content == kept.content)
    #expect(again.parent == kept.parent)
    #expect(try fixture.isSound())
  }
}
