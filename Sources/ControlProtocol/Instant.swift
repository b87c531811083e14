package import Model

/// Times as text: RFC 3339 in UTC with nanoseconds, as in `2026-01-31T09:05:00.000000000Z`.
package enum Instant {
  package static func text(nanoseconds: Int64) -> String {
    text(Timestamp(nanoseconds: nanoseconds))
  }

  package static func text(_ time: Timestamp) -> String {
    let (seconds, fraction) = time.parts
    let days = floorDivide(seconds, 86_400)
    let rest = floorRemainder(seconds, 86_400)
    let date = civil(days)
    return "\(pad(date.year, 4))-\(pad(date.month, 2))-\(pad(date.day, 2))"
      + "T\(pad(rest / 3600, 2)):\(pad(rest / 60 % 60, 2)):\(pad(rest % 60, 2))"
      + ".\(pad(fraction, 9))Z"
  }

  /// The Gregorian date `days` after 1970-01-01: eras of 400 years that start on 1 March, so that
  /// the leap day is a year's last.
  private static func civil(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let shifted = days + 719_468
    let era = floorDivide(shifted, 146_097)
    let dayOfEra = shifted - era * 146_097
    let yearOfEra =
      (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let march = (5 * dayOfYear + 2) / 153
    let month = march < 10 ? march + 3 : march - 9
    return (
      yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * march + 2) / 5 + 1
    )
  }

  private static func floorDivide(_ value: Int64, _ by: Int64) -> Int64 {
    let quotient = value / by
    return value % by < 0 ? quotient - 1 : quotient
  }

  private static func floorRemainder(_ value: Int64, _ by: Int64) -> Int64 {
    let remainder = value % by
    return remainder < 0 ? remainder + by : remainder
  }

  private static func pad(_ value: Int64, _ width: Int) -> String {
    let digits = String(value)
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
  }
}
