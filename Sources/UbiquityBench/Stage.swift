internal import Glibc
internal import Platform

/// Everything that is measured on, in a directory that is removed: `native`, and an account with
/// one device, whose container is mounted at `mount`.
final class Stage: @unchecked Sendable {
  let root: String
  let native: Place
  let mount: Place
  let isOnline: Bool
  /// Where the repository for git and tar is cloned from; nil for one that is generated.
  var repository: String?
  private let binary: String
  private let mountOptions: String
  private(set) var daemon: pid_t = 0

  private static let container = "iCloud.org.example.bench"
  private var mountpoint: String { root + "/mount" }

  init(binary: String, parent: String, mountOptions: String, isOnline: Bool) throws {
    guard let path = realpath(binary, nil) else {
      throw Failure("\(binary) is not there; `make build` makes it, --binary names another")
    }
    self.binary = String(cString: path)
    free(path)
    Glibc.mkdir(parent, 0o755)
    guard let directory = realpath(parent, nil) else { throw Failure.system("realpath", parent) }
    var template = Array((String(cString: directory) + "/bench-XXXXXX").utf8CString)
    free(directory)
    guard mkdtemp(&template) != nil else { throw Failure.system("mkdtemp", parent) }
    root = template.withUnsafeBufferPointer { String(cString: $0.baseAddress.unsafelyUnwrapped) }
    self.mountOptions = mountOptions
    self.isOnline = isOnline
    native = Place(.native, directory: root + "/native/Documents")
    mount = Place(.mount, directory: root + "/mount/Documents")
  }

  var places: [Place] { [native, mount] }

  func start() throws {
    // As deep as in the mount, so that both have paths of as many names.
    for name in ["native", "native/Documents", "mount"] {
      guard Glibc.mkdir(root + "/" + name, 0o755) == 0 else { throw Failure.system("mkdir", name) }
    }
    // Has ext4 spread what is made in it over the disk, away from what was removed lately.
    _ = try? Program.run(["chattr", "+T", native.directory])
    try ubiquity("account", "sign-in", "--quiet", "--device-name", "bench")
    daemon = try status().daemon.pid
    try mountNow()
    if !isOnline { try ubiquity("offline", "on", "--quiet") }
  }

  func ubiquity(_ words: String...) throws {
    try Program.run([binary] + words, environment: environment)
  }

  private var environment: [String: String] { ["UBIQUITYFS_STATE": root + "/state"] }

  private func mountNow() throws {
    let options = mountOptions.isEmpty ? [] : ["-o", mountOptions]
    try Program.run(
      [binary, "mount", "--quiet", Self.container, mountpoint] + options, environment: environment)
  }

  /// Takes the mount away and mounts again: the kernel knows nothing of it any more. The daemon
  /// goes on, and the page cache of its files on the disk stays as warm as that of `native`.
  func remount() throws {
    try ubiquity("unmount", mountpoint)
    try mountNow()
  }

  func status() throws -> DaemonStatus {
    try JSON.decoded(
      DaemonStatus.self,
      Program.output([binary, "status", "--json"], environment: environment))
  }

  /// Has the disk catch up, so that nothing that was written before is written while the clock
  /// runs.
  func settle() throws {
    try Unmounting.synchronizeFileSystem(of: native.directory)
  }

  /// What the daemon logged last, if it is gone: then whatever failed did so because of that.
  func obituary() -> String? {
    guard daemon > 0, kill(daemon, 0) != 0 else { return nil }
    let log = (try? Bytes.read(root + "/state/daemon.log")) ?? []
    let lines = String(decoding: log, as: UTF8.self).split(separator: "\n").suffix(20)
    return "the daemon is gone; it logged last:\n" + lines.joined(separator: "\n")
  }

  /// Ends the daemon, which unmounts, and removes the directory. May be called in any state.
  func remove() {
    if daemon > 0 {
      if kill(daemon, 0) == 0 {
        _ = try? Program.run([binary, "unmount", mountpoint], environment: environment)
        kill(daemon, SIGTERM)
        for _ in 0..<600 where kill(daemon, 0) == 0 { usleep(50_000) }
      }
      if MountTable.isDead(mountpoint) { _ = try? MountTable.detach(mountpoint) }
    }
    _ = try? Program.run(["rm", "-rf", "--one-file-system", root])
  }
}

/// Of `ubiquityfs status --json`, what is of interest here.
struct DaemonStatus: Decodable {
  struct Daemon: Decodable {
    var pid: Int32
    var version: String
  }
  struct Mount: Decodable {
    var passthrough: Bool
    var passthroughReason: String?
  }

  var daemon: Daemon
  var mounts: [Mount]
}

/// Removes everything when the program is told to end.
enum Cleanup {
  static func onSignals(_ stage: Stage) {
    var signals = sigset_t()
    sigemptyset(&signals)
    for signal in [SIGINT, SIGTERM, SIGHUP] { sigaddset(&signals, signal) }
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    let waited = signals
    inBackground {
      var waited = waited
      var signal: Int32 = 0
      sigwait(&waited, &signal)
      stage.remove()
      exit(128 + signal)
    }
  }
}
