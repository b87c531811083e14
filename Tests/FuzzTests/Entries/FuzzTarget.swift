/// A decoder of bytes that the project did not write, and a property that holds for all bytes.
///
/// `Tests/Fuzz` gives it to libFuzzer, `CorpusTests` runs it on the corpus.
struct FuzzTarget: Sendable {
  let name: String
  /// The most bytes of an input.
  let limit: Int
  /// Inputs made by the project's own encoders.
  let seeds: @Sendable () throws -> [[UInt8]]
  /// Returns if the decoder refuses the input. Throws `BrokenProperty`. Any thread; never blocks.
  let run: @Sendable ([UInt8]) throws -> Void

  init(
    _ name: String, limit: Int = 4096, seeds: @escaping @Sendable () throws -> [[UInt8]],
    run: @escaping @Sendable ([UInt8]) throws -> Void
  ) {
    self.name = name
    self.limit = limit
    self.seeds = seeds
    self.run = run
  }

  static let all =
    recordTargets + memberTargets + sealedTargets + archiveTargets + storeTargets + controlTargets
    + queryTargets
    + configurationTargets + catalogTargets + textTargets

  static func named(_ name: String) -> FuzzTarget? { all.first { $0.name == name } }
}

/// The decoder took the input and answered wrong.
struct BrokenProperty: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}

/// Throws `BrokenProperty` unless `condition` is true.
func expect(_ condition: Bool, _ property: @autoclosure () -> String) throws(BrokenProperty) {
  guard condition else { throw BrokenProperty(property()) }
}

/// A record that was decoded is one that a device may write: encoded it decodes again, to the same
/// bytes. Not to the bytes given: these may have unknown fields, or another order.
func expectRoundTrip<Value>(
  _ bytes: [UInt8], _ decode: ([UInt8]) throws -> Value, _ encode: (Value) -> [UInt8]
) throws {
  guard let value = try? decode(bytes) else { return }
  let encoded = encode(value)
  let again: Value
  do { again = try decode(encoded) } catch {
    throw BrokenProperty("a decoded \(Value.self) cannot be decoded again: \(error)")
  }
  try expect(encode(again) == encoded, "a decoded \(Value.self) has two encodings")
}

/// Cuts an input into a part that chooses and a part that is decoded.
struct InputReader {
  private(set) var rest: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) { rest = bytes[...] }

  /// 0 at the end.
  mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

  mutating func word16() -> Int { Int(byte()) << 8 | Int(byte()) }

  mutating func take(_ count: Int) -> [UInt8] {
    defer { rest = rest.dropFirst(count) }
    return Array(rest.prefix(count))
  }

  mutating func all() -> [UInt8] { take(rest.count) }
}

extension [UInt8] {
  /// Invalid UTF-8 becomes U+FFFD.
  var text: String { String(decoding: self, as: UTF8.self) }

  init(_ text: String) { self = Array(text.utf8) }
}
