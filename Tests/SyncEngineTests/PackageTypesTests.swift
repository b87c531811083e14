import Model
import Testing

@Suite struct PackageTypesTests {
  private func record(_ name: String, isMarked: Bool = false) throws -> ItemRecord {
    ItemRecord(
      id: .random(), kind: .directory,
      links: [Link(parent: .documents, name: try ItemName(name))], mode: 0o755,
      modified: Timestamp(nanoseconds: 0), created: Timestamp(nanoseconds: 0), isPackage: isMarked)
  }

  @Test func extensionsAndMarksMakePackages() throws {
    let types = PackageTypes.standard
    #expect(types.isPackage(try record("Letter.pages")))
    #expect(types.isPackage(try record("Letter.PAGES")))
    #expect(types.isPackage(try record("a.b.key")))
    #expect(!types.isPackage(try record("pages")))
    #expect(!types.isPackage(try record(".pages")))
    #expect(!types.isPackage(try record("Letter.pages.d")))
    #expect(!types.isPackage(try record("plain")))
    #expect(types.isPackage(try record("plain", isMarked: true)))
    var file = try record("Letter.pages")
    file.kind = .file
    #expect(!types.isPackage(file))
    var documents = try record("Documents.pages", isMarked: true)
    documents.id = .documents
    #expect(!types.isPackage(documents))
  }

  @Test func theConfigurationAddsAndRemoves() throws {
    let types = PackageTypes.standard.changed(by: ["draw", ".Sheet", "-app"])
    #expect(types.isPackage(try record("x.draw")))
    #expect(types.isPackage(try record("x.sheet")))
    #expect(!types.isPackage(try record("x.app")))
    #expect(types.isPackage(try record("x.pages")))
  }
}
