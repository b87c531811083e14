@preconcurrency internal import Crypto

/// What a user copies from a device that is signed in to a new one: 80 random bits as 16 characters
/// and one that tells typing errors, in groups of four.
///
/// The characters are Crockford's base32: no I, L, O and U. Case, dashes and spaces do not matter,
/// and I and L count as 1, O as 0.
package struct PairingCode: Equatable, Sendable, CustomStringConvertible {
  /// 16 of 5 bits.
  private let digits: [UInt8]

  private static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)
  private static let length = 16

  /// A new code.
  package init() {
    var generator = SystemRandomNumberGenerator()
    digits = (0..<Self.length).map { _ in UInt8.random(in: 0..<32, using: &generator) }
  }

  /// A code that somebody typed. Fails with `.badCode` for one that has a typing error.
  package init(_ text: String) throws(PairingError) {
    var values: [UInt8] = []
    for character in text.uppercased() where character != "-" && !character.isWhitespace {
      let read: Character =
        switch character {
        case "I", "L": "1"
        case "O": "0"
        default: character
        }
      guard let byte = read.asciiValue, let value = Self.alphabet.firstIndex(of: byte) else {
        throw .badCode("the character \"\(character)\" is not allowed in a code")
      }
      values.append(UInt8(value))
    }
    guard values.count == Self.length + 1 else {
      throw .badCode("it has \(values.count) characters instead of 17")
    }
    let check = values.removeLast()
    guard check == Self.check(values) else { throw .badCode("it has a typing error") }
    digits = values
  }

  /// In groups of four; the last character is the check.
  package var description: String {
    let all = (digits + [Self.check(digits)]).map { Self.alphabet[Int($0)] }
    return stride(from: 0, to: all.count, by: 4).map { start in
      String(decoding: all[start..<min(start + 4, all.count)], as: UTF8.self)
    }.joined(separator: "-")
  }

  /// The sum of the digits, each times another power of 2 in the field of 32 elements. It changes
  /// with every single wrong digit and whenever two digits change places.
  private static func check(_ digits: [UInt8]) -> UInt8 {
    func doubled(_ value: UInt8) -> UInt8 {
      let next = value << 1
      // x^5 + x^2 + 1.
      return next & 0x20 == 0 ? next : (next ^ 0x25) & 0x1F
    }
    return digits.reduce(0) { doubled($0 ^ $1) }
  }

  /// The key that both devices have and nobody else. 80 random bits cannot be guessed, not even by
  /// a store that keeps every message.
  var key: SymmetricKey {
    HKDF<SHA256>.deriveKey(
      inputKeyMaterial: SymmetricKey(data: digits), salt: [UInt8](),
      info: Array("ubiquityfs/v1/pairing".utf8), outputByteCount: 32)
  }
}

/// Why two devices were not paired.
package enum PairingError: Error, Equatable, Sendable, CustomStringConvertible {
  /// The text is no code; the reason says why. Nothing was sent.
  case badCode(String)
  case noOffer(String)
  /// The code was another one; so many further tries are left.
  case wrongCode(left: Int)
  case expired
  /// The code was used, or wrong codes were tried too often.
  case ended
  /// The user of the other device said no.
  case refused
  /// A message is not what the other device sent.
  case tampered
  case remote(RemoteError)

  package var description: String {
    switch self {
    case .badCode(let reason):
      "the pairing code is not valid: \(reason); type it as `ubiquityfs account pair` shows it"
    case .noOffer(let place):
      "no device offers to pair at \"\(place)\"; run `ubiquityfs account pair` on a device that is "
        + "signed in, and use the code within ten minutes"
    case .wrongCode(let left):
      left > 0
        ? "the pairing code is wrong; \(left) \(left == 1 ? "try is" : "tries are") left. Compare "
          + "it with the code that the other device shows"
        : "the pairing code is wrong and was tried too often; run `ubiquityfs account pair` again"
    case .expired: "the pairing code has expired; run `ubiquityfs account pair` again"
    case .ended:
      "the pairing code was used already or tried too often; run `ubiquityfs account pair` again"
    case .refused: "the user of the other device refused the pairing; nothing was handed over"
    case .tampered:
      "a pairing message in the backend differs from the one that the other device sent, so "
        + "nothing was handed over. A person with access to the backend may have changed it. Pair "
        + "again, or sign in with the secret"
    case .remote(let error): error.description
    }
  }
}
