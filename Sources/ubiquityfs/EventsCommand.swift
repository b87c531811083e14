internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Glibc

struct EventsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "events", abstract: "Show changes in mounts as they happen, one line each.",
    discussion: """
      Runs until it is interrupted or the daemon ends. A line is TIME EVENT PATH. A move adds \
      "from" and the old path. A change by a remote device adds "remote" and the device's name.

      The event "overflow" means that events were lost, because they came faster than they were \
      read: scan the mounts again.
      """)

  @Argument(
    help: "A file or directory in a mount; it may not exist yet (default: all mounts).",
    completion: .file())
  var path: String?
  @OptionGroup var options: GlobalOptions

  func run() throws {
    // A signal is the normal end of this command.
    for number in [SIGTERM, SIGINT] { signal(number) { _ in _exit(0) } }
    let item = try path.map { try ItemLocator.locateFormer(RawArguments.path($0)) }
    let client = try options.connect()
    let isJSON = options.json
    func show(_ name: String, _ line: [UInt8]) throws(ControlError) {
      guard name == Notifications.event else { return }
      do {
        let event = try Message.parameters(EventReport.self, in: line)
        Terminal.line(try isJSON ? Terminal.json(event) : Self.text(event))
      } catch {
        throw ControlError(.failed, "cannot decode the daemon's event: \(error)")
      }
    }
    _ = try client.call(
      Methods.SubscribeEvents.self, EventsRequest(item: item), onNotification: show)
    try client.listen(onNotification: show)
  }

  private static func text(_ event: EventReport) -> String {
    var words = [event.time, event.event, event.path.description]
    if event.event == "overflow" { words.append("(events were lost; scan again)") }
    if let old = event.oldPath { words += ["from", old.description] }
    if event.origin == "remote" { words += ["remote"] + [event.device].compactMap(\.self) }
    return words.joined(separator: " ")
  }
}
