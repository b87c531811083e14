/// One item of a claim.
package struct ClaimedAccess: Codable, Sendable {
  package var item: ItemReference
  /// `read` or `write`.
  package var intent: String
  /// The options of `NSFileCoordinator` by their names, as `forDeleting` or `withoutChanges`.
  package var options: [String]?

  package init(item: ItemReference, intent: String, options: [String] = []) {
    self.item = item
    self.intent = intent
    self.options = options
  }
}

package struct ClaimRequest: Codable, Sendable {
  /// All of them at once.
  package var accesses: [ClaimedAccess]
  /// Claims with one purpose never wait for each other, whatever connection they are of; nil is for
  /// what has a purpose of its own.
  package var purpose: String?
  /// The presenter that the claimant speaks for: it is not asked.
  package var presenter: UInt64?
  /// Seconds to wait at most; nil is for ever, 0 is not at all.
  package var timeout: Double?
  /// Chosen by the client, by which `claims.cancel` names the claim while it waits.
  package var ticket: UInt64?

  package init(
    accesses: [ClaimedAccess], purpose: String? = nil, presenter: UInt64? = nil,
    timeout: Double? = nil, ticket: UInt64? = nil
  ) {
    self.ticket = ticket
    self.accesses = accesses
    self.purpose = purpose
    self.presenter = presenter
    self.timeout = timeout
  }
}

package struct GivenClaim: Codable, Sendable {
  package var claim: UInt64
  /// Where the items are now, in the order of the request.
  package var paths: [PathBytes]

  package init(claim: UInt64, paths: [PathBytes]) {
    self.claim = claim
    self.paths = paths
  }
}

package struct ReleaseRequest: Codable, Sendable {
  package var claim: UInt64

  package init(claim: UInt64) { self.claim = claim }
}

/// Gives up a claim that waits: its request then fails.
package struct CancelRequest: Codable, Sendable {
  package var ticket: UInt64

  package init(ticket: UInt64) { self.ticket = ticket }
}

/// A presenter is of one item, which need not be there yet; it ends with its connection.
package struct PresentRequest: Codable, Sendable {
  package var item: ItemReference

  package init(item: ItemReference) { self.item = item }
}

package struct PresenterReference: Codable, Sendable {
  package var presenter: UInt64

  package init(presenter: UInt64) { self.presenter = presenter }
}

/// What a presenter is asked; `presenters.answer` says that it has done it.
package struct PresenterAsked: Codable, Sendable {
  package var question: UInt64
  package var presenter: UInt64
  /// `relinquishToReader`, `relinquishToWriter`, `saveChanges`, `accommodateDeletion`,
  /// `accommodateSubitemDeletion` or `accommodateEviction`.
  package var request: String
  /// The item that the claim is of.
  package var path: PathBytes

  package init(question: UInt64, presenter: UInt64, request: String, path: PathBytes) {
    self.question = question
    self.presenter = presenter
    self.request = request
    self.path = path
  }
}

package struct PresenterAnswer: Codable, Sendable {
  package var question: UInt64
  /// Why it could not be done: the claim that waits for the answer then fails.
  package var error: String?

  package init(question: UInt64, error: String? = nil) {
    self.question = question
    self.error = error
  }
}

/// What a presenter is told after it has happened.
package struct PresenterTold: Codable, Sendable {
  package enum Event: String, Codable, Sendable {
    case didMove, didChange, didChangeAttributes
    case didGainVersion, didLoseVersion, didResolveVersion
    case subitemDidAppear, subitemDidMove, subitemDidChange
    case subitemDidGainVersion, subitemDidLoseVersion, subitemDidResolveVersion
  }

  package var presenter: UInt64
  package var event: Event
  /// The item's, or the subitem's; of what was moved where it is now.
  package var path: PathBytes
  /// Of a subitem that was moved where it was.
  package var oldPath: PathBytes?
  /// The version that was gained, lost or resolved.
  package var version: String?

  package init(
    presenter: UInt64, event: Event, path: PathBytes, oldPath: PathBytes? = nil,
    version: String? = nil
  ) {
    self.presenter = presenter
    self.event = event
    self.path = path
    self.oldPath = oldPath
    self.version = version
  }
}
