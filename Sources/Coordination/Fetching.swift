package import Catalog
package import Model
package import Platform
package import SystemPackage

/// Why bytes of a placeholder did not come.
package enum FetchFailure: Error, Hashable, Sendable {
  case offline
  /// The backend is known not to answer, and why: nothing was tried.
  case unreachable(String)
  /// Nothing arrived for the whole time limit.
  case stalled
  /// The device that saved it has announced it and not uploaded it yet. With what its reader gets.
  case unsent(Errno)
  /// What the backend holds fails its check.
  case damaged(String)
  /// Where it was there is nothing; it may have been brought elsewhere.
  case missing(String)
  case noSpace
  /// The store does not accept the device's access keys, or they have no right to read; the text
  /// says which.
  case refused(String)
  case cancelled
  case notFound
  /// The file was removed elsewhere before its device had sent what was in it.
  case neverSent
  /// The container was deleted on another device; the text says so.
  case containerDeleted(String)
  case system(Errno)

  /// What a program that reads gets. Source: CONTRACT, "The mount".
  package var errno: Errno {
    switch self {
    case .offline, .unreachable: Errno.networkDown
    case .stalled: Errno.timedOut
    case .unsent(let errno): errno
    case .damaged, .missing, .notFound, .containerDeleted: Errno.ioError
    case .neverSent: Errno.staleNFSFileHandle
    case .noSpace: Errno.noSpace
    case .refused: Errno.permissionDenied
    case .cancelled: Errno.interrupted
    case .system(let errno): errno
    }
  }
}

extension FetchFailure: CustomStringConvertible {
  package var description: String {
    switch self {
    case .offline: "offline mode is on; turn it off with `ubiquityfs offline off`"
    case .unreachable(let reason): "the backend cannot be reached: \(reason)"
    case .stalled: "the download timed out"
    case .unsent:
      "the device that saved this content has not uploaded it yet; it becomes readable when that "
        + "device is online"
    case .damaged(let reason), .missing(let reason):
      "the content in the backend is damaged: \(reason)"
    case .noSpace: "the local disk is full"
    case .refused(let reason): "the backend refuses the access keys of this device: \(reason)"
    case .cancelled: "the download was cancelled"
    case .notFound: "the backend no longer has the content"
    case .containerDeleted(let text): text
    case .neverSent: "the file was removed before its device uploaded the content"
    case .system(let errno): errno.description
    }
  }
}

/// A request for bytes that can be given up.
package protocol FetchTicket: Sendable {
  /// The completion is called with `.cancelled` unless it was called already.
  func cancel()
}

/// Brings the content of placeholders. The sync engine does it; the composition root injects it,
/// so that the file system does not know the engine.
package protocol ContentFetching: Sendable {
  /// Makes the bytes of `range` of the inode's remote content local. `cause` is for what is told of
  /// it: whether it may be is decided before (`DownloadGate`).
  ///
  /// Returns without waiting. `completion` is called exactly once, on any thread, with no lock of
  /// the caller's or of the engine's held, and never before `fetch` has returned.
  func fetch(
    _ number: InodeNumber, range: Range<UInt64>, cause: DownloadCause,
    completion: @escaping @Sendable (Result<Void, FetchFailure>) -> Void
  ) -> any FetchTicket

  /// Brings the whole content when nothing more urgent is to do. Returns at once; any number of
  /// inodes may be asked for, and only a few are fetched at a time.
  func fetchInBackground(_ number: InodeNumber, cause: DownloadCause)

  /// Gives up every download of the inode that no program waits for.
  func cancelBackgroundFetches(of number: InodeNumber)
}

extension ContentFetching {
  package func fetchInBackground(_ number: InodeNumber, cause: DownloadCause) {
    _ = fetch(number, range: 0..<UInt64.max, cause: cause) { _ in }
  }

  package func cancelBackgroundFetches(of number: InodeNumber) {}
}

/// Brings contents that a file has beside the one that its inode shows. The sync engine does it, as
/// with `ContentFetching`.
package protocol VersionFetching: Sendable {
  /// Writes the whole content of a version into `file`, which is empty.
  ///
  /// Returns without waiting. `completion` is called exactly once, on any thread, with no lock of
  /// the caller's or of the engine's held; perhaps before this has returned.
  func fetch(
    _ version: VersionID, of number: InodeNumber, into file: OpenFile, cause: DownloadCause,
    completion: @escaping @Sendable (Result<Void, FetchFailure>) -> Void
  ) -> any FetchTicket
}

/// What is under way for an item.
package struct TransferState: Hashable, Sendable {
  package var isDownloading: Bool
  package var isUploading: Bool
  /// 0 to 100.
  package var percentUploaded: Int
  package var downloadingError: String?
  package var uploadingError: String?
  /// Why nothing at all is sent.
  package var stoppedBy: String?
  /// The store is not what this device knows, and why: nothing in it counts as uploaded.
  package var storeProblem: String?

  package init(
    isDownloading: Bool = false, isUploading: Bool = false, percentUploaded: Int = 0,
    downloadingError: String? = nil, uploadingError: String? = nil, stoppedBy: String? = nil
  ) {
    self.stoppedBy = stoppedBy
    self.isDownloading = isDownloading
    self.isUploading = isUploading
    self.percentUploaded = percentUploaded
    self.downloadingError = downloadingError
    self.uploadingError = uploadingError
  }
}

/// Tells of transfers without touching the network.
package protocol TransferReporting: Sendable {
  func transfer(of number: InodeNumber) -> TransferState
}

/// What the account may take in its backend, and what of it is left; bytes.
package struct AllottedSpace: Hashable, Sendable {
  package let limit: UInt64
  package let left: UInt64

  package init(limit: UInt64, left: UInt64) {
    self.limit = limit
    self.left = left
  }
}

/// Makes the kernel forget what is no longer so. The mount driver does it.
package protocol KernelInvalidating: Sendable {
  /// Does not wait for the kernel; may be called with no lock held only.
  func invalidate(_ list: [Invalidation])

  /// As `invalidate`. `heard` is called on any thread, with no lock held and perhaps before this
  /// has returned, once the kernel has forgotten it; never when the mount is taken away before.
  func invalidate(_ list: [Invalidation], heard: @escaping @Sendable () -> Void)

  /// Other devices' changes were applied, and `invalidate` was told what they need. Who watches the
  /// mount is to hear of them; as `invalidate`.
  func announce(_ changes: [ItemChange])

  /// Waits until the kernel knows what `invalidate` was told so far; false when it did not within
  /// the time, since it may itself wait for something of ours. Never from a request.
  func waitForInvalidations(milliseconds: Int) -> Bool
}
