import Model
import Testing

@testable import Catalog

@Suite struct LogFoldingTests {
  @Test("writes past memory do not make the write-ahead log grow without limit")
  func directWritesAreFolded() async throws {
    let fixture = try Fixture(isNew: true)
    let catalog = fixture.catalog
    try catalog.beginSnapshot()
    var longest = 0
    for part in 0..<200 {
      var some = SnapshotPart()
      some.items = try (0..<2_000).map { try record(.random(), .file, ItemName("\(part) \($0)")) }
      try catalog.stage(some)
      try await Task.sleep(for: .milliseconds(10))
      let pages = catalog.engine.withLock { $0.connection.logPages }
      if longest > Flusher.longestLog, pages < longest { return }
      longest = max(longest, pages)
    }
    Issue.record("nothing was folded at \(longest) pages")
  }
}
