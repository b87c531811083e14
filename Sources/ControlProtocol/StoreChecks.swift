// Checks of what the store of an account holds.

package struct VerifyRequest: Codable, Sendable {
  /// Every byte is to be read.
  package var readsData: Bool
  /// In percent of what would be read.
  package var sample: Double
  /// Names; empty: all that are on the device.
  package var containers: [String]

  package init(readsData: Bool, sample: Double, containers: [String]) {
    self.readsData = readsData
    self.sample = sample
    self.containers = containers
  }
}

/// Source: CONTRACT, `store verify`.
package struct VerifyAnswer: Codable, Sendable {
  /// Objects that the logs reference.
  package var objects: UInt64 = 0
  package var checked: UInt64 = 0
  /// Files and other objects that the store does not have and this device neither. Files by their
  /// paths.
  package var missing: [PathBytes] = []
  /// The same of what is there and is not what it should be.
  package var damaged: [PathBytes] = []
  package var repaired: UInt64 = 0
  /// Files that this device has, and whose upload is not done yet.
  package var pending: UInt64 = 0
  /// Missing and damaged ones beyond those that are listed.
  package var unlisted: UInt64 = 0

  package init() {}

  package var isWell: Bool { missing.isEmpty && damaged.isEmpty && pending == 0 && unlisted == 0 }
}

extension Methods {
  /// Sends `progress` notifications.
  package enum VerifyStore: ControlMethod {
    package typealias Parameters = VerifyRequest
    package typealias Answer = VerifyAnswer
    package static let name = "store.verify"
  }
}
