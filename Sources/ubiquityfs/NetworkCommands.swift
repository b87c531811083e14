internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient

struct LimitCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "limit", abstract: "Show or set how much bandwidth content may take.",
    discussion: """
      RATE is in bytes a second: 500KB/s, 2MB/s, 1.5MiB/s; off takes a limit away. It holds from now \
      on, over restarts too. What a program waits for goes before what nobody waits for.
      """)

  @Option(help: ArgumentHelp("To the backend.", valueName: "rate")) var up: String?
  @Option(help: ArgumentHelp("From the backend.", valueName: "rate")) var down: String?
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let report = try options.connect().call(
      Methods.SetLimits.self, LimitRequest(up: up, down: down))
    if options.json { return try Terminal.printJSON(report) }
    options.say("Up: \(Self.text(report.uploadLimit)); down: \(Self.text(report.downloadLimit)).")
  }

  static func text(_ limit: UInt64?) -> String {
    limit.map { "\(Terminal.size($0))/s" } ?? "no limit"
  }
}

struct MeteredCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "metered", abstract: "Show or say whether the network's bytes cost money.",
    discussion: """
      While they do, content is sent only by `sync` and fetched only for who reads or asks for it; \
      names and metadata go on. With auto it is what the network says of itself.
      """)

  enum Mode: String, ExpressibleByArgument, CaseIterable { case on, off, auto }

  @Argument(help: "on, off or auto.") var mode: Mode?
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let report = try options.connect().call(
      Methods.SetMetered.self, MeteredRequest(mode: mode?.rawValue))
    if options.json { return try Terminal.printJSON(report) }
    options.say(Self.text(report))
  }

  static func text(_ report: MeteredReport) -> String {
    let mode = report.mode == "auto" ? " (auto)" : ""
    guard report.isMetered else { return "Not metered\(mode)." }
    return "Metered\(mode): \(report.reason ?? "")."
  }
}
