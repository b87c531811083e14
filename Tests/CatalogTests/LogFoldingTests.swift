import Model
import TestWaiting
import Testing

@testable import Catalog

@Suite struct LogFoldingTests {
  @Test("writes past memory do not make the write-ahead log grow without limit")
  func directWritesAreFolded() async throws {
    let fixture = try Fixture(isNew: true)
    let catalog = fixture.catalog
    try catalog.beginSnapshot()
    var longest = 0
    var part = 0
    try await eventually("the log is folded at \(Flusher.longestLog) pages") {
      // So many are far beyond that. The thread that folds the log may be late.
      if part < 200 {
        var some = SnapshotPart()
        some.items = try (0..<2_000).map {
          try record(.random(), .file, ItemName("\(part) \($0)"))
        }
        try catalog.stage(some)
        part += 1
      }
      let pages = catalog.engine.withLock { $0.connection.logPages }
      defer { longest = max(longest, pages) }
      return longest > Flusher.longestLog && pages < longest
    }
  }

  @Test(
    "what is folded while a snapshot is written counts for the next one", arguments: [true, false])
  func weightBeyondASnapshot(isOwn: Bool) throws {
    let fixture = try Fixture()
    let catalog = fixture.catalog
    for name in ["a", "b", "c"] { try fixture.folded([record(.random(), .file, ItemName(name))]) }
    let written = fixture.sequence
    if isOwn { try catalog.noteWriting(snapshotAt: written) }
    let before = try catalog.logLength().weight
    for name in ["d", "e"] { try fixture.folded([record(.random(), .file, ItemName(name))]) }
    let since = try catalog.logLength().weight - before
    let announcement = LogChanges(snapshot: SnapshotMark(sequence: written, bytes: 1))
    try catalog.fold(
      announcement,
      to: LogPosition(sequence: fixture.sequence + 1, hash: [UInt8](repeating: 1, count: 32)),
      from: LogOrigin(device: DeviceID(high: 3, low: 0), time: Timestamp(nanoseconds: 1)))
    #expect(try catalog.logLength().snapshot == written)
    #expect(try catalog.logLength().weight == (isOwn ? since + announcement.weight : 0))
  }
}
