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

  @Test("an archive that has one chunk very many times fills no memory")
  func repeatedChunk() async throws {
    let time = Timestamp(nanoseconds: 1)
    let large = try entry(
      "d", kind: .directory, attributes: ["user.a": Array(repeating: 1, count: 9000)])
    let tree = PackageTree([large], device: Self.version.device, modified: time)
    guard case .frame(let pieces)? = PackageArchive.parts(of: tree).first else {
      throw PackageArchive.Damage(description: "an archive begins with a frame")
    }
    // Two blocks of zeros are the end.
    let whole = Array(pieces.joined())
    let bytes = [Array(whole.dropLast(1024)), Array(whole.suffix(1024))]
    let chunks = try (0..<2).map { number in
      ChunkReference(
        id: try #require(ChunkID([UInt8](repeating: UInt8(number), count: 32))),
        length: UInt32(bytes[number].count))
    }
    let manifest = Manifest(chunks: Array(repeating: chunks[0], count: 200) + [chunks[1]])
    let read: @Sendable (ChunkReference) -> [UInt8] = { bytes[Int($0.id.bytes[0])] }
    let entries = try await PackageArchive.entries(of: manifest) { read($0) }
    #expect(entries.count == 200)
    await #expect(throws: PackageArchive.Damage.self) {
      try await PackageArchive.entries(of: manifest, memory: 1 << 20) { read($0) }
    }
  }

  @Test("each name of a path in an archive counts as memory")
  func deepPath() async throws {
    let path = Array(repeating: try ItemName("a"), count: 10_000)
    let deep = PackageTree.Entry(
      path: path, kind: .directory, mode: 0o755, modified: Timestamp(nanoseconds: 1))
    let tree = PackageTree([deep], device: Self.version.device, modified: deep.modified)
    guard case .frame(let pieces)? = PackageArchive.parts(of: tree).first else {
      throw PackageArchive.Damage(description: "an archive begins with a frame")
    }
    let bytes = Array(pieces.joined())
    let chunk = ChunkReference(
      id: try #require(ChunkID([UInt8](repeating: 1, count: 32))), length: UInt32(bytes.count))
    let manifest = Manifest(chunks: [chunk])
    #expect(try await PackageArchive.entries(of: manifest) { _ in bytes }.count == 1)
    await #expect(throws: PackageArchive.Damage.self) {
      try await PackageArchive.entries(of: manifest, memory: 600_000) { _ in bytes }
    }
  }
}
