internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Model

struct PolicyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "policy",
    abstract: "Show or set what becomes of the content of files below a directory.",
    discussion: """
      inherit: as the directory above has it. downloadLazily: content comes when it is read. \
      downloadLazilyAndEvictOnRemoteUpdate: as well, and a newer content of another device takes the \
      place of what is here without coming itself. downloadEagerlyAndKeepDownloaded: content comes as \
      soon as it is known, and is not evicted to make room. It holds on this device alone.
      """)

  private static let names = DownloadPolicy.allCases.map(\.rawValue)

  @Argument(help: "A directory in a mount; without a policy any item.", completion: .file())
  var path: String
  @Argument(help: "The policy it is to have.", completion: .list(names)) var policy: String?
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let items = try RawArguments.items([path])
    let answer = try options.connect().call(
      Methods.Policy.self, PolicyRequest(items: items, policy: policy))
    if options.json { return try Terminal.printJSON(answer) }
    guard policy == nil else { return }
    for item in answer.items {
      let own = item.policy ?? "no directory"
      Terminal.line(
        own == item.effectivePolicy ? own : "\(own), so it is \(item.effectivePolicy) here")
    }
  }
}
