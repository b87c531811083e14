import Model
import RecordFormat
import Testing

@Suite struct TimeTests {
  private static let second: Int64 = 1_000_000_000

  /// Bits whose time would be outside of the range: what lies between 2446 and 1901 when 2^64
  /// nanoseconds are a circle.
  private static let hostile: [Int64] = [
    Timestamp.earliest.nanoseconds - 1, Timestamp.latest.nanoseconds + 1,
    -3_000_000_000_000_000_000,
  ]

  /// In the order of time. The seconds are what `date -u -d TEXT +%s` says.
  private static let times: [(seconds: Int64, nanoseconds: Int64)] = [
    (-2_147_483_648, 0), (-2_147_483_648, 1), (-2_145_830_400, 0), (-1, 0), (-1, 999_999_999),
    (0, 0), (0, 1), (1_800_000_000, 5), (9_223_372_036, 854_775_807), (9_223_372_036, 854_775_808),
    (9_223_372_037, 0), (13_569_465_600, 0), (15_032_385_534, 999_999_999), (15_032_385_535, 0),
  ]

  @Test("the range is that of ext4, and each time in it comes back from its bits")
  func timesComeBack() {
    for time in Self.times {
      let made = Timestamp(seconds: time.seconds, nanoseconds: time.nanoseconds)
      let read = Timestamp(nanoseconds: made.nanoseconds)
      #expect(read == made)
      #expect([read.parts.seconds, read.parts.nanoseconds] == [time.seconds, time.nanoseconds])
    }
    #expect(Timestamp.earliest.parts.seconds == -2_147_483_648)
    #expect(Timestamp.latest.parts.seconds == 15_032_385_535)
  }

  @Test("times up to 2262 have the bits that older versions wrote")
  func earlierBitsKeepTheirMeaning() {
    for time in Self.times.prefix(9) {
      let count = time.seconds * Self.second + time.nanoseconds
      #expect(Timestamp(seconds: time.seconds, nanoseconds: time.nanoseconds).nanoseconds == count)
    }
    #expect(Timestamp(seconds: 9_223_372_036, nanoseconds: 854_775_808).nanoseconds == .min)
  }

  @Test("times compare and subtract across 2262")
  func orderIsThatOfTime() {
    let times = Self.times.map { Timestamp(seconds: $0.seconds, nanoseconds: $0.nanoseconds) }
    for (index, time) in times.enumerated() {
      for (other, later) in times.enumerated() {
        #expect((time < later) == (index < other))
        #expect((later.nanoseconds(since: time) > 0) == (index < other))
        #expect((later.nanoseconds(since: time) == 0) == (index == other))
      }
    }
    let wrap = Timestamp(seconds: 9_223_372_036, nanoseconds: 854_775_807)
    #expect(wrap.advanced(by: 1) == Timestamp(nanoseconds: .min))
    #expect(wrap.advanced(by: 1).advanced(by: -1) == wrap)
    #expect(wrap.advanced(by: 1).nanoseconds(since: wrap) == 1)
    #expect(wrap.nanoseconds(since: wrap.advanced(by: 1)) == -1)
    #expect(Timestamp.latest.nanoseconds(since: .earliest) == .max)
    #expect(Timestamp.earliest.nanoseconds(since: .latest) == -Int64.max)
    #expect(Timestamp.latest.advanced(by: 1) == .latest)
    #expect(Timestamp.latest.advanced(by: .max) == .latest)
    #expect(Timestamp.earliest.advanced(by: -1) == .earliest)
    #expect(Timestamp.earliest.advanced(by: .min) == .earliest)
  }

  @Test("a time outside of the range becomes the nearest one, as the kernel clamps it for ext4")
  func timesAreClamped() {
    for seconds in [Int64.min, -2_147_483_649] {
      #expect(Timestamp(seconds: seconds, nanoseconds: 999_999_999) == .earliest)
    }
    for seconds in [15_032_385_535, 15_032_385_536, 253_402_300_800, .max] as [Int64] {
      #expect(Timestamp(seconds: seconds, nanoseconds: 999_999_999) == .latest)
    }
    #expect(Timestamp(kernelSeconds: -2_147_483_648, nanoseconds: 5) == .earliest)
    #expect(Timestamp(kernelSeconds: 15_032_385_535, nanoseconds: 5) == .latest)
    for seconds in [13_569_465_600, -2, -2_147_483_647] as [Int64] {
      let time = Timestamp(kernelSeconds: seconds, nanoseconds: 7)
      #expect(time == Timestamp(seconds: seconds, nanoseconds: 7))
    }
  }

  @Test("bits that mean no time become the earliest time")
  func hostileBitsAreClamped() {
    for bits in Self.hostile { #expect(Timestamp(nanoseconds: bits) == .earliest) }
  }

  @Test(
    "a record of another device may hold any 64 bits as a time",
    arguments: hostile + [.min, .max, 0, -1, 13_569_465_600 &* 1_000_000_000])
  func recordsHoldAnyBits(bits: Int64) throws {
    let read = try ItemRecord(decoding: record(with: bits))
    let time = Timestamp(nanoseconds: bits)
    #expect(read.modified == time)
    #expect(read.created == time)
    #expect(read.content?.modified == time)
    #expect((Timestamp.earliest...Timestamp.latest).contains(read.modified))
    #expect(try ItemRecord(decoding: read.encoded()) == read)
  }

  /// A record whose three times have these bits, made from one with a time that nothing else in it
  /// looks like.
  private func record(with bits: Int64) throws -> [UInt8] {
    let mark: Int64 = 0x1122_3344_5566_7788
    let time = Timestamp(nanoseconds: mark)
    let version = ContentVersion(
      id: .random(), parent: nil, device: .random(), modified: time, size: 0,
      manifest: Manifest(chunks: []))
    let record = ItemRecord(
      id: .random(), kind: .file, links: [Link(parent: .root, name: try ItemName("f"))],
      mode: 0o644, modified: time, created: time, content: version)
    var bytes = record.encoded()
    let pattern = withUnsafeBytes(of: mark.littleEndian) { Array($0) }
    var replaced = 0
    for start in 0...(bytes.count - 8) where Array(bytes[start..<start + 8]) == pattern {
      bytes.replaceSubrange(start..<start + 8, with: withUnsafeBytes(of: bits.littleEndian) { $0 })
      replaced += 1
    }
    try #require(replaced == 3)
    return bytes
  }
}
