import Model
import RecordFormat
import Testing

@testable import SyncEngine

/// Archives of packages that another device made, which may hold what no device would.
@Suite struct HostileArchiveTests {
  private func entry(
    _ name: String = "x", kind: ItemKind = .file, attributes: [String: [UInt8]] = [:],
    target: [UInt8] = []
  ) throws -> PackageTree.Entry {
    PackageTree.Entry(
      path: [try ItemName(name)], kind: kind, mode: 0o644, modified: Timestamp(nanoseconds: 1),
      attributes: attributes, target: target)
  }

  private static let root = ItemID(high: 1, low: 1)
  private static let version = ContentVersion(
    id: .random(), parent: nil, device: DeviceID(high: 1, low: 1),
    modified: Timestamp(nanoseconds: 1), size: 0, manifest: .empty)

  private func records(_ entries: [PackageTree.Entry]) throws -> [ItemRecord] {
    try PackageArchive.records(of: entries, in: Self.root, as: Self.version)
  }

  @Test("what the records of a package may hold comes out of its archive")
  func allowed() throws {
    let made = try records([
      try entry("d", kind: .directory), try entry(attributes: ["user.a": [1]]),
      try entry("l", kind: .symbolicLink, target: Array("a/b".utf8)),
    ])
    #expect(made.map(\.kind) == [.directory, .file, .symbolicLink])
    for record in made { #expect(try ItemRecord(decoding: record.encoded()) == record) }
  }

  @Test(
    "an archive whose items no record may hold is damaged, and none of them gets into the log",
    arguments: ["security.capability", "trusted.x", "user.", "x"])
  func attributeNames(name: String) throws {
    #expect(throws: PackageArchive.Damage.self) {
      try records([try entry(attributes: [name: [1]])])
    }
  }

  @Test("values and targets that are too long, empty or of bytes that no path has are damage")
  func values() throws {
    let long = [UInt8](repeating: 1, count: RecordLimits.attributeValue + 1)
    #expect(throws: PackageArchive.Damage.self) {
      try records([try entry(attributes: ["user.a": long])])
    }
    let name = "user." + String(repeating: "n", count: RecordLimits.attributeName)
    #expect(throws: PackageArchive.Damage.self) {
      try records([try entry(attributes: [name: [1]])])
    }
    for target in [[], [0], [UInt8](repeating: 0x61, count: RecordLimits.target + 1)] {
      #expect(throws: PackageArchive.Damage.self) {
        try records([try entry(kind: .symbolicLink, target: target)])
      }
    }
  }

  @Test("a directory that the archive does not have is damage")
  func missingDirectory() throws {
    let inside = PackageTree.Entry(
      path: [try ItemName("d"), try ItemName("x")], kind: .file, mode: 0o644,
      modified: Timestamp(nanoseconds: 1), attributes: [:], target: [])
    #expect(throws: PackageArchive.Damage.self) { try records([inside]) }
  }

  @Test("the fields of an entry are not read when they say that they are longer than any")
  func longFields() async throws {
    var block = [UInt8](repeating: 0, count: 512)
    block[156] = UInt8(ascii: "x")
    block.replaceSubrange(124..<135, with: Array("04000000000".utf8))
    let id = try #require(ChunkID([UInt8](repeating: 1, count: 32)))
    let chunk = ChunkReference(id: id, length: 512)
    await #expect(throws: PackageArchive.Damage.self) {
      var reads = 0
      _ = try await PackageArchive.entries(of: Manifest(chunks: Array(repeating: chunk, count: 9)))
      {
        _ in
        reads += 1
        try #require(reads < 2)
        return block
      }
    }
  }
}
