import Catalog
import Model
import SystemPackage
import Testing

@Suite struct ClosingTests {
  /// A download that is being waited for may ask once more when its container was closed: it is
  /// told so, and does not reach for a connection that is gone.
  @Test func aClosedCatalogSaysSo() throws {
    let fixture = try Fixture()
    let file = try fixture.file("file")
    try fixture.write(file.number, 10)
    try fixture.catalog.close()
    let catalog = fixture.catalog
    #expect(throws: Errno.badFileDescriptor) { try catalog.remote(file.item) }
    #expect(throws: Errno.badFileDescriptor) { try catalog.differing() }
    // The next one has nothing of it.
    try fixture.reopenOnly()
    #expect(try fixture.catalog.remote(file.item) == nil)
    try fixture.catalog.close()
    try fixture.reopenOnly()
  }
}
