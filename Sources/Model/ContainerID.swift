/// A ubiquity container's name: `iCloud.com.example.notes` or `TEAMID.com.example.notes`.
///
/// Reverse-DNS: at least two components of letters, digits and `-`, joined by `.`; at most 155
/// bytes; no wildcard. Source: CONTRACT, "Words"; iCloud Design Guide, "Request Access to iCloud
/// Storage By Using Entitlements".
package struct ContainerID: Hashable, Comparable, Sendable, CustomStringConvertible {
  package let description: String

  package struct Invalid: Error, Equatable, Sendable {
    package let reason: String
  }

  package static let maximumLength = 155

  package init(_ text: String) throws(Invalid) {
    guard !text.isEmpty else { throw Invalid(reason: "it is empty") }
    guard text.utf8.count <= Self.maximumLength else {
      throw Invalid(reason: "it is longer than \(Self.maximumLength) bytes")
    }
    guard !text.contains("*") else { throw Invalid(reason: "it has a wildcard") }
    let components = text.split(separator: ".", omittingEmptySubsequences: false)
    guard components.count >= 2 else {
      throw Invalid(reason: "it is not in reverse-DNS form, like \"iCloud.com.example.notes\"")
    }
    for component in components {
      guard !component.isEmpty else { throw Invalid(reason: "it has an empty component") }
      for byte in component.utf8 {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
          continue
        default:
          throw Invalid(reason: "it has a character other than letters, digits, \".\" and \"-\"")
        }
      }
    }
    description = text
  }

  package static func < (left: Self, right: Self) -> Bool { left.description < right.description }
}
