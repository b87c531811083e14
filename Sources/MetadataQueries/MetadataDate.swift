internal import Model

/// Dates as Foundation has them.
extension MetadataValue {
  /// The nearest date that a file can have; nil for what is no number.
  package init?(secondsSince1970 seconds: Double) {
    let nanoseconds = (seconds * 1_000_000_000).rounded()
    guard !nanoseconds.isNaN else { return nil }
    if nanoseconds <= Double(Timestamp.firstSecond) * 1_000_000_000 {
      self = .date(Timestamp.earliest.nanoseconds)
    } else if nanoseconds >= Double(Timestamp.lastSecond) * 1_000_000_000 {
      self = .date(Timestamp.latest.nanoseconds)
    } else if nanoseconds < 0 {
      self = .date(Int64(nanoseconds))
    } else {
      self = .date(Int64(bitPattern: UInt64(nanoseconds)))
    }
  }

  /// Nil for what is no date.
  package var secondsSince1970: Double? {
    guard case .date(let bits) = self else { return nil }
    let nanoseconds = Timestamp(nanoseconds: bits).nanoseconds
    let isBeforeWrap = nanoseconds >= Timestamp.earliest.nanoseconds
    return (isBeforeWrap ? Double(nanoseconds) : Double(UInt64(bitPattern: nanoseconds)))
      / 1_000_000_000
  }
}
