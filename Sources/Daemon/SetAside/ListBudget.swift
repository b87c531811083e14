internal import ControlProtocol

/// How much of its lists an answer has room for: a message is one line of limited length
/// (`LineBuffer`), and a path may be longer than that by itself.
struct ListBudget {
  private var failures = 450_000
  private var placeholders = 450_000

  /// Nil: there is no room for it.
  mutating func failure(_ path: [UInt8], _ reason: String) -> UnrestoredItem? {
    Self.take(Self.length(path) + Self.length(Array(reason.utf8)), of: &failures)
      ? UnrestoredItem(path: PathBytes(path), reason: reason) : nil
  }

  mutating func placeholder(_ path: [UInt8]) -> PathBytes? {
    Self.take(Self.length(path), of: &placeholders) ? PathBytes(path) : nil
  }

  private static func take(_ length: Int, of budget: inout Int) -> Bool {
    guard length <= budget else { return false }
    budget -= length
    return true
  }

  /// In JSON, at most: a control character is six letters, a path that is no UTF-8 hexadecimal.
  private static func length(_ bytes: [UInt8]) -> Int {
    bytes.reduce(40) { $0 + ($1 < 0x20 ? 6 : 2) }
  }
}
