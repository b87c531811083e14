internal import ArgumentParser
internal import ControlProtocol
internal import UbiquityKit

struct StatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Show the daemon, its mounts and its work, or the state of items.")

  @Argument(help: "Items in a mount.", completion: .file()) var paths: [String] = []
  @OptionGroup var options: GlobalOptions

  func run() throws {
    if !paths.isEmpty { return try showItems() }
    let report = try options.connect().call(Methods.Status.self, Nothing())
    if options.json { return try Terminal.printJSON(report) }
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
        ? "offline mode" : report.account.error.map { "not connected: \($0)" } ?? "online",
    ])
    for mount in report.mounts {
      rows.append(["Mount", "\(mount.container) at \(mount.mountpoint)"])
      rows.append([
        "",
        mount.io.reason.map { "files are read and written through the daemon: \($0)" }
          ?? "local files are read and written by the kernel itself (passthrough)",
      ])
    }
    for container in report.containers {
      rows.append([
        container.id,
        "\(container.items) items, \(Terminal.size(container.localBytes)) of "
          + "\(Terminal.size(container.totalBytes)) local, \(container.pendingUploads) to upload, "
          + "\(container.pendingDownloads) to download, \(container.conflicts) conflicts",
      ])
      for error in container.errors { rows.append(["", "error: \(error)"]) }
    }
    rows.append([
      "Traffic",
      "\(Terminal.size(report.traffic.bytesUploaded)) up, "
        + "\(Terminal.size(report.traffic.bytesDownloaded)) down",
    ])
    Terminal.line(Terminal.table(rows))
  }

  private func showItems() throws {
    let items = try RawArguments.items(paths)
    let report = try options.connect().call(
      Methods.ItemStatus.self, ItemsRequest(items: items))
    if options.json { return try Terminal.printJSON(report) }
    Terminal.line(
      Terminal.table(
        report.items.map { item in
          var marks = [item.downloadingStatus]
          if item.isDownloading { marks.append("downloading \(item.percentDownloaded)%") }
          if item.isUploading { marks.append("uploading \(item.percentUploaded)%") }
          marks.append(
            item.isExcludedFromSync ? "not synced" : item.isUploaded ? "uploaded" : "not uploaded")
          if item.isPinned { marks.append("pinned") }
          if item.isPackage { marks.append("package") }
          if item.hasUnresolvedConflicts { marks.append("conflict") }
          if let error = item.downloadingError { marks.append("download: \(error)") }
          if let error = item.uploadingError { marks.append("upload: \(error)") }
          return [
            item.kind, Terminal.size(item.size), marks.joined(separator: ", "),
            item.path.description,
          ]
        }))
  }
}

struct EvictCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "evict", abstract: "Free the local content of items; what they are stays.",
    discussion: """
      Files that are open, not uploaded or pinned are not evicted: named, they are an error; below \
      a directory they are left as they are.
      """)

  @Argument(help: "Items in a mount.", completion: .file()) var paths: [String]
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let items = try RawArguments.items(paths)
    let answer = try options.connect().call(Methods.Evict.self, ItemsRequest(items: items))
    if options.json { try Terminal.printJSON(answer) }
  }
}

struct DownloadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "download", abstract: "Bring the content of items.")

  @Argument(help: "Items in a mount.", completion: .file()) var paths: [String]
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
    commandName: "pin", abstract: "Keep the content of items local: download, never evict.")

  @Argument(help: "Items in a mount.", completion: .file()) var paths: [String]
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
    commandName: "unpin", abstract: "Let items be evicted again.")

  @Argument(help: "Items in a mount.", completion: .file()) var paths: [String]
  @OptionGroup var options: GlobalOptions

  func run() throws { try PinCommand.set(false, paths, options) }
}
