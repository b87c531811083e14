internal import Backend
internal import Catalog
package import ControlProtocol
internal import Coordination
internal import Model
internal import MountDriver
internal import RemoteStore
internal import SyncEngine
package import SystemPackage

extension ControlError {
  /// What a command says about an error of a layer below. The one place where this is decided.
  package init(mapping error: any Error) {
    switch error {
    case let error as ControlError: self = error
    case is CancellationError: self.init(.failed, "the operation was cancelled")
    case let error as Errno: self.init(Self.status(of: error), "\(error)")
    case let error as ContainerID.Invalid:
      self.init(.usage, "the container name is not valid: \(error.reason)")
    case let error as StoreError: self.init(Self.status(of: error), error.description)
    case let error as RemoteError:
      let status: ExitStatus =
        switch error {
        case .store(let error): Self.status(of: error)
        case .wrongSecret, .secretChanged, .removed, .notMember: .notPermitted
        case .badSecret: .usage
        case .noAccount: .notFound
        default: .failed
        }
      self.init(status, error.description)
    case let error as FetchFailure:
      let status: ExitStatus =
        switch error {
        case .offline, .unreachable: .offline
        case .stalled, .unsent: .timedOut
        case .notFound, .neverSent, .containerDeleted: .notFound
        case .refused: .notPermitted
        default: .failed
        }
      self.init(status, error.description)
    case let error as SyncFailure:
      let status: ExitStatus =
        switch error {
        case .offline, .unreachable: .offline
        case .timedOut: .timedOut
        case .held: .busy
        case .notPermitted, .removed: .notPermitted
        case .deleted: .notFound
        default: .failed
        }
      self.init(status, error.description)
    case PairingError.remote(let error): self.init(mapping: error)
    case let error as PairingError:
      let status: ExitStatus =
        switch error {
        case .badCode: .usage
        case .noOffer: .notFound
        case .expired: .timedOut
        case .wrongCode, .ended, .refused: .notPermitted
        case .tampered, .remote: .failed
        }
      self.init(status, error.description)
    case let error as VersionFailure:
      switch error {
      case .notFound:
        self.init(.notFound, "there is no such version; see `ubiquityfs versions list`")
      case .offline:
        self.init(.offline, "offline mode is on; turn it off with `ubiquityfs offline off`")
      case .unreachable(let reason):
        self.init(.offline, StoreError.unreachable(reason).description)
      case .isCurrent:
        self.init(
          .usage,
          "the current version cannot be removed; choose another one with "
            + "`ubiquityfs versions resolve --keep`")
      case .conflict(let text): self.init(.busy, text)
      case .failed(let text): self.init(.failed, text)
      }
    case let error as RestoreFailure:
      switch error {
      case .notFound:
        self.init(.notFound, "the trash has no such item; see `ubiquityfs trash list`")
      case .offline:
        self.init(.offline, "offline mode is on; turn it off with `ubiquityfs offline off`")
      case .unreachable(let reason):
        self.init(.offline, StoreError.unreachable(reason).description)
      case .failed(let text): self.init(.failed, text)
      }
    case let error as MountError:
      let status: ExitStatus =
        switch error {
        case .missing, .notMounted: .notFound
        case .notEmpty, .alreadyMounted, .busy, .copied, .bound, .covered: .busy
        case .notPermitted: .notPermitted
        case .notDirectory, .noDevice, .failed: .failed
        }
      self.init(status, error.description)
    case let error as CatalogError: self.init(.failed, error.description)
    default: self.init(.failed, "\(error)")
    }
  }

  package static func status(of error: Errno) -> ExitStatus {
    switch error {
    case .noSuchFileOrDirectory, .notDirectory: .notFound
    case .networkDown: .offline
    case .resourceBusy, .fileExists, .directoryNotEmpty: .busy
    case .permissionDenied, .notPermitted, .readOnlyFileSystem: .notPermitted
    case .timedOut: .timedOut
    case .invalidArgument: .usage
    default: .failed
    }
  }

  private static func status(of error: StoreError) -> ExitStatus {
    switch error {
    case .offline, .unreachable: .offline
    case .notPermitted: .notPermitted
    default: .failed
    }
  }
}
