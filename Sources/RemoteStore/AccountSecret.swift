internal import Crypto

/// What a person proves with that an account is theirs: a generated secret, `ubq1-` and eight groups
/// of five letters and digits, or a passphrase of their own.
package struct AccountSecret: Equatable, Sendable {
  /// The secret as it is shown, and as it goes into key derivation.
  package let text: String

  /// What has the mark of a generated secret was checked to be one.
  package var isGenerated: Bool { text.hasPrefix(Self.mark) }

  private static let mark = "ubq1-"
  private static let entropy = 20
  private static let check = 5

  /// Reads a secret. White space around it is not part of it. What starts with `ubq1-` must be a
  /// generated secret without a typing error; its case and dashes do not matter.
  package init(_ text: String) throws(RemoteError) {
    var characters = Substring(text)
    while characters.first?.isWhitespace == true { characters.removeFirst() }
    while characters.last?.isWhitespace == true { characters.removeLast() }
    guard !characters.isEmpty else { throw .badSecret("it is empty") }
    guard characters.utf8.count <= 4096 else { throw .badSecret("it is longer than 4096 bytes") }
    guard characters.lowercased().hasPrefix(Self.mark) else {
      self.text = String(characters)
      return
    }
    let digits = characters.lowercased().dropFirst(Self.mark.count).filter { $0 != "-" }
    guard let bytes = Base32.decode(digits), bytes.count == Self.entropy + Self.check else {
      throw .badSecret("it starts with ubq1- but has not the form of a generated secret")
    }
    let random = Array(bytes.prefix(Self.entropy))
    guard Array(bytes.suffix(Self.check)) == Self.checkBytes(random) else {
      throw .badSecret("it has a typing error")
    }
    self.text = Self.form(random)
  }

  private init(random: [UInt8]) { text = Self.form(random) }

  /// A new secret of 160 random bits.
  package static func generate() -> AccountSecret {
    AccountSecret(random: Random.bytes(entropy))
  }

  private static func checkBytes(_ random: [UInt8]) -> [UInt8] {
    Array(SHA256.hash(data: Array(mark.utf8) + random).prefix(check))
  }

  private static func form(_ random: [UInt8]) -> String {
    let digits = Array(Base32.encode(random + checkBytes(random)).utf8)
    let groups = stride(from: 0, to: digits.count, by: 5).map { start in
      String(decoding: digits[start..<min(start + 5, digits.count)], as: UTF8.self)
    }
    return mark + groups.joined(separator: "-")
  }
}

/// RFC 4648 base32 in lower case without padding.
enum Base32 {
  private static let digits = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)

  static func encode(_ bytes: [UInt8]) -> String {
    var result: [UInt8] = []
    var bits: UInt32 = 0
    var count = 0
    for byte in bytes {
      bits = bits << 8 | UInt32(byte)
      count += 8
      while count >= 5 {
        count -= 5
        result.append(digits[Int(bits >> UInt32(count) & 31)])
      }
    }
    if count > 0 { result.append(digits[Int(bits << UInt32(5 - count) & 31)]) }
    return String(decoding: result, as: UTF8.self)
  }

  static func decode(_ text: String) -> [UInt8]? {
    var result: [UInt8] = []
    var bits: UInt32 = 0
    var count = 0
    for digit in text.utf8 {
      guard let value = digits.firstIndex(of: digit) else { return nil }
      bits = bits << 5 | UInt32(value)
      count += 5
      if count >= 8 {
        count -= 8
        result.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
      }
    }
    return result
  }
}

enum Random {
  static func bytes(_ count: Int) -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
  }
}
