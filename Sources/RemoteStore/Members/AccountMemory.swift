/// What a device remembers of an account beside the backend, so that the backend cannot show it
/// something older.
///
/// Each part is replaced whole and durable. A part that was lost costs protection and nothing else.
/// Safe from any task; `save` may block.
package protocol AccountMemory: Sendable {
  /// Nil: nothing was saved.
  func load(_ part: AccountMemoryPart) -> [UInt8]?
  func save(_ part: AccountMemoryPart, _ bytes: [UInt8])
}

package enum AccountMemoryPart: String, Sendable, CaseIterable {
  /// The entries of the member log.
  case members
  /// The newest replaceable objects that were seen.
  case records
}

/// Remembers nothing after the process.
package struct NoMemory: AccountMemory {
  package init() {}
  package func load(_: AccountMemoryPart) -> [UInt8]? { nil }
  package func save(_: AccountMemoryPart, _: [UInt8]) {}
}

/// Byte strings one after another, each after its length.
enum ByteList {
  static func encode(_ list: [[UInt8]]) -> [UInt8] {
    list.flatMap { UInt32($0.count).bigEndianBytes + $0 }
  }

  /// Nil for anything else.
  static func decode(_ bytes: [UInt8]) -> [[UInt8]]? {
    var result: [[UInt8]] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      guard rest.count >= 4 else { return nil }
      let count = Int(UInt32(bigEndianBytes: rest.prefix(4)))
      rest = rest.dropFirst(4)
      guard count <= rest.count else { return nil }
      result.append(Array(rest.prefix(count)))
      rest = rest.dropFirst(count)
    }
    return result
  }
}
