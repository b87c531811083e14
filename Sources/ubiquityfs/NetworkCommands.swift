internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient

struct LimitCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "limit", abstract: "Show or set the bandwidth limits of content.",
    discussion: """
      RATE is in bytes per second, such as 500KB/s, 2MB/s or 1.5MiB/s; off removes the limit. \
      Limits stay set after a restart. Content that a program waits for goes first.
      """)

  @Option(help: ArgumentHelp("The upload limit.", valueName: "rate")) var up: String?
  @Option(help: ArgumentHelp("The download limit.", valueName: "rate")) var down: String?
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let report = try options.connect().call(
      Methods.SetLimits.self, LimitRequest(up: up, down: down))
    if options.json { return try Terminal.printJSON(report) }
    options.say(
      "Upload: \(Self.text(report.uploadLimit)); download: \(Self.text(report.downloadLimit)).")
  }

  static func text(_ limit: UInt64?) -> String {
    limit.map { "\(Terminal.size($0))/s" } ?? "no limit"
  }
}

struct MeteredCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "metered", abstract: "Show or set whether the network is metered.",
    discussion: """
      On a metered network, only `sync` uploads content, and content is downloaded only when a \
      program reads it or a user requests it. Names and metadata still sync. With auto, the \
      setting of the network counts.
      """)

  enum Mode: String, ExpressibleByArgument, CaseIterable { case on, off, auto }

  @Argument(help: "Whether the network is metered.") var mode: Mode?
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
