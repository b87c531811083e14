internal import Crypto
package import Platform

/// What a person proves with that an account is theirs: a generated secret, `ubq1-` and eight
/// groups of five letters and digits, or a passphrase of their own.
///
/// Held in memory of its own, once for all copies of the value (`SecretBytes`).
package struct AccountSecret: Equatable, Sendable {
  /// UTF-8, as it goes into key derivation.
  package let bytes: SecretBytes

  /// The text for display. Nothing overwrites this copy: use it only for output of the process.
  package var text: String { bytes.withBytes { String(decoding: $0, as: UTF8.self) } }

  /// What has the mark of a generated secret was checked to be one.
  package var isGenerated: Bool { bytes.withBytes { Self.hasMark($0) } }

  private static let mark = Array("ubq1-".utf8)
  private static let entropy = 20
  private static let check = 5
  private static let longest = 4096

  package init(_ text: String) throws(RemoteError) {
    try self.init(SecretBytes(copying: Array(text.utf8)))
  }

  /// Reads a secret. White space around it is not part of it. What starts with `ubq1-` must be a
  /// generated secret without a typing error; its case and dashes do not matter.
  package init(_ given: SecretBytes) throws(RemoteError) {
    let range = given.withBytes { Self.trimmed($0) }
    guard !range.isEmpty else { throw .badSecret("it is empty") }
    guard range.count <= Self.longest else { throw .badSecret("it is longer than 4096 bytes") }
    let isMarked = given.withBytes { Self.hasMark($0[range]) }
    guard isMarked else {
      bytes = given.withBytes { SecretBytes(copying: $0[range]) }
      return
    }
    var random = try given.withBytes { bytes throws(RemoteError) in
      try Self.random(in: bytes[range].dropFirst(Self.mark.count))
    }
    defer { SecretBytes.wipe(&random) }
    bytes = Self.form(random)
  }

  /// A new secret of 160 random bits.
  package static func generate() -> AccountSecret {
    var random = Random.bytes(entropy)
    defer { SecretBytes.wipe(&random) }
    return AccountSecret(form: form(random))
  }

  private init(form: SecretBytes) { bytes = form }

  /// The range without surrounding white space. For text beyond ASCII it leaves copies in memory.
  private static func trimmed(_ bytes: UnsafeRawBufferPointer) -> Range<Int> {
    if bytes.contains(where: { $0 >= 0x80 }) {
      let text = Substring(String(decoding: bytes, as: UTF8.self))
      let front = text.prefix { $0.isWhitespace }.utf8.count
      let back = text.reversed().prefix { $0.isWhitespace }.reduce(0) { $0 + $1.utf8.count }
      return front..<max(front, min(bytes.count, text.utf8.count) - back)
    }
    func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
    let start = bytes.firstIndex { !isSpace($0) } ?? bytes.count
    let end = bytes.lastIndex { !isSpace($0) }.map { $0 + 1 } ?? start
    return start..<end
  }

  private static func lower(_ byte: UInt8) -> UInt8 {
    (0x41...0x5A).contains(byte) ? byte | 0x20 : byte
  }

  private static func hasMark(_ bytes: some Collection<UInt8>) -> Bool {
    bytes.prefix(mark.count).elementsEqual(mark) { lower($0) == $1 }
  }

  private static func random(in text: some Collection<UInt8>) throws(RemoteError) -> [UInt8] {
    var digits = text.filter { $0 != 0x2D }.map(lower)
    defer { SecretBytes.wipe(&digits) }
    guard var decoded = Base32.decode(digits), decoded.count == entropy + check else {
      throw .badSecret("it starts with \"ubq1-\" but does not have the form of a generated secret")
    }
    defer { SecretBytes.wipe(&decoded) }
    let random = Array(decoded.prefix(entropy))
    guard Array(decoded.suffix(check)) == checkBytes(random) else {
      throw .badSecret("its checksum is wrong, so it has a typing error")
    }
    return random
  }

  private static func checkBytes(_ random: [UInt8]) -> [UInt8] {
    var hash = SHA256()
    hash.update(data: mark)
    hash.update(data: random)
    return Array(hash.finalize().prefix(check))
  }

  private static func form(_ random: [UInt8]) -> SecretBytes {
    var whole = random + checkBytes(random)
    var digits = Base32.encode(whole)
    defer {
      SecretBytes.wipe(&whole)
      SecretBytes.wipe(&digits)
    }
    return SecretBytes(capacity: mark.count + digits.count * 2) { buffer in
      var count = 0
      func add(_ byte: UInt8) {
        buffer[count] = byte
        count += 1
      }
      for byte in mark { add(byte) }
      for (index, byte) in digits.enumerated() {
        if index > 0, index.isMultiple(of: 5) { add(0x2D) }
        add(byte)
      }
      return count
    }
  }
}

/// RFC 4648 base32 in lower case without padding.
enum Base32 {
  private static let digits = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)

  static func encode(_ bytes: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count * 8 / 5 + 1)
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
    return result
  }

  static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
    var result: [UInt8] = []
    // Grown buffers would leave copies of a secret.
    result.reserveCapacity(text.count)
    var bits: UInt32 = 0
    var count = 0
    for digit in text {
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
