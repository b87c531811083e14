internal import ControlProtocol
internal import Yams

/// What the configuration has under `network`.
package struct NetworkConfiguration: Equatable, Sendable {
  package var uploadLimit: ByteRate?
  package var downloadLimit: ByteRate?
  package var metered = MeteredMode.auto

  package init() {}

  /// `wrong` makes the error of a text.
  mutating func read(_ node: Node, _ wrong: (String) -> ControlError) throws(ControlError) {
    guard let mapping = node.mapping else { throw wrong("`network` has no keys") }
    for (key, value) in mapping {
      let name = key.string ?? "?"
      switch name {
      case "uploadLimit", "downloadLimit":
        guard let choice = value.string.flatMap(RateChoice.init) else {
          throw wrong("`network.\(name)` is not a limit; \(RateChoice.help)")
        }
        let rate: ByteRate? = if case .limit(let rate) = choice { rate } else { nil }
        if name == "uploadLimit" { uploadLimit = rate } else { downloadLimit = rate }
      case "metered":
        guard let mode = value.string.flatMap(MeteredMode.init(text:)) else {
          throw wrong("`network.metered` is not one of yes, no and auto")
        }
        metered = mode
      default:
        throw wrong(
          "unknown key `network.\(name)`; known are `uploadLimit`, `downloadLimit` and `metered`")
      }
    }
  }
}
