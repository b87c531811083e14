package import Catalog
package import Model

/// Where an item is, or is to be: a name in a directory. What saves by renaming a new file over the
/// old one changes the inode of a document, not its place.
package struct Place: Hashable, Sendable {
  /// A number for the container, in this process alone.
  package let container: UInt32
  package let directory: InodeNumber
  package let name: ItemName

  package init(_ container: UInt32, _ directory: InodeNumber, _ name: ItemName) {
    self.container = container
    self.directory = directory
    self.name = name
  }
}

/// The places from the top down to an item. The first is the container's own, in no directory.
///
/// Two claims meet when the path of one begins with the path of the other: a claim covers all that
/// is below its item.
package struct ClaimPath: Hashable, Sendable {
  package var places: [Place]

  package init(_ places: [Place]) { self.places = places }

  package func covers(_ other: ClaimPath) -> Bool { other.places.starts(with: places) }

  package func meets(_ other: ClaimPath) -> Bool { covers(other) || other.covers(self) }
}

/// What a reader wants. The values are those of `NSFileCoordinator.ReadingOptions`.
package struct ReadingOptions: OptionSet, Hashable, Sendable {
  package let rawValue: UInt32
  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// Presenters are not asked to save first.
  package static let withoutChanges = Self(rawValue: 1 << 0)
  /// The item that a symbolic link leads to is read, not the link.
  package static let resolvesSymbolicLink = Self(rawValue: 1 << 1)
  /// Names and attributes alone are read: nothing is downloaded, no presenter is asked.
  package static let immediatelyAvailableMetadataOnly = Self(rawValue: 1 << 2)
  /// A copy is read that stays as it is after the claim; a directory is one archive in it.
  package static let forUploading = Self(rawValue: 1 << 3)
}

/// What a writer is about to do. The values are those of `NSFileCoordinator.WritingOptions`.
package struct WritingOptions: OptionSet, Hashable, Sendable {
  package let rawValue: UInt32
  package init(rawValue: UInt32) { self.rawValue = rawValue }

  /// Presenters of the item and of what is below it make room for its end.
  package static let forDeleting = Self(rawValue: 1 << 0)
  package static let forMoving = Self(rawValue: 1 << 1)
  /// Presenters save first, so that what they have is merged and not overwritten.
  package static let forMerging = Self(rawValue: 1 << 2)
  /// Another item takes this one's place: as deletion, and the claim stays with the place when the
  /// item moves away while the claim waits.
  package static let forReplacing = Self(rawValue: 1 << 3)
  /// Attributes that do not depend on the content: presenters need not let go of it.
  package static let contentIndependentMetadataOnly = Self(rawValue: 1 << 4)
  /// The local content goes, the item stays. Not for programs: what evicts uses it.
  package static let forEvicting = Self(rawValue: 1 << 16)

  package var endsItem: Bool { !isDisjoint(with: [.forDeleting, .forReplacing]) }
}

package enum ClaimMode: Hashable, Sendable {
  case reading(ReadingOptions)
  case writing(WritingOptions)

  package var isWriting: Bool {
    switch self {
    case .reading: false
    case .writing: true
    }
  }
}

package struct ClaimAccess: Hashable, Sendable {
  package var path: ClaimPath
  package let mode: ClaimMode

  package init(_ path: ClaimPath, _ mode: ClaimMode) {
    self.path = path
    self.mode = mode
  }

  /// Readers share; all else that meets excludes.
  package func excludes(_ other: ClaimAccess) -> Bool {
    (mode.isWriting || other.mode.isWriting) && path.meets(other.path)
  }
}

/// In the order in which claims were asked for.
package struct ClaimID: Hashable, Comparable, Sendable {
  package let rawValue: UInt64
  package init(_ rawValue: UInt64) { self.rawValue = rawValue }
  package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// A program that claims and presents: a connection of the control socket, the sync engine, a
/// process that has a file of the mount open for writing.
package struct PartyID: Hashable, Comparable, Sendable {
  package let rawValue: UInt64
  package init(_ rawValue: UInt64) { self.rawValue = rawValue }
  package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// Who claims. Claims of one claimant never wait for each other.
package struct ClaimantID: Hashable, Sendable {
  package enum Purpose: Hashable, Sendable {
    /// The party's one task.
    case own
    /// Files that the party has open.
    case open
    /// A task by its name, as `NSFileCoordinator.purposeIdentifier`: whichever parties say it are
    /// one.
    case named(String)
  }

  package let party: PartyID
  package let purpose: Purpose

  package init(_ party: PartyID, _ purpose: Purpose = .own) {
    self.party = party
    self.purpose = purpose
  }

  package static func == (left: Self, right: Self) -> Bool {
    if case .named = left.purpose { return left.purpose == right.purpose }
    return left.purpose == right.purpose && left.party == right.party
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(purpose)
    if case .named = purpose { return }
    hasher.combine(party)
  }
}

package struct PresenterID: Hashable, Comparable, Sendable {
  package let rawValue: UInt64
  package init(_ rawValue: UInt64) { self.rawValue = rawValue }
  package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// What a presenter is asked before a claim is given, in this order, each of all before the next.
package enum PresenterRequest: Hashable, Sendable {
  case relinquishToReader
  case relinquishToWriter
  case saveChanges
  case accommodateDeletion
  case accommodateSubitemDeletion
  case accommodateEviction

  var stage: Int {
    switch self {
    case .relinquishToReader, .relinquishToWriter: 0
    case .saveChanges: 1
    case .accommodateDeletion, .accommodateSubitemDeletion, .accommodateEviction: 2
    }
  }
}

/// A question that is out. `path` is the item that it is about, of a subitem's deletion for one.
package struct Question: Hashable, Sendable {
  package let claim: ClaimID
  package let presenter: PresenterID
  package let request: PresenterRequest
  package let path: ClaimPath
}

/// What follows from a change of the queue, to be done in this order.
package enum ClaimEffect: Hashable, Sendable {
  /// The paths are where the items are now, in the order of the request.
  case granted(ClaimID, [ClaimPath])
  case ask(Question)
  /// The claim that this presenter let go for is over, and no other that it let go for is held.
  case reacquire(PresenterID)
}

/// Waiting would never end: each of `parties` waits for the next, the last for the first.
package struct ClaimDeadlock: Error, Hashable, Sendable {
  package let parties: [ClaimantID]
}
