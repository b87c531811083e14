internal import Crypto
internal import Model

/// The keys of an access to a store.
package struct S3Keys: Equatable, Sendable {
  package var identifier: String
  package var secret: String
  /// Of temporary keys.
  package var token: String?

  package init(identifier: String, secret: String, token: String? = nil) {
    self.identifier = identifier
    self.secret = secret
    self.token = token
  }
}

/// A request as it is signed: what is in it goes over the wire in just this form.
package struct SignedParts: Sendable {
  package var method: String
  /// Encoded, beginning with `/`.
  package var path: String
  /// Not encoded, in any order.
  package var query: [(name: String, value: String)] = []
  /// Names in lower case; `host` among them.
  package var headers: [(name: String, value: String)]

  package init(
    method: String, path: String, query: [(name: String, value: String)] = [],
    headers: [(name: String, value: String)]
  ) {
    self.method = method
    self.path = path
    self.query = query
    self.headers = headers
  }

  /// Sorted and encoded as the signature wants it, and as it is sent.
  package var queryText: String {
    query.map { (Signature.encode($0.name), Signature.encode($0.value)) }
      .sorted { ($0.0, $0.1) < ($1.0, $1.1) }
      .map { "\($0.0)=\($0.1)" }.joined(separator: "&")
  }
}

/// AWS Signature Version 4, in the Authorization header. Source: "Signature Calculations for the
/// Authorization Header: Transferring Payload in a Single Chunk", Amazon S3 API Reference.
package struct Signature: Sendable {
  package let region: String
  package let service: String

  package init(region: String, service: String = "s3") {
    self.region = region
    self.service = service
  }

  /// The value of `Authorization`. `headers` have `x-amz-date` already, which `time` says too: as
  /// in `20130524T000000Z`. `payload` is the hash of the body in hexadecimal.
  package func authorization(
    for request: SignedParts, payload: String, time: String, keys: S3Keys
  ) -> String {
    let headers = request.headers.sorted { $0.name < $1.name }
    let names = headers.map(\.name).joined(separator: ";")
    let canonical = [
      request.method, request.path, request.queryText,
      headers.map { "\($0.name):\(Self.trimmed($0.value))\n" }.joined(), names, payload,
    ].joined(separator: "\n")
    let day = String(time.prefix(8))
    let scope = "\(day)/\(region)/\(service)/aws4_request"
    let text = ["AWS4-HMAC-SHA256", time, scope, Self.hash(Array(canonical.utf8))]
      .joined(separator: "\n")
    var key = SymmetricKey(data: Array("AWS4\(keys.secret)".utf8))
    for part in [day, region, service, "aws4_request"] {
      key = SymmetricKey(data: Self.code(part, key))
    }
    let signature = Hex.encode(Self.code(text, key))
    return "AWS4-HMAC-SHA256 Credential=\(keys.identifier)/\(scope), SignedHeaders=\(names), "
      + "Signature=\(signature)"
  }

  private static func code(_ text: String, _ key: SymmetricKey) -> [UInt8] {
    Array(HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: key))
  }

  /// Of a body, in hexadecimal.
  package static func hash(_ bytes: [UInt8]) -> String {
    Hex.encode(Array(SHA256.hash(data: bytes)))
  }

  private static func trimmed(_ value: String) -> String {
    value.split(separator: " ").joined(separator: " ")
  }

  /// Everything but letters, digits, `-`, `.`, `_` and `~` as `%XX`. `keepsSlash`: of a path.
  package static func encode(_ text: String, keepsSlash: Bool = false) -> String {
    var result: [UInt8] = []
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
        UInt8(ascii: "_"), UInt8(ascii: "~"):
        result.append(byte)
      case UInt8(ascii: "/") where keepsSlash: result.append(byte)
      default:
        result += Array("%".utf8)
        result += Array(Hex.encode([byte]).uppercased().utf8)
      }
    }
    return String(decoding: result, as: UTF8.self)
  }
}

/// Points in time as requests write them.
enum S3Time {
  /// As in `20130524T000000Z`.
  static func text(_ seconds: Int64) -> String {
    let (days, second) = seconds.quotientAndRemainder(dividingBy: 86_400)
    let (year, month, day) = civil(days)
    func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return "\(year)\(two(month))\(two(day))T\(two(second / 3600))\(two(second / 60 % 60))"
      + "\(two(second % 60))Z"
  }

  /// Seconds since 1970 of `2013-05-24T00:00:00Z`, or of `Fri, 24 May 2013 00:00:00 GMT`.
  static func seconds(_ text: String) -> Int64? {
    let parts = text.split { !($0.isLetter || $0.isNumber) }.map(String.init)
    if let year = parts.first.flatMap(Int64.init), parts.count >= 5 {
      guard let month = Int64(parts[1]) else { return nil }
      // `24T00` is day and hour.
      let dayAndHour = parts[2].split(separator: "T").compactMap { Int64($0) }
      let second = Int64(parts[4].prefix { $0.isNumber })
      guard dayAndHour.count == 2, let minute = Int64(parts[3]), let second else { return nil }
      return seconds(year, month, dayAndHour[0], dayAndHour[1], minute, second)
    }
    let months = [
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    guard parts.count >= 7, let month = months.firstIndex(of: parts[2]) else { return nil }
    let numbers = [parts[1], parts[3], parts[4], parts[5], parts[6]].compactMap { Int64($0) }
    guard numbers.count == 5 else { return nil }
    return seconds(
      numbers[1], Int64(month) + 1, numbers[0], numbers[2], numbers[3], numbers[4])
  }

  /// Nil for what is no time: what a server says is not to be reckoned with before.
  private static func seconds(
    _ year: Int64, _ month: Int64, _ day: Int64, _ hour: Int64, _ minute: Int64, _ second: Int64
  ) -> Int64? {
    guard (1970...9999).contains(year), (1...12).contains(month), (1...31).contains(day),
      (0...24).contains(hour), (0...60).contains(minute), (0...60).contains(second)
    else { return nil }
    return days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
  }

  /// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
  private static func civil(_ days: Int64) -> (Int64, Int64, Int64) {
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra =
      (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
  }

  private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let year = month <= 2 ? year - 1 : year
    let era = (year >= 0 ? year : year - 399) / 400
    let yearOfEra = year - era * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return era * 146_097 + dayOfEra - 719_468
  }
}
