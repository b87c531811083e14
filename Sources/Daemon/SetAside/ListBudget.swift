internal import ControlProtocol

/// How much of its lists an answer has room for. A path may be longer than a message by itself.
struct ListBudget {
  private var failures = 450_000
  private var placeholders = 450_000

  /// Nil: there is no room for it.
  mutating func failure(_ path: [UInt8], _ reason: String) -> UnrestoredItem? {
    Self.take(MessageLength.of(path) + MessageLength.of(reason.utf8), of: &failures)
      ? UnrestoredItem(path: PathBytes(path), reason: reason) : nil
  }

  mutating func placeholder(_ path: [UInt8]) -> PathBytes? {
    Self.take(MessageLength.of(path), of: &placeholders) ? PathBytes(path) : nil
  }

  private static func take(_ length: Int, of budget: inout Int) -> Bool {
    guard length <= budget else { return false }
    budget -= length
    return true
  }
}
