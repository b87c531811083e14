public import Foundation

/// Tells the iCloud account that is signed in from others, and nothing else of it.
///
/// Two tokens are equal exactly if they are of one account, in whatever process and on whatever
/// device. (Apple's differ from device to device: do not send one to another program that expects
/// that.) It is archived with `NSKeyedArchiver`, or encoded as `Codable`, to be compared when the
/// program starts anew.
///
/// Source: iCloud Design Guide, "Prepare Your App to Use iCloud".
public final class UbiquityIdentityToken: NSObject, NSSecureCoding, NSCopying, Codable, Sendable {
  private let identity: String

  init(identity: String) { self.identity = identity }

  // MARK: Comparing

  public override func isEqual(_ object: Any?) -> Bool {
    (object as? UbiquityIdentityToken)?.identity == identity
  }

  public override var hash: Int { identity.hashValue }

  public override var description: String { "UbiquityIdentityToken(\(identity.prefix(8)))" }

  public func copy(with zone: NSZone? = nil) -> Any { self }

  // MARK: Archiving

  private static let key = "identity"

  public static var supportsSecureCoding: Bool { true }

  public func encode(with coder: NSCoder) {
    coder.encode(NSString(string: identity), forKey: Self.key)
  }

  public init?(coder: NSCoder) {
    guard let text = coder.decodeObject(of: NSString.self, forKey: Self.key) else { return nil }
    identity = text.description
  }

  public init(from decoder: any Decoder) throws {
    identity = try decoder.singleValueContainer().decode(String.self)
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(identity)
  }
}
