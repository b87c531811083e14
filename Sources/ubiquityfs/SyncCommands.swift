internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient

struct SyncCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sync", abstract: "Sync now.",
    usage: """
      ubiquityfs sync [PATH...] [--wait] [--timeout SECONDS]
          [--confirm-deletions | --restore-deletions]
      """,
    discussion: """
      With --wait, the command returns when all local changes are in the backend and all changes \
      in the backend are applied here. Placeholders are not downloaded. While the command waits, \
      files that PATH names, and files below directories that it names, are uploaded first.

      Without --wait, the command starts a sync and returns. It fails if the store is known to \
      have returned to an earlier state, or if a container cannot be opened.

      If most of a container is deleted here at once, its sync pauses until you decide with \
      --confirm-deletions or --restore-deletions.
      """)

  @Argument(
    help: ArgumentHelp(
      "A file or directory in a mount: sync only its container (default: all containers).",
      valueName: "path"), completion: .file())
  var paths: [String] = []
  @Flag(help: "Wait until the sync is complete.") var wait = false
  @Option(help: ArgumentHelp("With --wait: give up after this many seconds.", valueName: "seconds"))
  var timeout: Double?
  @Flag(help: "Apply the deletions to all devices.") var confirmDeletions = false
  @Flag(help: "Restore the deleted items here, as placeholders.")
  var restoreDeletions = false
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if confirmDeletions, restoreDeletions {
      throw ValidationError("--confirm-deletions and --restore-deletions exclude each other")
    }
    if let timeout, !(timeout >= 0 && timeout < 1e9) {
      throw ValidationError("--timeout takes a number of seconds")
    }
  }

  func run() throws {
    let items = try RawArguments.items(paths)
    let bar = ProgressBar("sync", options: options)
    defer { bar.finish() }
    let decision: DeletionsDecision? =
      confirmDeletions ? .confirm : restoreDeletions ? .restore : nil
    let answer = try options.connect().call(
      Methods.Sync.self,
      SyncRequest(items: items, waits: wait, timeout: timeout, deletions: decision)
    ) { name, line throws(ControlError) in bar.notified(name, line) }
    bar.finish()
    if options.json { try Terminal.printJSON(answer) }
  }
}

struct OfflineCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "offline", abstract: "Turn offline mode on or off: no traffic to the backend.",
    subcommands: [On.self, Off.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("name a subcommand: on or off") }

  static func set(_ offline: Bool, _ options: GlobalOptions) throws {
    let answer = try options.connect().call(
      Methods.SetOffline.self, OfflineRequest(offline: offline))
    if options.json { return try Terminal.printJSON(answer) }
    options.say(offline ? "Offline." : "Online.")
  }

  struct On: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "on", abstract: "Turn offline mode on.")
    @OptionGroup var options: GlobalOptions
    func run() throws { try OfflineCommand.set(true, options) }
  }

  struct Off: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "off", abstract: "Turn offline mode off, and sync.")
    @OptionGroup var options: GlobalOptions
    func run() throws { try OfflineCommand.set(false, options) }
  }
}
