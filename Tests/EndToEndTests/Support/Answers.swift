/// The parts of the program's JSON answers that the contract names.
struct StatusAnswer: Decodable {
  struct Daemon: Decodable { var pid: Int32, version: String }
  struct Account: Decodable {
    var signedIn: Bool
    var backend: String?
    var device: String?
  }
  struct Mount: Decodable {
    struct IO: Decodable { var mode: String, reason: String? }
    var container: String, mountpoint: String, passthrough: Bool, passthroughReason: String?, io: IO
  }
  struct Container: Decodable {
    var id: String
    var items: Int, localBytes: Int, totalBytes: Int
    var pendingUploads: Int, pendingDownloads: Int, conflicts: Int
    var errors: [String]
    var traffic: Traffic?
  }
  struct Traffic: Decodable {
    struct Requests: Decodable { var get: Int, put: Int, list: Int, delete: Int }
    var bytesUploaded: Int, bytesDownloaded: Int, retries: Int
    var requests: Requests
  }
  var daemon: Daemon
  var account: Account
  var offline: Bool
  var mounts: [Mount]
  var containers: [Container]
  var traffic: Traffic
}

struct ItemStatusAnswer: Decodable {
  struct Item: Decodable {
    var path: String, kind: String, size: Int, downloadingStatus: String
    var isUploaded: Bool, isPinned: Bool, hasUnresolvedConflicts: Bool
  }
  var items: [Item]
}

struct VersionsAnswer: Decodable {
  struct Version: Decodable {
    var id: String, device: String, modified: String
    var isCurrent: Bool, isConflict: Bool, isResolved: Bool, hasLocalContents: Bool
    var size: Int
  }
  var versions: [Version]
}

struct ContainersAnswer: Decodable {
  struct Container: Decodable {
    var id: String
    var items: Int?
    var totalBytes: Int?
    var mountpoint: String?
  }
  var containers: [Container]
}
