import Model
import RecordFormat
import Testing

@Suite struct TimeTests {
  @Test func noTimeOfAnotherDeviceIsBeforeTheFirstWholeSecond() throws {
    let first = Timestamp(nanoseconds: .min)
    let version = ContentVersion(
      id: .random(), parent: nil, device: .random(), modified: first, size: 0,
      manifest: Manifest(chunks: []))
    let record = ItemRecord(
      id: .random(), kind: .file, links: [Link(parent: .root, name: try ItemName("f"))],
      mode: 0o644, modified: first, created: first, content: version)
    let read = try ItemRecord(decoding: record.encoded())
    #expect(read.modified == .earliest)
    #expect(read.created == .earliest)
    #expect(read.content?.modified == .earliest)
    #expect(try ItemRecord(decoding: read.encoded()) == read)
  }
}
