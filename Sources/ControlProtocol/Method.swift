/// One method of the control socket: its name, what it takes, what it answers.
package protocol ControlMethod {
  associatedtype Parameters: Codable & Sendable
  associatedtype Answer: Codable & Sendable
  static var name: String { get }
}

/// All methods. Unknown members of parameters are ignored, so that a newer client can talk to an
/// older daemon of the same protocol version.
package enum Methods {
  /// First on every connection: are both ends of the same protocol version?
  package enum Hello: ControlMethod {
    package typealias Parameters = Greeting
    package typealias Answer = Greeting
    package static let name = "hello"
  }

  /// The one method that a program of another version calls, too: without a greeting.
  package enum HandOver: ControlMethod {
    package typealias Parameters = HandOverRequest
    package typealias Answer = HandOverAnswer
    package static let name = "daemon.handOver"
  }

  package enum SignIn: ControlMethod {
    package typealias Parameters = SignInRequest
    package typealias Answer = SignInAnswer
    package static let name = "account.signIn"
  }

  package enum SignOut: ControlMethod {
    package typealias Parameters = SignOutRequest
    package typealias Answer = Nothing
    package static let name = "account.signOut"
  }

  package enum AccountStatus: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = AccountReport
    package static let name = "account.status"
  }

  /// With `notifies`, `account.changed` notifications follow as long as the connection lasts.
  package enum AccountIdentity: ControlMethod {
    package typealias Parameters = IdentityRequest
    package typealias Answer = IdentityReport
    package static let name = "account.identity"
  }

  package enum Devices: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = DevicesReport
    package static let name = "account.devices"
  }

  package enum Secret: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = SecretAnswer
    package static let name = "account.secret"
  }

  package enum CreateContainer: ControlMethod {
    package typealias Parameters = ContainerRequest
    package typealias Answer = CreatedContainer
    package static let name = "container.create"
  }

  package enum ListContainers: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = ContainersReport
    package static let name = "container.list"
  }

  package enum DeleteContainer: ControlMethod {
    package typealias Parameters = ContainerRequest
    package typealias Answer = Nothing
    package static let name = "container.delete"
  }

  /// Answers when the mount is usable.
  package enum Mount: ControlMethod {
    package typealias Parameters = MountRequest
    package typealias Answer = MountReport
    package static let name = "mount"
  }

  /// Answers when the mounts are gone; they are unmounted if the connection ends first.
  package enum HoldMounts: ControlMethod {
    package typealias Parameters = HoldRequest
    package typealias Answer = Nothing
    package static let name = "mount.hold"
  }

  package enum Unmount: ControlMethod {
    package typealias Parameters = MountpointRequest
    package typealias Answer = Nothing
    package static let name = "unmount"
  }

  package enum Status: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = StatusReport
    package static let name = "status"
  }

  package enum ItemStatus: ControlMethod {
    package typealias Parameters = ItemsRequest
    package typealias Answer = ItemsReport
    package static let name = "items.status"
  }

  package enum Evict: ControlMethod {
    package typealias Parameters = ItemsRequest
    package typealias Answer = Nothing
    package static let name = "items.evict"
  }

  /// Sends `progress` notifications while it waits.
  package enum Download: ControlMethod {
    package typealias Parameters = DownloadRequest
    package typealias Answer = Nothing
    package static let name = "items.download"
  }

  package enum Pin: ControlMethod {
    package typealias Parameters = PinRequest
    package typealias Answer = Nothing
    package static let name = "items.pin"
  }

  package enum Policy: ControlMethod {
    package typealias Parameters = PolicyRequest
    package typealias Answer = PolicyAnswer
    package static let name = "items.policy"
  }

  /// Sends `progress` notifications while it waits.
  package enum Sync: ControlMethod {
    package typealias Parameters = SyncRequest
    package typealias Answer = Nothing
    package static let name = "sync"
  }

  package enum SetOffline: ControlMethod {
    package typealias Parameters = OfflineRequest
    package typealias Answer = Nothing
    package static let name = "offline"
  }

  package enum SetLimits: ControlMethod {
    package typealias Parameters = LimitRequest
    package typealias Answer = LimitsReport
    package static let name = "limit"
  }

  package enum SetMetered: ControlMethod {
    package typealias Parameters = MeteredRequest
    package typealias Answer = MeteredReport
    package static let name = "metered"
  }

  package enum ListVersions: ControlMethod {
    package typealias Parameters = ItemRequest
    package typealias Answer = VersionsReport
    package static let name = "versions.list"
  }

  /// Sends the content as `data` notifications, in order, before it answers.
  package enum ReadVersion: ControlMethod {
    package typealias Parameters = VersionRequest
    package typealias Answer = Nothing
    package static let name = "versions.read"
  }

  package enum ResolveVersions: ControlMethod {
    package typealias Parameters = ResolveRequest
    package typealias Answer = Nothing
    package static let name = "versions.resolve"
  }

  /// Drops conflict versions, never the current one, on every device.
  package enum RemoveVersions: ControlMethod {
    package typealias Parameters = RemoveVersionsRequest
    package typealias Answer = Nothing
    package static let name = "versions.remove"
  }

  /// Says of conflict versions, on every device, that nobody has to look at them any more, or that
  /// somebody has. They are kept.
  package enum MarkVersions: ControlMethod {
    package typealias Parameters = MarkVersionsRequest
    package typealias Answer = Nothing
    package static let name = "versions.mark"
  }

  /// Items that a message has no room for come before the answer, as `Notifications.trashItems`.
  package enum ListRemoved: ControlMethod {
    package typealias Parameters = ItemsRequest
    package typealias Answer = RemovedReport
    package static let name = "trash.list"
  }

  /// Answers as `ListRemoved`.
  package enum RestoreRemoved: ControlMethod {
    package typealias Parameters = RestoreRequest
    package typealias Answer = RemovedReport
    package static let name = "trash.restore"
  }

  package enum ForgetRemoved: ControlMethod {
    package typealias Parameters = ItemsRequest
    package typealias Answer = Nothing
    package static let name = "trash.empty"
  }

  package enum Quota: ControlMethod {
    package typealias Parameters = QuotaRequest
    package typealias Answer = QuotaReport
    package static let name = "account.quota"
  }

  package enum ListStorage: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = StorageReport
    package static let name = "storage.list"
  }

  package enum ShowStorage: ControlMethod {
    package typealias Parameters = ContainerRequest
    package typealias Answer = ContainerStorage
    package static let name = "storage.show"
  }

  package enum DeleteStorage: ControlMethod {
    package typealias Parameters = StorageDeletionRequest
    package typealias Answer = StorageDeletionReport
    package static let name = "storage.delete"
  }

  /// Answers when the claim is held; it ends with `ReleaseClaim` or with the connection. Further
  /// requests may be made meanwhile.
  package enum Claim: ControlMethod {
    package typealias Parameters = ClaimRequest
    package typealias Answer = GivenClaim
    package static let name = "claims.take"
  }

  package enum ReleaseClaim: ControlMethod {
    package typealias Parameters = ReleaseRequest
    package typealias Answer = Nothing
    package static let name = "claims.release"
  }

  /// Answered whether there is such a claim of this connection or not: it may have been given
  /// meanwhile.
  package enum CancelClaim: ControlMethod {
    package typealias Parameters = CancelRequest
    package typealias Answer = Nothing
    package static let name = "claims.cancel"
  }

  /// From here on the connection gets `presenter.request` and has to answer.
  package enum AddPresenter: ControlMethod {
    package typealias Parameters = PresentRequest
    package typealias Answer = PresenterReference
    package static let name = "presenters.add"
  }

  package enum RemovePresenter: ControlMethod {
    package typealias Parameters = PresenterReference
    package typealias Answer = Nothing
    package static let name = "presenters.remove"
  }

  package enum AnswerPresenter: ControlMethod {
    package typealias Parameters = PresenterAnswer
    package typealias Answer = Nothing
    package static let name = "presenters.answer"
  }

  /// Answers at once; then `event` notifications come until the connection ends.
  package enum SubscribeEvents: ControlMethod {
    package typealias Parameters = EventsRequest
    package typealias Answer = Subscription
    package static let name = "events.subscribe"
  }

  package enum Check: ControlMethod {
    package typealias Parameters = CheckRequest
    package typealias Answer = CheckReport
    package static let name = "fsck"
  }

  package enum Diagnose: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = DiagnosisReport
    package static let name = "doctor"
  }
}

/// What a daemon sends without being asked, while a request is under way; `event` as long as a
/// subscription lasts.
package enum Notifications {
  package static let event = "event"
  package static let progress = "progress"
  package static let data = "data"
  /// A `RemovedReport` with items that come before those of the answer.
  package static let trashItems = "trash.items"
  /// The account was signed in or out: an `IdentityReport`.
  package static let accountChanged = "account.changed"
  package static let presenterRequest = "presenter.request"
  /// Something that has happened to the item, or below it.
  package static let presenterEvent = "presenter.event"
  /// The claim that it let go for is over.
  package static let presenterReacquire = "presenter.reacquire"
  /// It did not answer in time.
  package static let presenterPassedOver = "presenter.passedOver"
}

/// How far long work is. `total` may grow while more is found to do.
package struct Progress: Codable, Equatable, Sendable {
  package var done: UInt64
  package var total: UInt64
  /// `bytes`, `items` or `objects`.
  package var unit: String

  package init(done: UInt64, total: UInt64, unit: String) {
    self.done = done
    self.total = total
    self.unit = unit
  }
}

/// The next bytes of a stream, in base64.
package struct DataPiece: Codable, Sendable {
  package var base64: String

  package init(base64: String) { self.base64 = base64 }
}
