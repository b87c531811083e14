import Model
import Testing

@testable import SyncEngine

/// Times in the archive of a package, which is a tar file.
@Suite struct ArchiveTimeTests {
  /// The pieces of the archive stand for chunks that hold them.
  private func readBack(_ time: Timestamp, rewriting: (String, String)? = nil) async throws
    -> Timestamp?
  {
    let entry = PackageTree.Entry(
      path: [try ItemName("d")], kind: .directory, mode: 0o755, modified: time)
    let tree = PackageTree([entry], device: .random(), modified: time)
    var pieces: [ChunkID: [UInt8]] = [:]
    var chunks: [ChunkReference] = []
    for case .frame(let frame) in PackageArchive.parts(of: tree) {
      for piece in frame {
        var bytes = piece
        if let (old, new) = rewriting {
          let text = String(decoding: bytes, as: UTF8.self)
          try #require(text.contains(old) && old.utf8.count == new.utf8.count)
          bytes = Array(text.replacing(old, with: new).utf8)
        }
        let id = try #require(
          ChunkID([UInt8](repeating: UInt8(pieces.count), count: 32)))
        pieces[id] = bytes
        chunks.append(ChunkReference(id: id, length: UInt32(bytes.count)))
      }
    }
    return try await PackageArchive.entries(of: Manifest(chunks: chunks)) {
      try #require(pieces[$0.id])
    }.first?.modified
  }

  @Test(
    "a time from 1901 to 2446 comes back from an archive",
    arguments: [
      (-2_147_483_648, 0), (-2, 999_999_999), (-1, 0), (-1, 500_000_000), (0, 0), (0, 5),
      (1_800_000_000, 123_456_789), (9_223_372_036, 854_775_808), (13_569_465_600, 1),
      (15_032_385_535, 0),
    ] as [(Int64, Int64)])
  func timesComeBack(seconds: Int64, nanoseconds: Int64) async throws {
    let time = Timestamp(seconds: seconds, nanoseconds: nanoseconds)
    #expect(try await readBack(time) == time)
  }

  /// Of as many characters as `late` is: the length of a field stands before it.
  @Test(
    "a time in an archive that no file can have becomes the nearest one",
    arguments: [
      ("99999999999.999999999", .latest), ("-9999999999.999999999", .earliest),
      ("-0000000000.000000001", Timestamp(seconds: -1, nanoseconds: 999_999_999)),
    ] as [(String, Timestamp)])
  func hostileTimesAreClamped(text: String, time: Timestamp) async throws {
    #expect(try await readBack(Self.late, rewriting: (Self.lateText, text)) == time)
  }

  @Test(
    "an archive whose time is no number is damaged",
    arguments: ["13569465600.-00000001", "99999999999999999999.", "--569465600.000000001"])
  func whatIsNoTimeIsRefused(text: String) async {
    await #expect(throws: PackageArchive.Damage.self) {
      try await readBack(Self.late, rewriting: (Self.lateText, text))
    }
  }

  private static let late = Timestamp(seconds: 13_569_465_600, nanoseconds: 0)
  private static let lateText = "13569465600.000000000"
}
