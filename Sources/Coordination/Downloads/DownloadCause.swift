package import Catalog

/// A program, as it was when it asked.
package struct Requester: Hashable, Sendable {
  package let process: Int32
  /// As `ps` has it.
  package let name: String
  /// Nil where it may not be seen.
  package let executable: [UInt8]?

  package init(process: Int32, name: String, executable: [UInt8]?) {
    self.process = process
    self.name = name
    self.executable = executable
  }
}

/// Why bytes come from the backend: what `log --downloads` tells.
package struct DownloadCause: Hashable, Sendable {
  package enum Kind: String, Sendable {
    /// A program reads what is not here.
    case read
    /// A program changes a part of it, or its length; the rest has to be here for that.
    case write
    /// A program opens a version below `.ubiquity/versions`.
    case version
    /// A program wrote `user.ubiquity.download`.
    case attribute
    /// `ubiquityfs download` and `versions cat`, and programs that ask as they do.
    case command
    /// A program claims it for reading.
    case claim
    /// It is pinned, or a directory above it is.
    case pin
    /// What is kept local by a directory's policy.
    case policy
    /// The mount brings everything.
    case greedy
    /// Another device changed what is local here.
    case update
    case other
  }

  package var kind: Kind
  package var requester: Requester?
  /// What limited it, or would not have it: as the configuration or the command says it.
  package var rule: String?

  /// Whether somebody asked for this item by name; all else waits while bytes cost money.
  package var isAsked: Bool {
    switch kind {
    case .read, .write, .version, .attribute, .command, .claim: true
    case .pin: requester != nil
    case .policy, .greedy, .update, .other: false
    }
  }

  package init(_ kind: Kind, by requester: Requester? = nil, rule: String? = nil) {
    self.kind = kind
    self.requester = requester
    self.rule = rule
  }
}

/// Hears of downloads. Called with no lock held, on any thread, and does not block it.
package protocol DownloadObserving: Sendable {
  /// Bytes of an inode's content, or of a version of it, have come. Before whoever waits for them
  /// goes on.
  func fetched(_ bytes: UInt64, of number: InodeNumber, for cause: DownloadCause)

  /// They were wanted, and were not asked for because a rule says so.
  func denied(_ number: InodeNumber, for cause: DownloadCause)
}
