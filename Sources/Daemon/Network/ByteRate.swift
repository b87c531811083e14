internal import Model

/// Bytes in a second, as people write them: `2MB/s`, `500K`, `1.5MiB/s`. Sizes are those of
/// `ByteSize`.
package struct ByteRate: Equatable, Sendable {
  package let bytes: UInt64

  package static let least: UInt64 = 1000
  private static let most = 1e12
  package init(bytes: UInt64) { self.bytes = bytes }

  /// Nil for what is no rate, or is less than a kilobyte.
  package init?(_ text: String) {
    let size = text.lowercased().hasSuffix("/s") ? text.dropLast(2) : text[...]
    guard let bytes = ByteSize(String(size))?.bytes, bytes >= Self.least,
      Double(bytes) <= Self.most
    else { return nil }
    self.bytes = bytes
  }
}

/// What is said of one way: a limit, or that there is none.
package enum RateChoice: Equatable, Sendable {
  case limit(ByteRate)
  case off

  package init?(_ text: String) {
    if text == "off" {
      self = .off
    } else if let rate = ByteRate(text) {
      self = .limit(rate)
    } else {
      return nil
    }
  }

  package var rate: UInt64? {
    switch self {
    case .limit(let rate): rate.bytes
    case .off: nil
    }
  }

  /// As it is stored: exact.
  var stored: String { rate.map { "\($0)" } ?? "off" }

  package static let help =
    "use a rate of at least 1KB/s, such as 500KB/s, 2MB/s or 1.5MiB/s, or `off`"
}

/// Whether bytes cost money.
package enum MeteredMode: String, Sendable, CaseIterable {
  case yes
  case no
  /// As the network that is the way out says, as far as that can be told.
  case auto

  /// `on` and `off`, `yes` and `no`, as YAML and people have them.
  package init?(text: String) {
    switch text.lowercased() {
    case "yes", "on", "true": self = .yes
    case "no", "off", "false": self = .no
    case "auto": self = .auto
    default: return nil
    }
  }
}
