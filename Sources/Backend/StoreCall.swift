/// What a call asks for, as far as decorators treat calls by it.
package struct StoreCall: Sendable {
  package enum Kind: Sendable {
    case get, put, list, delete
  }

  package let kind: Kind
  /// Of a list, its prefix.
  package let key: String
  /// Bytes that it sends.
  package let sends: Int
  /// Bytes that it is to bring; nil where the range is a bound and no measure, as of all but packs.
  package let brings: Int?

  init(_ kind: Kind, _ key: String, sends: Int = 0, range: Range<UInt64>? = nil) {
    self.kind = kind
    self.key = key
    self.sends = sends
    brings = StoreKey.isPack(key) ? range.map { Int(clamping: $0.count) } : nil
  }

  /// Whether it moves content, of which there may be much.
  package var isBulk: Bool { (kind == .get || kind == .put) && StoreKey.isPack(key) }
}

/// Whether somebody waits for the bytes that a task's calls bring.
package enum Transfers {
  /// A program reads, and does nothing else until it has them: such calls go before all others.
  @TaskLocal package static var isAwaited = false
  /// Learns when a call has its turn, for a caller that may give it up before that.
  @TaskLocal package static var start: TransferStart?
}

extension StoreKey {
  private static let containers = "containers/"

  /// `containers/X/`, of the keys of a container.
  package static func container(of key: String) -> Substring? {
    guard key.hasPrefix(containers),
      let end = key.dropFirst(containers.count).firstIndex(of: "/")
    else { return nil }
    return key[...end]
  }

  private static let log = "/log/"

  /// Whether a key below `prefix` may be news. In the log of a container only segments are: a
  /// foreign file there may stand behind all of them, and would hide each that comes.
  static func mayBeNews(_ key: String, under prefix: String) -> Bool {
    guard prefix.hasPrefix(containers), prefix.hasSuffix(log), key.hasPrefix(prefix) else {
      return true
    }
    let name = key.dropFirst(prefix.count).utf8
    return name.count == 20 && name.allSatisfy { (48...57).contains($0) }
  }

  /// Packs hold content; all else is small, or rare.
  package static func isPack(_ key: String) -> Bool {
    guard let container = container(of: key) else { return false }
    return key[container.endIndex...].hasPrefix("packs/")
  }
}
