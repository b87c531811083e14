internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Glibc

struct EventsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "events", abstract: "Show what happens in mounts, a line for each change.",
    discussion: """
      Goes on until it is interrupted or the daemon ends. A line is TIME EVENT PATH, then \
      “from” and the old path of what was moved, then “remote” and the device of what another one did.

      “overflow” means that events came faster than they were read and some are missing there: \
      look at everything anew.
      """)

  @Argument(
    help: "Only what is at or below it; it need not be there yet.", completion: .file())
  var path: String?
  @OptionGroup var options: GlobalOptions

  func run() throws {
    // Being told to stop is how it ends.
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
        throw ControlError(.failed, "the daemon's event is not understood: \(error)")
      }
    }
    _ = try client.call(
      Methods.SubscribeEvents.self, EventsRequest(item: item), onNotification: show)
    try client.listen(onNotification: show)
  }

  private static func text(_ event: EventReport) -> String {
    var words = [event.time, event.event, event.path.description]
    if event.event == "overflow" { words.append("(events are missing here; look at it anew)") }
    if let old = event.oldPath { words += ["from", old.description] }
    if event.origin == "remote" { words += ["remote"] + [event.device].compactMap(\.self) }
    return words.joined(separator: " ")
  }
}
