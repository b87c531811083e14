internal import ControlProtocol
internal import Coordination
internal import Model
internal import Yams

/// The configuration's `space`.
extension Configuration {
  static func parseSpace(_ node: Node, path: String) throws(ControlError) -> SpaceLimits {
    func wrong(_ what: String) -> ControlError {
      ControlError(.usage, "the configuration file \"\(path)\": \(what)")
    }
    guard let mapping = node.mapping else { throw wrong("`space` has no keys") }
    var result = SpaceLimits()
    for (key, value) in mapping {
      let name = key.string ?? "?"
      guard name == "limit" || name == "minimumFree" else {
        throw wrong("unknown key `space.\(name)`; known are `limit` and `minimumFree`")
      }
      guard let text = value.string, let amount = amount(text) else {
        throw wrong(
          "`space.\(name)` is not an amount; use bytes such as 500MB, 20GB or 1.5TiB, or a share "
            + "of the disk such as 30%")
      }
      if name == "limit" {
        if case .bytes(let bytes) = amount, bytes < Self.leastLimit {
          throw wrong("`space.limit` is less than 1MiB, the minimum")
        }
        result.limit = amount
      } else {
        if case .share(let share) = amount, share >= 1 {
          throw wrong("`space.minimumFree` is not less than the whole disk")
        }
        result.minimumFree = amount
      }
    }
    return result
  }

  private static let leastLimit: UInt64 = 1 << 20

  /// `20GB`, `1.5 TiB`, `268435456`, `30%`. Nil for what is none, is not more than nothing, or is
  /// more than all of a disk.
  static func amount(_ text: String) -> SpaceLimits.Amount? {
    guard text.hasSuffix("%") else {
      return ByteSize(text).flatMap { $0.bytes > 0 ? .bytes($0.bytes) : nil }
    }
    let number = text.dropLast().drop { $0 == " " }
    let digits = number.last == " " ? number.dropLast() : number
    guard let share = Double(digits), share > 0, share <= 100 else { return nil }
    return .share(share / 100)
  }
}
