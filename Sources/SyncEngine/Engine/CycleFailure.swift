internal import Backend
internal import Coordination
internal import RemoteStore

/// What ended a cycle before it was done.
enum CycleFailure: Error {
  case remote(RemoteError)
  /// Of this device; the text says what happened.
  case local(String)
  /// Something replaced the catalog's state while compaction or a recovery read it.
  case overtaken
  /// The store is not what this device has read there; the text says what happened and what to do.
  case unsound(String)
  /// A mass deletion waits for the user; the text says what to do.
  case held(String)
  case cancelled
  /// The container was deleted on another device; the text says so.
  case deleted(String)
  /// The store does not take a segment, and shows no other in its place.
  case refused

  /// The message about an object that is not as the account's devices wrote it; nil for any other
  /// failure.
  var damage: String? {
    guard case .remote(let error) = self else { return nil }
    return switch error {
    case .damaged, .newerFormat: error.description
    default: nil
    }
  }

  var asSyncFailure: SyncFailure {
    switch self {
    case .remote(.store(.offline)): .offline
    case .remote(.store(.unreachable(let reason))): .unreachable(reason)
    case .remote(.cancelled), .cancelled: .stopped
    case .remote(.store(.notPermitted(let reason))):
      .notPermitted(StoreError.notPermitted(reason).description)
    case .remote(.removed(let remover)): .removed(RemoteError.removed(by: remover).description)
    case .remote(let error): .failed(error.description)
    case .local(let text), .unsound(let text): .failed(text)
    case .overtaken:
      .failed("this device read a snapshot or compacted the log meanwhile; run the command again")
    case .held(let text): .held(text)
    case .deleted(let text): .deleted(text)
    case .refused:
      .failed(
        "the backend does not keep the log segments that this device stores, and returns no others "
          + "in their place; check it with `ubiquityfs store verify`")
    }
  }
}

extension FetchFailure {
  init(_ error: RemoteError) {
    switch error {
    case .store(.offline): self = .offline
    case .store(.unreachable(let reason)): self = .unreachable(reason)
    case .store(.unavailable), .store(.busy): self = .stalled
    case .store(.notFound): self = .notFound
    case .store(.notPermitted(let reason)): self = .refused(reason)
    case .packMissing: self = .missing(error.description)
    case .cancelled, .store(.cancelled): self = .cancelled
    default: self = .damaged(error.description)
    }
  }
}
