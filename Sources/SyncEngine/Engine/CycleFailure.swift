internal import Backend
internal import Coordination
internal import RemoteStore

/// What ended a cycle before it was done.
enum CycleFailure: Error {
  case remote(RemoteError)
  /// Of this device; the text says what happened.
  case local(String)
  /// A mass deletion waits for the user; the text says what to do.
  case held(String)
  case cancelled

  var asSyncFailure: SyncFailure {
    switch self {
    case .remote(.store(.offline)): .offline
    case .remote(.store(.unreachable(let reason))): .unreachable(reason)
    case .remote(.cancelled), .cancelled: .stopped
    case .remote(let error): .failed(error.description)
    case .local(let text): .failed(text)
    case .held(let text): .held(text)
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
    case .packMissing: self = .missing(error.description)
    case .cancelled, .store(.cancelled): self = .cancelled
    default: self = .damaged(error.description)
    }
  }
}
