internal import Model

/// Dates as text: RFC 3339, with or without a time; without a zone it is UTC.
enum DateText {
  /// As in `Timestamp.nanoseconds`; nil for what is no date. A date that no file can have becomes
  /// the first or the last that one can have.
  static func nanoseconds(_ text: String) -> Int64? {
    var rest = Substring(text)
    guard let year = digits(4, &rest), skip("-", &rest), let month = digits(2, &rest),
      skip("-", &rest), let day = digits(2, &rest), year > 0, 1...12 ~= month,
      1...length(ofMonth: month, year) ~= day
    else { return nil }
    var seconds = days(year, month, day) * 86_400
    var fraction: Int64 = 0
    if let separator = rest.first {
      guard "Tt ".contains(separator) else { return nil }
      rest.removeFirst()
      guard let hour = digits(2, &rest), skip(":", &rest), let minute = digits(2, &rest),
        hour < 24, minute < 60
      else { return nil }
      seconds += hour * 3600 + minute * 60
      if skip(":", &rest) {
        // The second that is added now and then counts as the one before it.
        guard let second = digits(2, &rest), second <= 60 else { return nil }
        seconds += min(second, 59)
        if skip(".", &rest) {
          guard let parsed = nanosecondsOfFraction(&rest) else { return nil }
          fraction = parsed
        }
      }
      guard let offset = offset(&rest) else { return nil }
      seconds -= offset
    }
    guard rest.isEmpty else { return nil }
    return Timestamp(seconds: seconds, nanoseconds: fraction).nanoseconds
  }

  private static func nanosecondsOfFraction(_ rest: inout Substring) -> Int64? {
    var value: Int64 = 0
    var count = 0
    while let digit = rest.first?.asciiDigit {
      if count < 9 { value = value * 10 + digit }
      count += 1
      rest.removeFirst()
    }
    guard count > 0 else { return nil }
    for _ in min(count, 9)..<9 { value *= 10 }
    return value
  }

  /// Seconds east of UTC.
  private static func offset(_ rest: inout Substring) -> Int64? {
    guard let first = rest.first else { return 0 }
    rest.removeFirst()
    if first == "Z" || first == "z" { return 0 }
    guard first == "+" || first == "-", let hours = digits(2, &rest), skip(":", &rest),
      let minutes = digits(2, &rest), hours < 24, minutes < 60
    else { return nil }
    return (first == "-" ? -1 : 1) * (hours * 3600 + minutes * 60)
  }

  private static func digits(_ count: Int, _ rest: inout Substring) -> Int64? {
    var value: Int64 = 0
    for _ in 0..<count {
      guard let digit = rest.first?.asciiDigit else { return nil }
      value = value * 10 + digit
      rest.removeFirst()
    }
    return value
  }

  private static func skip(_ character: Character, _ rest: inout Substring) -> Bool {
    guard rest.first == character else { return false }
    rest.removeFirst()
    return true
  }

  private static func length(ofMonth month: Int64, _ year: Int64) -> Int64 {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  /// Days since 1970-01-01, of a year after 0: as `Instant` counts them, from 1 March on.
  private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let shifted = month <= 2 ? year - 1 : year
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return era * 146_097 + dayOfEra - 719_468
  }
}

extension Character {
  fileprivate var asciiDigit: Int64? {
    guard let value = asciiValue, 0x30...0x39 ~= value else { return nil }
    return Int64(value - 0x30)
  }
}
