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
    abstract: "Mount a container, making it where it is not there yet.",
    usage: """
      ubiquityfs mount ID MOUNTPOINT [-o OPT,...] [--foreground]
      ubiquityfs mount --all DIRECTORY [-o OPT,...] [--foreground]
      """,
    discussion: """
      Options: policy=ondemand|greedy, ro, allow_other, default_permissions, list_status. What \
      mount(8) passes along (defaults, noauto, user, x-*) is accepted.
      """)

  @Argument(help: ArgumentHelp("The container's name.", valueName: "id")) var id: String?
  @Argument(
    help: ArgumentHelp("An empty directory.", valueName: "mountpoint"), completion: .directory)
  var mountpoint: String?

  @Option(
    help: ArgumentHelp("Mount every container of the account below this.", valueName: "directory"),
    completion: .directory)
  var all: String?

  @Option(
    name: .customShort("o", allowingJoined: true),
    help: ArgumentHelp("Mount options, with commas between them.", valueName: "opt"))
  var mountOptions: [String] = []

  @Flag(name: [.long, .customShort("f")], help: "Stay until it is unmounted; unmount when ended.")
  var foreground = false

  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if all != nil {
      guard id == nil, mountpoint == nil else {
        throw ValidationError("--all takes a directory and nothing else.")
      }
    } else {
      guard id != nil, mountpoint != nil else {
        throw ValidationError("Name a container and a mount point, or --all and a directory.")
      }
    }
  }

  /// The options, one each; empty ones that stray commas leave are dropped.
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
      options.say("\(report.container) is mounted at \(report.mountpoint).")
    }
    if foreground { try hold(reports) }
    if let failure = failures.first { throw ExitCode(failure.status.rawValue) }
  }

  /// Waits until all mounts are gone. SIGTERM and SIGINT unmount them; a mount that programs are
  /// in stays, and the next signal tries again.
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
    commandName: "unmount", abstract: "Flush a mount and take it away.",
    discussion: "The mount of a daemon that was killed is taken away too.", aliases: ["umount"])

  @Argument(help: "Where it is mounted.", completion: .directory) var mountpoint: String
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let path = try Mountpoint.absolute(mountpoint)
    let client = try ControlClient.connectIfRunning(state: try options.stateDirectory())
    do throws(ControlError) {
      guard let client else {
        throw ControlError(.notFound, "\(path) is no mount of this state directory")
      }
      _ = try client.call(
        Methods.Unmount.self, MountpointRequest(mountpoint: PathBytes(path)))
    } catch {
      guard error.status == .notFound else { throw error }
      try unmountForeign(path)
    }
    if options.json { return try Terminal.printJSON(Nothing()) }
    options.say("\(path) is unmounted.")
  }

  /// What the daemon of this state directory does not serve: a dead mount is detached.
  private func unmountForeign(_ path: String) throws {
    let table = try MountTable.read()
    guard let mount = table.last(where: { $0.mountpoint == Array(path.utf8) }) else {
      throw ControlError(.notFound, "nothing is mounted at \(path)")
    }
    guard mount.type == MountedFileSystem.ubiquityType else {
      throw ControlError(.notFound, "what is mounted at \(path) is no mount of ubiquityfs")
    }
    switch MountTable.condition(of: path, milliseconds: 10_000) {
    case .dead: break
    case .answering:
      throw ControlError(
        .notFound,
        "\(path) is served by the daemon of another state directory; name that with --state")
    case .silent:
      throw ControlError(
        .timedOut,
        "\(path) does not answer, and the daemon of another state directory serves it; name that with "
          + "--state. If that daemon was killed, abort its connection as root: "
          + "echo 1 > /sys/fs/fuse/connections/\(mount.device.split(separator: ":").last ?? "N")/abort"
      )
    }
    do throws(Errno) { try MountTable.detach(path) } catch {
      throw ControlError(.failed, "the dead mount at \(path) cannot be taken away: \(error)")
    }
  }
}

enum Mountpoint {
  /// As the mount table has it. The mount point itself is not looked at: it may be a dead mount.
  static func absolute(_ path: String) throws -> String {
    do {
      let bytes = try ItemLocator.resolveLocation(RawArguments.path(path).bytes)
      guard let text = String(validating: bytes, as: UTF8.self) else {
        throw ControlError(.usage, "a mount point's path has to be UTF-8")
      }
      return text
    } catch let error as Errno {
      throw ControlError(
        ControlError.status(of: error), "the mount point \(path) cannot be used: \(error)")
    }
  }
}
