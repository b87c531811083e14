internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient
internal import Glibc
internal import Platform
internal import SystemPackage

struct MountCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "mount",
    abstract: "Mount a container, and create it if it does not exist.",
    usage: """
      ubiquityfs mount ID MOUNTPOINT [-o OPT,...] [--foreground]
      ubiquityfs mount --all DIRECTORY [-o OPT,...] [--foreground]
      """,
    discussion: """
      Options: policy=ondemand|greedy, ro, allow_other, casefold, coordination=advisory|mandatory, \
      list_status. `man ubiquityfs` describes all of them. Options that mount(8) passes on \
      (defaults, noauto, user, x-*) are accepted.
      """)

  @Argument(help: "The container's name, such as iCloud.com.example.notes.") var id: String?
  @Argument(
    help: ArgumentHelp("An empty directory.", valueName: "mountpoint"), completion: .directory)
  var mountpoint: String?

  @Option(
    help: ArgumentHelp(
      "Mount every container of the account at DIRECTORY/ID.", valueName: "directory"),
    completion: .directory)
  var all: String?

  @Option(
    name: .customShort("o", allowingJoined: true),
    help: ArgumentHelp("Mount options, separated by commas.", valueName: "opt"))
  var mountOptions: [String] = []

  @Flag(
    name: [.long, .customShort("f")],
    help: "Run until the mount is gone; unmount on SIGTERM or SIGINT.")
  var foreground = false

  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if all != nil {
      guard id == nil, mountpoint == nil else {
        throw ValidationError("--all takes a directory and no other argument")
      }
    } else {
      guard id != nil, mountpoint != nil else {
        throw ValidationError("name a container and a mount point, or use --all DIRECTORY")
      }
    }
  }

  /// The mount options without the empty ones that stray commas leave.
  var optionList: [String] {
    mountOptions.flatMap { $0.split(separator: ",").map(String.init) }
  }

  func run() throws {
    if let id { try ContainerCommand.checkName(id) }
    let client = try options.connect()
    var reports: [MountReport] = []
    var failures: [ControlError] = []
    if let all {
      let directory = try Mountpoint.absolute(all)
      let containers = try client.call(Methods.ListContainers.self, Nothing()).containers
      for container in containers {
        let request = MountRequest(
          container: container.id, mountpoint: PathBytes("\(directory)/\(container.id)"),
          options: optionList, makesDirectory: true)
        if container.mountpoint == request.mountpoint.description { continue }
        do throws(ControlError) {
          reports.append(try client.call(Methods.Mount.self, request))
        } catch {
          UbiquityCommand.complain(error.message)
          failures.append(error)
        }
      }
    } else if let id, let mountpoint {
      reports.append(
        try client.call(
          Methods.Mount.self,
          MountRequest(
            container: id, mountpoint: PathBytes(try Mountpoint.absolute(mountpoint)),
            options: optionList)))
    }
    if options.json {
      if all == nil, let report = reports.first {
        try Terminal.printJSON(report)
      } else {
        try Terminal.printJSON(["mounts": reports])
      }
    }
    for report in reports {
      if let notice = report.notice { UbiquityCommand.complain(notice) }
      options.say("Mounted \(report.container) at \(report.mountpoint).")
    }
    if foreground { try hold(reports) }
    if let failure = failures.first { throw ExitCode(failure.status.rawValue) }
  }

  /// Waits until all mounts are gone. SIGTERM and SIGINT unmount them. A mount in use stays, and
  /// the next signal tries again.
  private func hold(_ reports: [MountReport]) throws {
    let mountpoints = reports.map { PathBytes($0.mountpoint) }
    let state = try options.stateDirectory()
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGTERM)
    sigaddset(&signals, SIGINT)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    let waited = signals
    _ = startThread {
      var waited = waited
      while true {
        var signal: Int32 = 0
        guard sigwait(&waited, &signal) == 0 else { continue }
        for mountpoint in mountpoints {
          do throws(ControlError) {
            _ = try ControlClient.connectIfRunning(state: state)?.call(
              Methods.Unmount.self, MountpointRequest(mountpoint: mountpoint))
          } catch {
            if error.status != .notFound { UbiquityCommand.complain(error.message) }
          }
        }
      }
    }
    let client = try options.connect()
    _ = try client.call(Methods.HoldMounts.self, HoldRequest(mountpoints: mountpoints))
  }
}

struct UnmountCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unmount", abstract: "Flush and unmount a container.",
    discussion: "Also unmounts a dead mount, whose daemon was killed.", aliases: ["umount"])

  @Argument(help: "The mount point.", completion: .directory) var mountpoint: String
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let path = try Mountpoint.absolute(mountpoint)
    let client = try ControlClient.connectIfRunning(state: try options.stateDirectory())
    do throws(ControlError) {
      guard let client else {
        throw ControlError(.notFound, "\"\(path)\" is not a mount of this state directory")
      }
      _ = try client.call(
        Methods.Unmount.self, MountpointRequest(mountpoint: PathBytes(path)))
    } catch {
      guard error.status == .notFound else { throw error }
      try unmountForeign(path)
    }
    if options.json { return try Terminal.printJSON(Nothing()) }
    options.say("Unmounted \(path).")
  }

  /// Detaches a dead mount that the daemon of this state directory does not serve.
  private func unmountForeign(_ path: String) throws {
    let table = try MountTable.read()
    guard let mount = table.last(where: { $0.mountpoint == Array(path.utf8) }) else {
      throw ControlError(.notFound, "nothing is mounted at \"\(path)\"")
    }
    guard mount.type == MountedFileSystem.ubiquityType else {
      throw ControlError(.notFound, "\"\(path)\" is not a mount of ubiquityfs; use umount(8)")
    }
    switch MountTable.condition(of: path, milliseconds: 10_000) {
    case .dead: break
    case .answering:
      throw ControlError(
        .notFound,
        "the daemon of another state directory serves \"\(path)\". "
          + "Name that directory with --state.")
    case .silent:
      throw ControlError(
        .timedOut,
        "\"\(path)\" does not answer. The daemon of another state directory serves it: name that "
          + "directory with --state. If that daemon was killed, abort its connection as root: "
          + "echo 1 > /sys/fs/fuse/connections/"
          + "\(mount.device.split(separator: ":").last ?? "N")/abort"
      )
    }
    do throws(Errno) { try MountTable.detach(path) } catch {
      throw ControlError(.failed, "cannot detach the dead mount at \"\(path)\": \(error)")
    }
  }
}

enum Mountpoint {
  /// The path as in the mount table. Never opens the mount point, which may be a dead mount.
  static func absolute(_ path: String) throws -> String {
    do {
      let bytes = try ItemLocator.resolveLocation(RawArguments.path(path).bytes)
      guard let text = String(validating: bytes, as: UTF8.self) else {
        throw ControlError(.usage, "the path of a mount point must be UTF-8")
      }
      return text
    } catch let error as Errno {
      throw ControlError(
        ControlError.status(of: error), "cannot use the mount point \"\(path)\": \(error)")
    }
  }
}
