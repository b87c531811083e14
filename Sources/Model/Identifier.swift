/// A 16-byte identity. `Kind` only keeps identities of different things apart at compile time.
///
/// Identities are random (`IdentityRun`: random in part) and never reused, so that devices that do
/// not know of each other can both make items without agreeing first.
package struct Identifier<Kind>: Hashable, Comparable, Sendable, CustomStringConvertible {
  package let high: UInt64
  package let low: UInt64

  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// Makes an identity from exactly 16 bytes, big-endian; nil for any other count.
  package init?(bytes: some Collection<UInt8>) {
    guard bytes.count == 16 else { return nil }
    // What has no fast loop where it is not specialised: records have several of these each.
    let words = bytes.withContiguousStorageIfAvailable { bytes in
      let raw = UnsafeRawBufferPointer(bytes)
      return (
        UInt64(bigEndian: raw.loadUnaligned(as: UInt64.self)),
        UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
      )
    }
    if let words {
      self.init(high: words.0, low: words.1)
      return
    }
    var high: UInt64 = 0
    var low: UInt64 = 0
    for (index, byte) in bytes.enumerated() {
      if index < 8 { high = high << 8 | UInt64(byte) } else { low = low << 8 | UInt64(byte) }
    }
    self.init(high: high, low: low)
  }

  /// Reads 32 hexadecimal digits; nil for anything else.
  package init?(hex: some StringProtocol) {
    let digits = Array(hex.utf8)
    guard digits.count == 32, let bytes = Hex.decode(digits) else { return nil }
    self.init(bytes: bytes)
  }

  package static func random(using generator: inout some RandomNumberGenerator) -> Self {
    Self(high: generator.next(), low: generator.next())
  }

  package static func random() -> Self {
    var generator = SystemRandomNumberGenerator()
    return random(using: &generator)
  }

  package var bytes: [UInt8] {
    withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { [UInt8]($0) }
  }

  /// 32 lower-case hexadecimal digits.
  package var description: String { Hex.encode(bytes) }

  package static func < (left: Self, right: Self) -> Bool {
    (left.high, left.low) < (right.high, right.low)
  }
}

/// Makes identities that sort next to each other when they are made one after another, so that
/// their rows share pages in every table by identity, on every device: items that were made
/// together are listed, uploaded and installed together.
///
/// A run begins at a random place, so devices do not meet, and each identity has 64 random bits of
/// its own, so two identities differ even if their runs overlap.
package struct IdentityRun<Kind>: Sendable {
  /// Content files lie in directories by the first byte: no directory gets more from one run.
  package static var length: Int { 4096 }

  private var high: UInt64 = 0
  private var left = 0

  package init() {}

  package mutating func next(using generator: inout some RandomNumberGenerator) -> Identifier<Kind>
  {
    if left == 0 {
      high = generator.next()
      left = Self.length
    }
    left -= 1
    high &+= 1
    return Identifier(high: high, low: generator.next())
  }

  package mutating func next() -> Identifier<Kind> {
    var generator = SystemRandomNumberGenerator()
    return next(using: &generator)
  }
}

package enum ItemKey {}
package enum DeviceKey {}
package enum VersionKey {}
package enum PackKey {}

/// An item of a container, whatever its name and wherever it is.
package typealias ItemID = Identifier<ItemKey>
/// One installation: one state directory.
package typealias DeviceID = Identifier<DeviceKey>
/// One content that a file had.
package typealias VersionID = Identifier<VersionKey>
/// One object of the backend that holds chunks.
package typealias PackID = Identifier<PackKey>

extension Identifier where Kind == ItemKey {
  /// The container's own directory. Every device knows it without asking.
  package static var root: ItemID { ItemID(high: 0, low: 1) }
  /// `Documents`, the one directory that a new container has.
  package static var documents: ItemID { ItemID(high: 0, low: 2) }
}

/// Lower-case hexadecimal.
package enum Hex {
  package static func encode(_ bytes: some Sequence<UInt8>) -> String {
    let digits = Array("0123456789abcdef".utf8)
    var result: [UInt8] = []
    for byte in bytes {
      result.append(digits[Int(byte >> 4)])
      result.append(digits[Int(byte & 15)])
    }
    return String(decoding: result, as: UTF8.self)
  }

  package static func decode(_ digits: some Collection<UInt8>) -> [UInt8]? {
    guard digits.count.isMultiple(of: 2) else { return nil }
    var result: [UInt8] = []
    result.reserveCapacity(digits.count / 2)
    var pending: UInt8?
    for digit in digits {
      let value: UInt8
      switch digit {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
      case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
      case UInt8(ascii: "A")...UInt8(ascii: "F"): value = digit - UInt8(ascii: "A") + 10
      default: return nil
      }
      if let high = pending {
        result.append(high << 4 | value)
        pending = nil
      } else {
        pending = value
      }
    }
    return result
  }
}
