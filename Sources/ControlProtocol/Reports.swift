package import Model

// The answers whose members the contract names: `--json` prints them as they are here.

package struct DaemonReport: Codable, Sendable {
  package var pid: Int32
  package var version: String

  package init(pid: Int32, version: String) {
    self.pid = pid
    self.version = version
  }
}

package struct AccountReport: Codable, Sendable {
  package var signedIn: Bool
  package var backend: String?
  package var device: String?
  package var deviceIdentifier: String?
  /// Whether the backend has been reached since the daemon started.
  package var connected: Bool?
  /// Why it has not.
  package var error: String?
  /// Another device removed this one from the account.
  package var removed: Bool?

  package init(
    signedIn: Bool, backend: String? = nil, device: String? = nil,
    deviceIdentifier: String? = nil, connected: Bool? = nil, error: String? = nil,
    removed: Bool? = nil
  ) {
    self.removed = removed
    self.signedIn = signedIn
    self.backend = backend
    self.device = device
    self.deviceIdentifier = deviceIdentifier
    self.connected = connected
    self.error = error
  }
}

/// How local files of a mount are read and written.
package struct IOReport: Codable, Sendable, Equatable {
  package enum Mode: String, Codable, Sendable {
    /// By the kernel itself.
    case passthrough
    /// Through the daemon.
    case daemon
  }

  package var mode: Mode
  /// Why it is not passthrough.
  package var reason: String?

  package init(mode: Mode, reason: String?) {
    self.mode = mode
    self.reason = reason
  }
}

package struct MountReport: Codable, Sendable {
  package var container: String
  package var mountpoint: String
  /// Whether the kernel reads and writes local content files by itself.
  package var passthrough: Bool
  package var passthroughReason: String?
  package var io: IOReport
  /// What the user is to be told of this mount, once.
  package var notice: String?

  package init(container: String, mountpoint: String, io: IOReport) {
    self.container = container
    self.mountpoint = mountpoint
    self.io = io
    passthrough = io.mode == .passthrough
    passthroughReason = io.reason
  }
}

/// Content of one file on its way.
package struct TransferReport: Codable, Sendable {
  /// From the container's own directory.
  package var path: PathBytes
  /// `upload` or `download`.
  package var direction: String
  package var bytesDone: UInt64
  /// 0 while it is not known.
  package var bytesTotal: UInt64

  package init(path: PathBytes, direction: String, bytesDone: UInt64, bytesTotal: UInt64) {
    self.path = path
    self.direction = direction
    self.bytesDone = bytesDone
    self.bytesTotal = bytesTotal
  }
}

/// A changed file that sync waits for, since programs have it open for writing.
package struct OpenFileReport: Codable, Sendable, Hashable {
  package struct Program: Codable, Sendable, Hashable {
    package var pid: Int32
    package var name: String

    package init(pid: Int32, name: String) {
      self.pid = pid
      self.name = name
    }
  }

  package var path: PathBytes
  /// Those that opened it, as far as they can be seen.
  package var programs: [Program]
  /// Why it cannot be uploaded while it is open, if something is wrong.
  package var reason: String?

  package init(path: PathBytes, programs: [Program], reason: String? = nil) {
    self.reason = reason
    self.path = path
    self.programs = programs
  }
}

package struct ContainerReport: Codable, Sendable {
  package var id: String
  package var items: UInt64
  package var localBytes: UInt64
  package var totalBytes: UInt64
  package var pendingUploads: Int
  package var pendingDownloads: Int
  package var conflicts: Int
  package var errors: [String]
  /// `rolledBack`, for one; nil while the store is what this device knows.
  package var store: String?
  /// Under way now; of many the first.
  package var transfers: [TransferReport]
  /// Of many the first.
  package var openFiles: [OpenFileReport]
  /// What it took of the whole traffic.
  package var traffic: TrafficReport?

  package init(
    id: String, items: UInt64, localBytes: UInt64, totalBytes: UInt64, pendingUploads: Int,
    pendingDownloads: Int, conflicts: Int, errors: [String], store: String? = nil,
    transfers: [TransferReport] = [], openFiles: [OpenFileReport] = [],
    traffic: TrafficReport? = nil
  ) {
    self.store = store
    self.openFiles = openFiles
    self.traffic = traffic
    self.id = id
    self.items = items
    self.localBytes = localBytes
    self.totalBytes = totalBytes
    self.pendingUploads = pendingUploads
    self.pendingDownloads = pendingDownloads
    self.conflicts = conflicts
    self.errors = errors
    self.transfers = transfers
  }
}

/// What went over to the backend and came from it since the daemon started.
package struct TrafficReport: Codable, Sendable {
  package struct Requests: Codable, Sendable {
    package var get: UInt64
    package var put: UInt64
    package var list: UInt64
    package var delete: UInt64

    package init(get: UInt64, put: UInt64, list: UInt64, delete: UInt64) {
      self.get = get
      self.put = put
      self.list = list
      self.delete = delete
    }
  }

  package var bytesUploaded: UInt64
  package var bytesDownloaded: UInt64
  package var requests: Requests
  /// Those of the requests that were made again, since they had failed.
  package var retries: UInt64

  package init(
    bytesUploaded: UInt64, bytesDownloaded: UInt64, requests: Requests, retries: UInt64 = 0
  ) {
    self.bytesUploaded = bytesUploaded
    self.bytesDownloaded = bytesDownloaded
    self.requests = requests
    self.retries = retries
  }
}

package struct StatusReport: Codable, Sendable {
  package var daemon: DaemonReport
  package var account: AccountReport
  package var offline: Bool
  package var network: NetworkReport?
  package var mounts: [MountReport]
  package var containers: [ContainerReport]
  package var traffic: TrafficReport
  /// Nil while nobody is signed in.
  package var space: SpaceReport?

  package init(
    daemon: DaemonReport, account: AccountReport, offline: Bool, mounts: [MountReport],
    containers: [ContainerReport], traffic: TrafficReport, space: SpaceReport? = nil,
    network: NetworkReport? = nil
  ) {
    self.space = space
    self.network = network
    self.daemon = daemon
    self.account = account
    self.offline = offline
    self.mounts = mounts
    self.containers = containers
    self.traffic = traffic
  }
}

/// One item: the extended attributes of the contract, and what `stat` says.
@dynamicMemberLookup
package struct ItemReport: Codable, Sendable {
  package var path: PathBytes
  package var kind: String
  package var size: UInt64
  /// Its fields stand beside the others in JSON.
  package var status: ItemSyncStatus

  package init(path: PathBytes, kind: String, size: UInt64, status: ItemSyncStatus) {
    self.path = path
    self.kind = kind
    self.size = size
    self.status = status
  }

  package subscript<Value>(dynamicMember member: KeyPath<ItemSyncStatus, Value>) -> Value {
    status[keyPath: member]
  }

  private enum CodingKeys: String, CodingKey { case path, kind, size }

  package init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    path = try container.decode(PathBytes.self, forKey: .path)
    kind = try container.decode(String.self, forKey: .kind)
    size = try container.decode(UInt64.self, forKey: .size)
    status = try ItemSyncStatus(from: decoder)
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(path, forKey: .path)
    try container.encode(kind, forKey: .kind)
    try container.encode(size, forKey: .size)
    try status.encode(to: encoder)
  }
}

package struct ItemsReport: Codable, Sendable {
  package var items: [ItemReport]

  package init(items: [ItemReport]) { self.items = items }
}

package struct CreatedContainer: Codable, Sendable {
  /// False for one that was there already, which is no error.
  package var created: Bool

  package init(created: Bool) { self.created = created }
}

package struct ListedContainer: Codable, Sendable {
  package var id: String
  /// Nil where this device has not read the container's log, or where it cannot be opened.
  package var items: UInt64?
  package var totalBytes: UInt64?
  package var mountpoint: String?
  /// Why this device cannot open what it has of the container.
  package var error: String?

  package init(
    id: String, items: UInt64?, totalBytes: UInt64?, mountpoint: String?, error: String? = nil
  ) {
    self.id = id
    self.items = items
    self.totalBytes = totalBytes
    self.mountpoint = mountpoint
    self.error = error
  }
}

package struct ContainersReport: Codable, Sendable {
  package var containers: [ListedContainer]

  package init(containers: [ListedContainer]) { self.containers = containers }
}

package struct ListedDevice: Codable, Sendable {
  package var id: String
  package var name: String
  /// RFC 3339.
  package var lastSeen: String
  package var isThisDevice: Bool

  package init(id: String, name: String, lastSeen: String, isThisDevice: Bool) {
    self.id = id
    self.name = name
    self.lastSeen = lastSeen
    self.isThisDevice = isThisDevice
  }
}

package struct DevicesReport: Codable, Sendable {
  package var devices: [ListedDevice]

  package init(devices: [ListedDevice]) { self.devices = devices }
}

package struct ListedVersion: Codable, Sendable {
  package var id: String
  package var isCurrent: Bool
  package var isConflict: Bool
  package var isResolved: Bool
  /// The name of the device that saved it, or its identity where the name is not known.
  package var device: String
  /// Its identity: devices may have one name.
  package var deviceIdentifier: String
  /// RFC 3339.
  package var modified: String
  package var size: UInt64
  package var hasLocalContents: Bool

  package init(
    id: String, isCurrent: Bool, isConflict: Bool, isResolved: Bool, device: String,
    deviceIdentifier: String, modified: String, size: UInt64, hasLocalContents: Bool
  ) {
    self.id = id
    self.isCurrent = isCurrent
    self.isConflict = isConflict
    self.isResolved = isResolved
    self.device = device
    self.deviceIdentifier = deviceIdentifier
    self.modified = modified
    self.size = size
    self.hasLocalContents = hasLocalContents
  }
}

package struct VersionsReport: Codable, Sendable {
  package var versions: [ListedVersion]

  package init(versions: [ListedVersion]) { self.versions = versions }
}

package struct ListedRemoved: Codable, Sendable {
  package var id: String
  package var container: String
  /// In the mount, or from the container's own directory where it is not mounted.
  package var path: PathBytes
  package var kind: String
  package var size: UInt64
  package var removed: String
  package var expires: String
  package var device: String

  package init(
    id: String, container: String, path: PathBytes, kind: String, size: UInt64, removed: String,
    expires: String, device: String
  ) {
    self.id = id
    self.container = container
    self.path = path
    self.kind = kind
    self.size = size
    self.removed = removed
    self.expires = expires
    self.device = device
  }
}

package struct RemovedReport: Codable, Sendable {
  package var items: [ListedRemoved]

  package init(items: [ListedRemoved]) { self.items = items }
}

package struct Subscription: Codable, Sendable {
  package var subscription: UInt64

  package init(subscription: UInt64) { self.subscription = subscription }
}

/// One event of a subscription.
package struct EventReport: Codable, Sendable {
  package var time: String
  /// As `ItemEvent.Kind` has it.
  package var event: String
  /// In the mount; of an `overflow` what was subscribed to.
  package var path: PathBytes
  package var oldPath: PathBytes?
  /// `local` or `remote`.
  package var origin: String
  /// The name of the device that did it, where that is known, else its identifier.
  package var device: String?

  package init(
    time: String, event: String, path: PathBytes, oldPath: PathBytes?, origin: String,
    device: String?
  ) {
    self.time = time
    self.event = event
    self.path = path
    self.oldPath = oldPath
    self.origin = origin
    self.device = device
  }
}

package struct FoundProblem: Codable, Sendable {
  package var container: String
  package var description: String
  package var isRepaired: Bool

  package init(container: String, description: String, isRepaired: Bool) {
    self.container = container
    self.description = description
    self.isRepaired = isRepaired
  }
}

package struct CheckReport: Codable, Sendable {
  package var containers: [String]
  package var problems: [FoundProblem]

  package init(containers: [String], problems: [FoundProblem]) {
    self.containers = containers
    self.problems = problems
  }
}

package struct Finding: Codable, Sendable {
  package enum Verdict: String, Codable, Sendable { case ok, warning, failed }

  package var check: String
  package var verdict: Verdict
  /// What was seen and, unless all is well, what to do about it.
  package var message: String

  package init(_ check: String, _ verdict: Verdict, _ message: String) {
    self.check = check
    self.verdict = verdict
    self.message = message
  }
}

package struct DiagnosisReport: Codable, Sendable {
  package var findings: [Finding]

  package init(findings: [Finding]) { self.findings = findings }
}
