internal import Model

/// Kinds have no values.
enum PairingKind {}

/// Names an offer to pair, or one request for it.
typealias PairingID = Identifier<PairingKind>

/// The objects of a request, in the order in which they come.
enum PairingStep: String, CaseIterable {
  /// Of the new device: its keys, sealed under the code.
  case request
  /// Of the device that is signed in: the code was right.
  case seen
  /// Of the device that is signed in: the account, sealed for the new device.
  case grant
  /// Of the device that is signed in, instead of these: the request was refused.
  case refusal

  /// Whether it is what stands below an offer's own directory.
  static func isName(_ text: some StringProtocol) -> Bool {
    if text == "offer" { return true }
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    guard parts.count == 2, PairingStep(rawValue: String(parts[1])) != nil else { return false }
    return parts[0].utf8.count == 32 && parts[0].allSatisfy { $0.isHexDigit && !$0.isUppercase }
  }
}
