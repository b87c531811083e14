package import FoundationEssentials

/// JSON that somebody else wrote: another program, another user, or a disk.
package enum BoundedJSON {
  /// Arrays and objects inside each other. Nothing that the project writes has as many as half of
  /// that.
  private static let deepest = 32

  /// `JSONDecoder` goes down the stack for each array and object, and with some hundreds of them
  /// the thread's stack is at its end. So the depth is checked before. Throws `DecodingError`.
  package static func decode<Value: Decodable>(
    _: Value.Type, from bytes: some Collection<UInt8>
  ) throws -> Value {
    guard isShallow(bytes) else {
      throw DecodingError.dataCorrupted(
        DecodingError.Context(codingPath: [], debugDescription: "it is nested too deeply"))
    }
    return try JSONDecoder().decode(Value.self, from: Data(bytes))
  }

  /// Counts brackets outside of strings. What is no JSON may count as deeper or less deep than it
  /// looks, and is refused by the decoder: that goes down for no bracket that is not counted here.
  static func isShallow(_ bytes: some Collection<UInt8>) -> Bool {
    var depth = 0
    var isString = false
    var isEscaped = false
    for byte in bytes {
      if isString {
        if isEscaped {
          isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
          isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
          isString = false
        }
        continue
      }
      switch byte {
      case UInt8(ascii: "\""): isString = true
      case UInt8(ascii: "["), UInt8(ascii: "{"):
        depth += 1
        if depth > deepest { return false }
      case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
      default: break
      }
    }
    return true
  }
}
