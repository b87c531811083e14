internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Glibc

struct CoordinateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "coordinate", abstract: "Run a command while it holds a claim on items.",
    discussion: """
      Several readers can hold a claim at once; a writer holds it alone. A claim on a directory or \
      a package covers everything in it. Changes by remote devices are not applied to claimed \
      items, and a writer's changes are uploaded after its claim ends.

      The exit status is that of the command. A `coordinate` inside the command joins its claim.
      """,
    subcommands: [Read.self, Write.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("name a subcommand: read or write") }

  struct Waiting: ParsableArguments {
    @Option(help: ArgumentHelp("Give up after this many seconds.", valueName: "seconds"))
    var timeout: Double?
    @Flag(inversion: .prefixedNo, help: "Wait for other claims to end, or fail at once.")
    var wait = true

    func validate() throws {
      if let timeout, !(timeout >= 0 && timeout < 1e9) {
        throw ValidationError("--timeout takes a number of seconds")
      }
    }

    var limit: Double? { wait ? timeout : 0 }
  }

  struct Read: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "read", abstract: "Run a command while it holds a read claim.",
      usage: "ubiquityfs coordinate read PATH... -- COMMAND [ARGUMENT...]")

    @Argument(
      help: ArgumentHelp("A file or directory in a mount.", valueName: "path"),
      completion: .file())
    var paths: [String]
    @OptionGroup var waiting: Waiting
    @OptionGroup var options: GlobalOptions

    func validate() throws { try CoordinateCommand.check() }

    func run() throws {
      let accesses = try RawArguments.items(paths).map { ClaimedAccess(item: $0, intent: "read") }
      try CoordinateCommand.run(accesses, waiting, options)
    }
  }

  struct Write: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "write", abstract: "Run a command while it holds a write claim.",
      usage: "ubiquityfs coordinate write PATH... [--for INTENT] -- COMMAND [ARGUMENT...]")

    private static let purposes = [
      "deleting": "forDeleting", "moving": "forMoving", "merging": "forMerging",
      "replacing": "forReplacing",
    ]

    @Argument(
      help: ArgumentHelp(
        "A file or directory in a mount; it may not exist yet.", valueName: "path"),
      completion: .file())
    var paths: [String]
    @Option(
      name: .customLong("for"),
      help: ArgumentHelp(
        "The intent: deleting, moving, merging or replacing, or several separated by commas.",
        valueName: "intent"))
    var purpose: String?
    @OptionGroup var waiting: Waiting
    @OptionGroup var options: GlobalOptions

    private func writingOptions() throws -> [String] {
      try (purpose ?? "").split(separator: ",").map { word in
        guard let option = Self.purposes[String(word)] else {
          throw ValidationError(
            "--for takes \(Self.purposes.keys.sorted().joined(separator: ", ")), not \"\(word)\"")
        }
        return option
      }
    }

    func validate() throws {
      try CoordinateCommand.check()
      _ = try writingOptions()
    }

    func run() throws {
      let chosen = try writingOptions()
      // An access has one option, so each intent becomes an access of its own.
      let accesses = try paths.flatMap { path in
        let item = try ItemLocator.locateFormer(RawArguments.path(path))
        return chosen.isEmpty
          ? [ClaimedAccess(item: item, intent: "write")]
          : chosen.map { ClaimedAccess(item: item, intent: "write", options: [$0]) }
      }
      try CoordinateCommand.run(accesses, waiting, options)
    }
  }

  private static func check() throws { try CommandTail.check() }

  /// Carries the purpose of an outer `coordinate` to an inner one, which joins its claim.
  private static let variable = "UBIQUITYFS_CLAIM"

  private static func run(
    _ accesses: [ClaimedAccess], _ waiting: Waiting, _ options: GlobalOptions
  ) throws {
    let purpose =
      GlobalOptions.environment[variable].flatMap { $0.isEmpty ? nil : $0 }
      ?? "coordinate-\(getpid())-\(UInt64.random(in: 0...UInt64.max))"
    let client = try options.connect()
    let given = try client.call(
      Methods.Claim.self,
      ClaimRequest(accesses: accesses, purpose: purpose, timeout: waiting.limit))
    setenv(variable, purpose, 1)
    let status = try ChildProcess.run(CommandTail.command)
    do throws(ControlError) {
      _ = try client.call(Methods.ReleaseClaim.self, ReleaseRequest(claim: given.claim))
    } catch {
      throw ControlError(
        error.status,
        "the claim was lost while the command ran, so other programs may have used the items: "
          + error.message)
    }
    throw ExitCode(status)
  }
}
