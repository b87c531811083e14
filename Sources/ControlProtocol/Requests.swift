package struct Greeting: Codable, Sendable {
  package var protocolVersion: Int
  package var version: String
  package var pid: Int32

  package init(protocolVersion: Int, version: String, pid: Int32) {
    self.protocolVersion = protocolVersion
    self.version = version
    self.pid = pid
  }
}

/// Of a program that takes over from the daemon.
package struct HandOverRequest: Codable, Sendable {
  /// The version of the record of a mount that it reads.
  package var record: UInt64
  package var version: String
  /// Also from a daemon that somebody started, and not only from one that came in the place of one
  /// that died.
  package var isForced: Bool

  package init(record: UInt64, version: String, isForced: Bool) {
    self.record = record
    self.version = version
    self.isForced = isForced
  }
}

/// What follows on the connection are messages with descriptors; see `Succession` in Platform.
package struct HandOverAnswer: Codable, Sendable {
  package var pid: Int32

  package init(pid: Int32) { self.pid = pid }
}

package struct SignInRequest: Codable, Sendable {
  /// A URL; nil for the directory `ubiquityfs-cloud` beside the state directory.
  package var backend: String?
  /// Nil for the host's name.
  package var deviceName: String?
  /// A passphrase, or what `account secret` printed; nil to make an account or to use the key
  /// that this machine keeps beside a directory backend.
  package var secret: String?
  /// The caller's variables that the backend uses, such as access keys and the proxy. The daemon
  /// may have been started with others.
  package var environment: [String: String]?

  package init(
    backend: String?, deviceName: String?, secret: String?, environment: [String: String]? = nil
  ) {
    self.backend = backend
    self.deviceName = deviceName
    self.secret = secret
    self.environment = environment
  }
}

package struct SignInAnswer: Codable, Sendable {
  package var backend: String
  package var device: String
  package var deviceIdentifier: String
  /// The backend held no account, and now holds this one.
  package var isNewAccount: Bool
  /// It was signed in there before; nothing was done.
  package var wasSignedIn: Bool
  /// What the user should know of the backend; a sentence without its full stop.
  package var warning: String?
  /// The file beside the backend's directory that has the secret, where there is one.
  package var secretFile: String?

  package init(
    backend: String, device: String, deviceIdentifier: String, isNewAccount: Bool,
    wasSignedIn: Bool
  ) {
    self.backend = backend
    self.device = device
    self.deviceIdentifier = deviceIdentifier
    self.isNewAccount = isNewAccount
    self.wasSignedIn = wasSignedIn
  }
}

package struct SignOutRequest: Codable, Sendable {
  /// Unmount first, and leave what is not uploaded in the state directory for the next sign-in.
  package var force: Bool

  package init(force: Bool) { self.force = force }
}

package struct IdentityRequest: Codable, Sendable {
  /// Tell of changes from now on.
  package var notifies: Bool?

  package init(notifies: Bool? = nil) { self.notifies = notifies }
}

/// Which account is signed in.
package struct IdentityReport: Codable, Equatable, Sendable {
  /// The same on all devices of the account; nil while nobody is signed in.
  package var identity: String?

  package init(identity: String?) { self.identity = identity }

  /// Where the state directory has it, for who does not want to ask.
  package static let fileName = "identity"
}

package struct SecretAnswer: Codable, Sendable {
  package var secret: String

  package init(secret: String) { self.secret = secret }
}

package struct ContainerRequest: Codable, Sendable {
  package var id: String

  package init(id: String) { self.id = id }
}

package struct MountRequest: Codable, Sendable {
  package var container: String
  /// Absolute.
  package var mountpoint: PathBytes
  /// As after `-o`, one each.
  package var options: [String]
  /// Make a directory that is missing, as `mount --all` does.
  package var makesDirectory: Bool

  package init(
    container: String, mountpoint: PathBytes, options: [String], makesDirectory: Bool = false
  ) {
    self.container = container
    self.mountpoint = mountpoint
    self.options = options
    self.makesDirectory = makesDirectory
  }
}

package struct MountpointRequest: Codable, Sendable {
  package var mountpoint: PathBytes

  package init(mountpoint: PathBytes) { self.mountpoint = mountpoint }
}

package struct HoldRequest: Codable, Sendable {
  package var mountpoints: [PathBytes]

  package init(mountpoints: [PathBytes]) { self.mountpoints = mountpoints }
}

package struct ItemRequest: Codable, Sendable {
  package var item: ItemReference
  /// `versions.list`: a person sees the list, and a later `versions.resolve` means it.
  package var isShown: Bool?

  package init(item: ItemReference, isShown: Bool? = nil) {
    self.item = item
    self.isShown = isShown
  }
}

package struct ItemsRequest: Codable, Sendable {
  package var items: [ItemReference]

  package init(items: [ItemReference]) { self.items = items }
}

package struct DownloadRequest: Codable, Sendable {
  package var items: [ItemReference]
  package var waits: Bool

  package init(items: [ItemReference], waits: Bool) {
    self.items = items
    self.waits = waits
  }
}

package struct PinRequest: Codable, Sendable {
  package var items: [ItemReference]
  package var pinned: Bool

  package init(items: [ItemReference], pinned: Bool) {
    self.items = items
    self.pinned = pinned
  }
}

package enum DeletionsDecision: String, Codable, Sendable {
  /// What is gone here goes everywhere.
  case confirm
  /// What is gone here comes back.
  case restore
}

package struct SyncRequest: Codable, Sendable {
  /// Only the containers of these; all of them if there are none.
  package var items: [ItemReference]
  package var waits: Bool
  /// Seconds; nil to wait for as long as it takes.
  package var timeout: Double?
  /// What the user says about deletions that wait for it; nil: nothing.
  package var deletions: DeletionsDecision?

  package init(
    items: [ItemReference], waits: Bool, timeout: Double?, deletions: DeletionsDecision? = nil
  ) {
    self.items = items
    self.waits = waits
    self.timeout = timeout
    self.deletions = deletions
  }
}

package struct OfflineRequest: Codable, Sendable {
  package var offline: Bool

  package init(offline: Bool) { self.offline = offline }
}

package struct VersionRequest: Codable, Sendable {
  package var item: ItemReference
  package var version: String

  package init(item: ItemReference, version: String) {
    self.item = item
    self.version = version
  }
}

package struct ResolveRequest: Codable, Sendable {
  package var item: ItemReference
  package var keep: [String]
  /// The current version that is meant. Nil: the one that was shown last.
  package var current: String?

  package init(item: ItemReference, keep: [String], current: String? = nil) {
    self.item = item
    self.keep = keep
    self.current = current
  }
}

package struct RemoveVersionsRequest: Codable, Sendable {
  package var item: ItemReference
  package var versions: [String]

  package init(item: ItemReference, versions: [String]) {
    self.item = item
    self.versions = versions
  }
}

package struct MarkVersionsRequest: Codable, Sendable {
  package var item: ItemReference
  package var versions: [String]
  package var resolved: Bool

  package init(item: ItemReference, versions: [String], resolved: Bool) {
    self.item = item
    self.versions = versions
    self.resolved = resolved
  }
}

package struct RestoreRequest: Codable, Sendable {
  /// As `trash.list` names them.
  package var identifiers: [String]
  /// Where they were. Of several that were at one place the one that was removed last.
  package var items: [ItemReference]

  package init(identifiers: [String], items: [ItemReference]) {
    self.identifiers = identifiers
    self.items = items
  }
}

package struct EventsRequest: Codable, Sendable {
  /// Only what is at or below it; nil for everything in every mount.
  package var item: ItemReference?

  package init(item: ItemReference?) { self.item = item }
}

package struct CheckRequest: Codable, Sendable {
  package var repair: Bool

  package init(repair: Bool) { self.repair = repair }
}
