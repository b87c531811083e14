internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient

struct SyncCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sync", abstract: "Sync now.",
    discussion: """
      With --wait returns when everything written here is in the backend and everything the \
      backend holds is applied here. Content of placeholders is not downloaded. While the command \
      waits, the files that it names, and those in directories that it names, are uploaded first.

      Without --wait the command starts a sync and returns. It fails if it is known already that \
      the store went back to an earlier state or that a container cannot be opened.

      When most of a container is removed here at once, its sync pauses until one of \
      --confirm-deletions and --restore-deletions says what is to become of it.
      """)

  @Argument(help: "Only the containers that these are in.", completion: .file())
  var paths: [String] = []
  @Flag(help: "Wait until it is done.") var wait = false
  @Option(help: ArgumentHelp("With --wait: give up after this many seconds.", valueName: "s"))
  var timeout: Double?
  @Flag(help: "Remove from all devices what was removed here.") var confirmDeletions = false
  @Flag(help: "Bring back here, as placeholders, what was removed here.")
  var restoreDeletions = false
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if confirmDeletions, restoreDeletions {
      throw ValidationError("--confirm-deletions and --restore-deletions exclude each other.")
    }
    if let timeout, !(timeout >= 0 && timeout < 1e9) {
      throw ValidationError("--timeout takes a number of seconds.")
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
    commandName: "offline", abstract: "Airplane mode: no traffic to the backend.",
    subcommands: [On.self, Off.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("Say on or off.") }

  static func set(_ offline: Bool, _ options: GlobalOptions) throws {
    let answer = try options.connect().call(
      Methods.SetOffline.self, OfflineRequest(offline: offline))
    if options.json { return try Terminal.printJSON(answer) }
    options.say(offline ? "Offline." : "Online.")
  }

  struct On: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "on", abstract: "Go offline.")
    @OptionGroup var options: GlobalOptions
    func run() throws { try OfflineCommand.set(true, options) }
  }

  struct Off: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "off", abstract: "Go online and catch up.")
    @OptionGroup var options: GlobalOptions
    func run() throws { try OfflineCommand.set(false, options) }
  }
}
