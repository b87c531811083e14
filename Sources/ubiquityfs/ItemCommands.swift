internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Glibc

struct StatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Show the daemon, mounts, queue and transfers, or the state of items.")

  @Argument(
    help: ArgumentHelp("A file or directory in a mount.", valueName: "path"), completion: .file())
  var paths: [String] = []
  @Flag(help: "Keep running and show each change.") var watch = false
  @OptionGroup var options: GlobalOptions

  /// The polling interval in microseconds.
  private static let interval: UInt32 = 500_000

  func run() throws {
    let client = try options.connect()
    var last: String?
    repeat {
      let text = try paths.isEmpty ? whole(client) : items(client)
      if text != last {
        if watch, !options.json, isatty(1) == 1 {
          // Redraws the screen: cursor home, clear to the end.
          Terminal.write(Array("\u{1B}[H\u{1B}[J".utf8))
        } else if watch, !options.json, last != nil {
          Terminal.line("")
        }
        Terminal.line(text)
      }
      last = text
      if watch { usleep(Self.interval) }
    } while watch
  }

  private func whole(_ client: ControlClient) throws -> String {
    let report = try client.call(Methods.Status.self, Nothing())
    if options.json { return try Terminal.json(report) }
    var rows = [["Daemon", "process \(report.daemon.pid), version \(report.daemon.version)"]]
    if report.account.signedIn, report.account.backend == nil {
      rows.append(["Account", "cannot be opened"])
    } else if report.account.signedIn {
      rows.append([
        "Account", "\(report.account.backend ?? "") as \(report.account.device ?? "")",
      ])
    } else {
      rows.append(["Account", "not signed in"])
    }
    rows.append([
      "Network",
      report.offline
        ? "offline mode"
        : (report.network?.reason ?? report.account.error).map { reason in
          report.network?.since.map { "not connected since \($0): \(reason)" }
            ?? "not connected: \(reason)"
        } ?? "online",
    ])
    if let network = report.network {
      if network.limits.uploadLimit != nil || network.limits.downloadLimit != nil {
        rows.append([
          "",
          "limits: upload \(LimitCommand.text(network.limits.uploadLimit)), download "
            + LimitCommand.text(network.limits.downloadLimit),
        ])
      }
      if network.metered.isMetered {
        rows.append(["", "metered: \(network.metered.reason ?? "")"])
      }
    }
    for mount in report.mounts {
      rows.append(["Mount", "\(mount.container) at \(mount.mountpoint)"])
      rows.append([
        "",
        mount.io.reason.map { "the daemon reads and writes files: \($0)" }
          ?? "the kernel reads and writes local files (passthrough)",
      ])
    }
    for container in report.containers {
      rows.append([
        container.id,
        "\(container.items) items, \(Terminal.size(container.localBytes)) of "
          + "\(Terminal.size(container.totalBytes)) local, "
          + "\(container.pendingUploads) pending uploads, "
          + "\(container.pendingDownloads) pending downloads, \(container.conflicts) conflicts",
      ])
      for error in container.errors { rows.append(["", "error: \(error)"]) }
      for file in container.openFiles.prefix(10) {
        let programs = file.programs.map { "\($0.name) (process \($0.pid))" }
        rows.append([
          "",
          "waits for \(file.path), open for writing in "
            + (programs.isEmpty ? "an unknown program" : programs.joined(separator: ", "))
            + (file.reason.map { ": \($0)" } ?? ""),
        ])
      }
      for transfer in container.transfers.prefix(10) {
        let share =
          transfer.bytesTotal == 0
          ? "" : " \(transfer.bytesDone * 100 / transfer.bytesTotal)%"
        rows.append(["", "\(transfer.direction)\(share) \(transfer.path)"])
      }
    }
    if let space = report.space { rows.append(["Space", Self.told(space)]) }
    rows.append([
      "Traffic",
      "\(Terminal.size(report.traffic.bytesUploaded)) uploaded, "
        + "\(Terminal.size(report.traffic.bytesDownloaded)) downloaded",
    ])
    return Terminal.table(rows)
  }

  private static func told(_ space: SpaceReport) -> String {
    var text = "\(Terminal.size(space.used)) local content"
    if let limit = space.limit { text += ", limit \(Terminal.size(limit))" }
    if let free = space.minimumFree {
      text +=
        ", \(Terminal.size(space.free)) free, minimum free \(Terminal.size(free))"
    }
    if let fixed = space.unevictable, fixed > 0 {
      text += "; \(Terminal.size(fixed)) cannot be evicted now"
    }
    if space.evicted.files > 0 {
      text += "; \(space.evicted.files) files (\(Terminal.size(space.evicted.bytes))) evicted"
    }
    return text
  }

  private func items(_ client: ControlClient) throws -> String {
    let items = try RawArguments.items(paths)
    let report = try client.call(Methods.ItemStatus.self, ItemsRequest(items: items))
    if options.json { return try Terminal.json(report) }
    return Terminal.table(
      report.items.map { item in
        var marks = [item.downloadingStatus.rawValue]
        if let local = item.localBytes, local > 0, local < item.size, item.kind == "file" {
          marks.append("\(Terminal.size(local)) local")
        }
        if item.isDownloading { marks.append("downloading \(item.percentDownloaded)%") }
        if item.isUploading { marks.append("uploading \(item.percentUploaded)%") }
        marks.append(
          item.isExcludedFromSync ? "not synced" : item.isUploaded ? "uploaded" : "not uploaded")
        if item.isPinned { marks.append("pinned") }
        if item.isPackage { marks.append("package") }
        if item.nameCollision == true { marks.append("name differs from another only in case") }
        if item.hasUnresolvedConflicts { marks.append("conflict") }
        if let error = item.downloadingError { marks.append("download: \(error)") }
        if let error = item.uploadingError { marks.append("upload: \(error)") }
        return [
          item.kind, Terminal.size(item.size), marks.joined(separator: ", "),
          item.path.description,
        ]
      })
  }
}

struct EvictCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "evict", abstract: "Free the local content of files; names and metadata stay.",
    discussion: """
      The command fails for a named file that is open, not uploaded, pinned or excluded from sync \
      (.nosync). It skips such files below a named directory.
      """)

  @Argument(
    help: ArgumentHelp("A file or directory in a mount.", valueName: "path"), completion: .file())
  var paths: [String]
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let items = try RawArguments.items(paths)
    let answer = try options.connect().call(Methods.Evict.self, ItemsRequest(items: items))
    if options.json { try Terminal.printJSON(answer) }
  }
}

struct DownloadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "download", abstract: "Download the content of files.")

  @Argument(
    help: ArgumentHelp("A file or directory in a mount.", valueName: "path"), completion: .file())
  var paths: [String]
  @Flag(help: "Start the download and return.") var noWait = false
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let items = try RawArguments.items(paths)
    let bar = ProgressBar("download", options: options)
    defer { bar.finish() }
    let answer = try options.connect().call(
      Methods.Download.self, DownloadRequest(items: items, waits: !noWait)
    ) { name, line throws(ControlError) in bar.notified(name, line) }
    bar.finish()
    if options.json { try Terminal.printJSON(answer) }
  }
}

struct PinCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "pin", abstract: "Keep the content of files local: download it, never evict it.")

  @Argument(
    help: ArgumentHelp("A file or directory in a mount.", valueName: "path"), completion: .file())
  var paths: [String]
  @OptionGroup var options: GlobalOptions

  func run() throws { try Self.set(true, paths, options) }

  static func set(_ pinned: Bool, _ paths: [String], _ options: GlobalOptions) throws {
    let items = try RawArguments.items(paths)
    let answer = try options.connect().call(
      Methods.Pin.self, PinRequest(items: items, pinned: pinned))
    if options.json { try Terminal.printJSON(answer) }
  }
}

struct UnpinCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "unpin", abstract: "Allow files to be evicted again.")

  @Argument(
    help: ArgumentHelp("A file or directory in a mount.", valueName: "path"), completion: .file())
  var paths: [String]
  @OptionGroup var options: GlobalOptions

  func run() throws { try PinCommand.set(false, paths, options) }
}
