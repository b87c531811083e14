internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Glibc
internal import Model

struct StorageCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "storage", abstract: "Show and delete stored data.",
    subcommands: [Show.self, Delete.self], defaultSubcommand: Show.self)

  @OptionGroup var options: GlobalOptions

  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "show", abstract: "List the account's containers, or the documents of one.",
      discussion: """
        For a container, the command lists each document in Documents, a package as one document. \
        Everything outside Documents is one sum, "other data". Sizes are those that programs see.
        """)
    @Argument(help: "The container's name (default: list all containers).") var container: String?
    @OptionGroup var options: GlobalOptions

    func run() throws {
      guard let container else { return try showAll() }
      try ContainerCommand.checkName(container)
      let report = try options.connect().call(
        Methods.ShowStorage.self, ContainerRequest(id: container))
      if options.json { return try Terminal.printJSON(report) }
      if !report.documents.isEmpty {
        Terminal.line(
          Terminal.table(
            report.documents.map {
              [
                Terminal.size($0.size), $0.modified, $0.kind,
                "\($0.path)" + ($0.isUploaded ? "" : " (not uploaded)"),
              ]
            }))
        Terminal.line("")
      }
      var rows = [
        ["Documents", Terminal.size(report.documentBytes), "\(report.documents.count)"],
        ["Other data", Terminal.size(report.otherBytes), "\(report.otherItems) items"],
      ]
      if report.conflictVersions > 0 {
        rows.append([
          "Conflict versions", Terminal.size(report.conflictBytes), "\(report.conflictVersions)",
        ])
      }
      rows.append(["Total", Terminal.size(report.totalBytes), ""])
      if report.removedItems > 0 {
        rows.append([
          "Recently deleted", Terminal.size(report.removedBytes),
          "\(report.removedItems) items; not counted",
        ])
      }
      if report.waitingFiles > 0 {
        rows.append([
          "Over quota", Terminal.size(report.waitingBytes),
          "\(report.waitingFiles) files, only on this device",
        ])
      }
      Terminal.line(Terminal.table(rows))
    }

    private func showAll() throws {
      let report = try options.connect().call(Methods.ListStorage.self, Nothing())
      if options.json { return try Terminal.printJSON(report) }
      Terminal.line(
        AccountCommand.Quota.line(report.account))
      guard !report.containers.isEmpty else { return }
      Terminal.line(
        Terminal.table(
          report.containers.map { container in
            func size(_ bytes: UInt64?) -> String { bytes.map(Terminal.size) ?? "-" }
            var notes = [
              container.documents.map {
                "\($0) documents \(size(container.documentBytes)), other data "
                  + size(container.otherBytes)
              } ?? container.error.map { "cannot be opened: \($0)" } ?? "not on this device"
            ]
            if let bytes = container.waitingBytes, bytes > 0 {
              notes.append("\(size(bytes)) over quota")
            }
            return [container.id, size(container.totalBytes), notes.joined(separator: "; ")]
          }))
    }
  }

  struct Delete: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "delete",
      abstract: "Delete a container's documents, other data, or both, on every device.",
      usage: """
        ubiquityfs storage delete CONTAINER --document PATH... [--other-data] [--yes]
        ubiquityfs storage delete CONTAINER (--other-data | --all) [--yes]
        """,
      discussion: """
        Deleted items go to the trash: `ubiquityfs trash restore` restores them. Files that never \
        leave the device (.nosync) stay. The command asks first on a terminal, and elsewhere needs \
        --yes.
        """)
    @Argument(help: "The container's name.") var container: String
    @Option(
      parsing: .upToNextOption,
      help: ArgumentHelp(
        "A document's path in a mount, or as `storage CONTAINER` prints it.",
        valueName: "path"), completion: .file())
    var document: [String] = []
    @Flag(help: "Delete everything outside Documents.") var otherData = false
    @Flag(help: "Delete all documents and all other data.") var all = false
    @Flag(help: "Delete without asking.") var yes = false
    @OptionGroup var options: GlobalOptions

    func validate() throws {
      guard !document.isEmpty || otherData || all else {
        throw ValidationError("use --document PATH, --other-data or --all")
      }
      guard !all || (document.isEmpty && !otherData) else {
        throw ValidationError("--all excludes --document and --other-data")
      }
    }

    func run() throws {
      try ContainerCommand.checkName(container)
      let client = try options.connect()
      var request = StorageDeletionRequest(
        container: container,
        documents: document.map { text in
          let path = RawArguments.path(text)
          return StorageDeletionRequest.Document(path: path, item: try? ItemLocator.locate(path))
        }, otherData: otherData || all, allDocuments: all, isTrial: true)
      if !yes {
        let trial = try client.call(Methods.DeleteStorage.self, request)
        let what = "this deletes \(Self.text(trial)), on every device"
        guard !options.json, Terminal.isInteractive else {
          throw ControlError(.usage, "\(what). Add --yes to confirm.")
        }
        guard Terminal.asks("ubiquityfs: \(what). Continue?") else {
          return options.say("Nothing was deleted.")
        }
      }
      request.isTrial = false
      let report = try client.call(Methods.DeleteStorage.self, request)
      if options.json {
        try Terminal.printJSON(report)
        if let held = report.held { throw ControlError(.busy, held) }
        return
      }
      if let held = report.held {
        options.say("Deleted \(Self.text(report)), only on this device.")
        throw ControlError(.busy, held)
      }
      options.say("Deleted \(Self.text(report)).")
    }

    private static func text(_ report: StorageDeletionReport) -> String {
      var text = report.documents == 1 ? "1 document" : "\(report.documents) documents"
      text += " (\(report.items) \(report.items == 1 ? "item" : "items"), "
      text += "\(Terminal.size(report.bytes))) of \(report.container)"
      if report.kept > 0 { text += "; \(report.kept) that never leave this device stay" }
      return text
    }
  }
}

extension AccountCommand {
  struct Quota: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "quota", abstract: "Show or set the quota of the account.",
      discussion: """
        The quota limits the size of all current contents and conflict versions, for all devices. \
        A file that does not fit stays local, and is uploaded when there is room.
        """)
    @Argument(
      help: ArgumentHelp(
        "The quota, such as 10G or 500MiB, or none (default: show the quota).", valueName: "size"))
    var size: String?
    @OptionGroup var options: GlobalOptions

    func run() throws {
      var request = QuotaRequest(isSet: size != nil)
      if let size, size.lowercased() != "none" {
        guard let parsed = ByteSize(size) else {
          throw ControlError(
            .usage, "\"\(size)\" is not a size; use a form such as 10G, 500MiB or none")
        }
        request.limit = parsed.bytes
      }
      let report = try options.connect().call(Methods.Quota.self, request)
      if options.json { return try Terminal.printJSON(report) }
      if size == nil {
        Terminal.line(Self.line(report))
      } else {
        options.say(Self.line(report))
      }
    }

    static func line(_ report: QuotaReport) -> String {
      let used = "\(Terminal.size(report.used)) used"
      var asOf = ""
      if !report.isCurrent {
        asOf = report.asOf.map { ", as of \($0)" } ?? ", as far as this device knows"
      }
      guard let quota = report.quota, let left = report.left else {
        return "Quota none, \(used)\(asOf)"
      }
      let over = report.used > quota ? ", \(Terminal.size(report.used - quota)) over" : ""
      return "Quota \(Terminal.size(quota)), \(used), \(Terminal.size(left)) left\(over)\(asOf)"
    }
  }
}
