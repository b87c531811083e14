package import Catalog
package import Coordination
internal import Model

/// Whether content comes when it is opened or as soon as it is known. Source: CONTRACT, mount
/// option `policy`.
package enum ContentPolicy: String, Sendable, CaseIterable {
  case onDemand = "ondemand"
  case greedy
}

/// From how many items on they are no longer planned all together, and how many are taken at once
/// then.
package struct ManyItems: Sendable {
  /// That are new from elsewhere.
  package var arrivals = 2_000
  /// Of these so many are made in one transaction: requests of the kernel wait for it.
  package var arrivalPart = 400
  /// Items that were changed here. A plan takes some kilobytes for each item. A dictionary of 8,192
  /// places has room for 6,144 items, and one of 4,096 places for 3,072.
  package var departures = 6_000
  package var departurePart = 3_000

  package init() {}
}

package struct SyncSettings: Sendable {
  /// How long nothing must change before changes go up, when programs have been at it for that
  /// long.
  package var debounce: Duration
  /// The same after the first change: a single save goes up at once.
  package var firstDebounce: Duration = .milliseconds(25)
  /// How long changes that never pause wait at most.
  package var longestWait: Duration
  /// How long nothing must change in a package before it goes up; `sync` does not wait for it.
  package var packageQuiet: Duration
  /// How long a package that never pauses waits at most; while a file of it is open for writing it
  /// waits all the same.
  package var longestPackageWait: Duration
  /// How often the log is looked at when nothing tells of news.
  package var poll: Duration
  /// How many times as long it is while bytes cost money.
  package var meteredPolls = 6
  /// How much is removed from other devices without asking.
  package var deletions: DeletionGuard

  /// A newer content of a local file that is longer is downloaded beside the cycles: nothing waits
  /// for it but its file.
  package var longReplacement: UInt64 = 8 << 20

  /// How long nothing must have written to a file that a program keeps open before it is uploaded
  /// as it is; nil: never.
  package var snapshotQuiet: Duration? = .seconds(300)

  /// How long a download waits for one answer of the backend.
  package var answerLimit: Duration = .seconds(60)

  /// How many days what was removed can be brought back.
  package var keepRemovedDays: Int
  /// When the log is compacted.
  package var compaction: CompactionPolicy
  package var manyItems = ManyItems()
  /// How often devices tell each other how far they have read, while something happens.
  package var headExchange: Duration = .seconds(900)
  /// How long a reader waits for content that its device has not uploaded.
  package var unsent = UnsentContent()

  package init(
    debounce: Duration = .milliseconds(400), longestWait: Duration = .seconds(3),
    packageQuiet: Duration = .seconds(2), longestPackageWait: Duration = .seconds(60),
    poll: Duration = .seconds(20), deletions: DeletionGuard = DeletionGuard(),
    keepRemovedDays: Int = 30, compaction: CompactionPolicy = CompactionPolicy()
  ) {
    self.debounce = debounce
    self.longestWait = longestWait
    self.packageQuiet = packageQuiet
    self.longestPackageWait = longestPackageWait
    self.poll = poll
    self.deletions = deletions
    self.keepRemovedDays = keepRemovedDays
    self.compaction = compaction
  }
}

/// Content of one file on its way.
package struct Transfer: Sendable, Hashable {
  package let number: InodeNumber
  package let isUpload: Bool
  /// Bytes; `total` is 0 while it is not known.
  package let done: UInt64
  package let total: UInt64
}

/// A changed file whose content is not uploaded since programs have it open for writing.
package struct OpenFileWait: Sendable, Hashable {
  package let number: InodeNumber
  /// From the container's top.
  package let path: String
  package let programs: [OpeningProgram]
  /// Why there is no snapshot of it, if something is wrong.
  package var reason: String?

  /// For messages.
  package var text: String {
    let names = programs.map { "\($0.name) (process \($0.process))" }.joined(separator: ", ")
    let why = reason.map { " (\($0))" } ?? ""
    return "\"\(path)\", open for writing by \(names.isEmpty ? "a program" : names)\(why)"
  }
}

/// What a container's synchronisation is doing.
package struct SyncStatus: Sendable, Hashable {
  package var pendingUploads: Int
  package var pendingDownloads: Int
  package var conflicts: Int
  package var errors: [String]
  /// Under way now, in the order of their numbers.
  package var transfers: [Transfer]
  /// Changed files that wait for programs to close them; of many the first.
  package var openFiles: [OpenFileWait]

  package init(
    pendingUploads: Int, pendingDownloads: Int, conflicts: Int, errors: [String],
    transfers: [Transfer], openFiles: [OpenFileWait] = []
  ) {
    self.openFiles = openFiles
    self.pendingUploads = pendingUploads
    self.pendingDownloads = pendingDownloads
    self.conflicts = conflicts
    self.errors = errors
    self.transfers = transfers
  }
}

package enum SyncFailure: Error, Sendable, Hashable, CustomStringConvertible {
  case offline
  /// The backend is known not to answer, and why: nothing was tried.
  case unreachable(String)
  case timedOut(String)
  /// The backend or the local disk; the text says what happened and what to do.
  case failed(String)
  /// The backend does not take this account's keys; the text says what it answered.
  case notPermitted(String)
  /// The user is to decide about a mass deletion; the text says how.
  case held(String)
  /// The container was deleted on another device; the text says so.
  case deleted(String)
  /// This device was removed from the account; the text says so, and what to do.
  case removed(String)
  case stopped

  /// It is said elsewhere, once, and ends by itself or by the user.
  var isOfTheNetwork: Bool {
    switch self {
    case .offline, .unreachable: true
    default: false
    }
  }

  package var description: String {
    switch self {
    case .offline: "offline mode is on; turn it off with `ubiquityfs offline off`"
    case .unreachable(let reason): "the backend cannot be reached: \(reason)"
    case .timedOut(let what): "timed out: \(what)"
    case .failed(let text), .notPermitted(let text), .held(let text), .deleted(let text),
      .removed(let text):
      text
    case .stopped: "the container is being closed"
    }
  }
}
