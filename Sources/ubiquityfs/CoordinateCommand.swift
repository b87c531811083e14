internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Glibc

struct CoordinateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "coordinate", abstract: "Run a command while holding a claim on items.",
    discussion: """
      Readers share, a writer is alone, and a claim on a directory or a package covers all in it. \
      Other devices' changes are not applied to what is claimed, and what a writer does is uploaded \
      when its claim is over, not before.

      Ends with the command's own status. A `coordinate` that the command runs has part in its claim.
      """,
    subcommands: [Read.self, Write.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("Say read or write.") }

  struct Waiting: ParsableArguments {
    @Option(help: ArgumentHelp("Give up after this many seconds.", valueName: "s"))
    var timeout: Double?
    @Flag(inversion: .prefixedNo, help: "Wait for others' claims (default), or fail at once.")
    var wait = true

    func validate() throws {
      if let timeout, !(timeout >= 0 && timeout < 1e9) {
        throw ValidationError("--timeout takes a number of seconds.")
      }
    }

    var limit: Double? { wait ? timeout : 0 }
  }

  struct Read: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "read", abstract: "Read items while nobody changes them.",
      usage: "ubiquityfs coordinate read PATH... -- COMMAND [ARGUMENT...]")

    @Argument(help: "Items in a mount.", completion: .file()) var paths: [String]
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
      commandName: "write", abstract: "Change items while nobody else reads or changes them.",
      usage: "ubiquityfs coordinate write PATH... [--for WHAT] -- COMMAND [ARGUMENT...]")

    private static let purposes = [
      "deleting": "forDeleting", "moving": "forMoving", "merging": "forMerging",
      "replacing": "forReplacing",
    ]

    @Argument(help: "Items in a mount; they need not be there yet.", completion: .file())
    var paths: [String]
    @Option(
      name: .customLong("for"),
      help: ArgumentHelp(
        "What will be done: deleting, moving, merging, replacing, or several with commas.",
        valueName: "what"))
    var purpose: String?
    @OptionGroup var waiting: Waiting
    @OptionGroup var options: GlobalOptions

    private func writingOptions() throws -> [String] {
      try (purpose ?? "").split(separator: ",").map { word in
        guard let option = Self.purposes[String(word)] else {
          throw ValidationError(
            "--for takes \(Self.purposes.keys.sorted().joined(separator: ", ")), not “\(word)”.")
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
      // Of several, each is an access of its own: an access has one option.
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

  /// By which a `coordinate` finds that it runs within another.
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
        error.status, "the claim was lost while the command ran: \(error.message)")
    }
    throw ExitCode(status)
  }
}
