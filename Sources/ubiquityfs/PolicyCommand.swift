internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Model

struct PolicyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "policy",
    abstract: "Show or set the download policy of a directory on this device.",
    discussion: """
      A policy says when files below the directory are downloaded:
        inherit: use the policy of the parent directory, or of the mount.
        downloadLazily: download content when a program reads it.
        downloadLazilyAndEvictOnRemoteUpdate: the same, and a remote update evicts local content.
        downloadEagerlyAndKeepDownloaded: download new content at once, and never evict it for room.
      """)

  private static let names = DownloadPolicy.allCases.map(\.rawValue)

  @Argument(
    help: "A directory in a mount; to show the policy, also a file.", completion: .file())
  var path: String
  @Argument(help: "The new policy (default: show the policy).", completion: .list(names))
  var policy: String?
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let items = try RawArguments.items([path])
    let answer = try options.connect().call(
      Methods.Policy.self, PolicyRequest(items: items, policy: policy))
    if options.json { return try Terminal.printJSON(answer) }
    guard policy == nil else { return }
    for item in answer.items {
      let own = item.policy ?? "not a directory"
      Terminal.line(
        own == item.effectivePolicy ? own : "\(own); in effect: \(item.effectivePolicy)")
    }
  }
}
