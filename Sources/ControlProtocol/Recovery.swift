extension Methods {
  /// Makes containers whole whose store went back to an earlier state.
  package enum RecoverStore: ControlMethod {
    package typealias Parameters = RecoverRequest
    package typealias Answer = RecoveryReport
    package static let name = "store.recover"
  }
}

package struct RecoverRequest: Codable, Sendable {
  /// All that need it, if there are none.
  package var containers: [String]

  package init(containers: [String]) { self.containers = containers }
}

package struct RecoveredContainer: Codable, Sendable {
  package var id: String
  /// False: the store held what this device knows, or another device had recovered it.
  package var recovered: Bool
  /// That the container has now.
  package var items: UInt64
  /// Contents that this device uploaded again.
  package var uploaded: Int
  /// Files that are there by name only: no device has uploaded their content so far.
  package var missing: [String]

  package init(id: String, recovered: Bool, items: UInt64, uploaded: Int, missing: [String]) {
    self.id = id
    self.recovered = recovered
    self.items = items
    self.uploaded = uploaded
    self.missing = missing
  }
}

/// A container that could not be looked at or recovered.
package struct FailedRecovery: Codable, Sendable {
  package var id: String
  package var error: String
  /// The exit status of that error.
  package var status: ExitStatus

  package init(id: String, _ error: ControlError) {
    self.id = id
    self.error = error.message
    status = error.status
  }
}

package struct RecoveryReport: Codable, Sendable {
  package var containers: [RecoveredContainer] = []
  /// The others are recovered all the same.
  package var failures: [FailedRecovery] = []
  /// The store lacked the object with which devices sign in, and has it again.
  package var formatRestored = false

  package init() {}
}
