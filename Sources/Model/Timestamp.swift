/// A time from 1901-12-13 20:45:52 UTC to 2446-05-10 22:38:55 UTC, the range of ext4.
///
/// `nanoseconds` counts from 1970-01-01 00:00 UTC modulo 2^64. The range is shorter than 2^64
/// nanoseconds, so no bit pattern means two times. Up to 2262 it is the plain signed count; a later
/// time is a number below that of `earliest`. So compare and subtract timestamps, never their bits.
package struct Timestamp: Hashable, Comparable, Sendable {
  package let nanoseconds: Int64

  /// Bits that mean no time in the range become `earliest`: no value that a record or a file can
  /// hold makes an invalid timestamp.
  package init(nanoseconds: Int64) {
    let isValid = Self.offset(of: nanoseconds) <= Self.lastOffset
    self.nanoseconds = isValid ? nanoseconds : Self.firstSecond &* Self.second
  }

  /// The nearest time of the range. `nanoseconds` is the part of a second, never negative.
  package init(seconds: Int64, nanoseconds: Int64) {
    guard seconds >= Self.firstSecond else {
      self = .earliest
      return
    }
    guard seconds < Self.lastSecond else {
      self = .latest
      return
    }
    self.init(nanoseconds: seconds &* Self.second &+ nanoseconds)
  }

  /// Clamped as the kernel does it for ext4 (`timestamp_truncate`): the first and the last second
  /// have no fraction.
  package init(kernelSeconds seconds: Int64, nanoseconds: Int64) {
    self.init(seconds: seconds, nanoseconds: seconds == Self.firstSecond ? 0 : nanoseconds)
  }

  package static func < (left: Self, right: Self) -> Bool { left.offset < right.offset }
}

extension Timestamp {
  /// -2^31, as far back as ext4 goes.
  package static var firstSecond: Int64 { -2_147_483_648 }
  /// ext4 has two more bits than the 32 of a signed second: 2^34 - 1 - 2^31.
  package static var lastSecond: Int64 { 15_032_385_535 }

  package static var earliest: Timestamp { Timestamp(nanoseconds: firstSecond &* second) }
  package static var latest: Timestamp { Timestamp(nanoseconds: lastSecond &* second) }

  private static var second: Int64 { 1_000_000_000 }

  private static var lastOffset: UInt64 { UInt64(lastSecond - firstSecond) * UInt64(second) }

  private static func offset(of nanoseconds: Int64) -> UInt64 {
    UInt64(bitPattern: nanoseconds &- firstSecond &* second)
  }

  /// Nanoseconds since `earliest`.
  private var offset: UInt64 { Self.offset(of: nanoseconds) }

  /// Whole seconds since 1970, rounded down, and the nanoseconds that are left.
  package var parts: (seconds: Int64, nanoseconds: Int64) {
    let (quotient, remainder) = offset.quotientAndRemainder(dividingBy: UInt64(Self.second))
    return (Int64(quotient) + Self.firstSecond, Int64(remainder))
  }

  /// Negative before `other`. A distance of more than 292 years becomes 292 years.
  package func nanoseconds(since other: Timestamp) -> Int64 {
    offset >= other.offset
      ? Int64(clamping: offset - other.offset) : -Int64(clamping: other.offset - offset)
  }

  /// Stops at the ends of the range.
  package func advanced(by nanoseconds: Int64) -> Timestamp {
    if nanoseconds < 0 {
      let (offset, overflow) = offset.subtractingReportingOverflow(nanoseconds.magnitude)
      return overflow ? .earliest : Timestamp(offset: offset)
    }
    let (offset, overflow) = offset.addingReportingOverflow(nanoseconds.magnitude)
    return overflow || offset > Self.lastOffset ? .latest : Timestamp(offset: offset)
  }

  private init(offset: UInt64) {
    self.init(nanoseconds: Int64(bitPattern: offset) &+ Self.firstSecond &* Self.second)
  }
}
