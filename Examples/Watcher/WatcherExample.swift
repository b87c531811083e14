import Foundation
import UbiquityKit

/// Shows the documents of the account's containers, and goes on to show what happens to them, until
/// the input ends: `watcher-example [PATTERN]`, as in `watcher-example '*.txt'`.
@main
enum WatcherExample {
  static func main() async {
    let query = NSMetadataQuery()
    query.searchScopes = [NSMetadataQueryUbiquitousDocumentsScope]
    query.predicate = MetadataPredicate(
      format: "%K LIKE %@", NSMetadataItemFSNameKey, CommandLine.arguments.dropFirst().first ?? "*")
    query.sortDescriptors = [.init(key: NSMetadataItemPathKey)]
    query.notificationBatchingInterval = 0.2

    // A stream is what tasks have instead of the notifications.
    let updates = query.updates
    query.start()
    Thread.detachNewThread {
      while readLine() != nil {}
      exit(0)
    }
    for await update in updates {
      switch update.phase {
      case .gathering: break
      case .gathered:
        if let error = query.error { say("! \(error.localizedDescription)") }
        for item in query.results { show("=", item) }
        say("\(query.resultCount) documents")
      case .update:
        for item in update.added { show("+", item) }
        for item in update.changed { show("~", item) }
        for item in update.removed { show("-", item) }
      }
    }
  }

  /// A mark, where the document is, and what of it is here.
  private static func show(_ mark: String, _ item: Any) {
    guard let item = item as? NSMetadataItem else { return }
    let path = item.value(forAttribute: NSMetadataItemPathKey) as? String ?? "?"
    say("\(mark) \(state(of: item).padding(toLength: 14, withPad: " ", startingAt: 0)) \(path)")
  }

  private static func state(of item: NSMetadataItem) -> String {
    func isTrue(_ key: String) -> Bool {
      (item.value(forAttribute: key) as? NSNumber)?.boolValue ?? false
    }
    if isTrue(NSMetadataUbiquitousItemHasUnresolvedConflictsKey) { return "in conflict" }
    if isTrue(NSMetadataUbiquitousItemIsDownloadingKey) {
      let percent = item.value(forAttribute: NSMetadataUbiquitousItemPercentDownloadedKey)
      return "downloads \((percent as? NSNumber)?.intValue ?? 0)%"
    }
    if isTrue(NSMetadataUbiquitousItemIsUploadingKey) { return "uploads" }
    let status = item.value(forAttribute: NSMetadataUbiquitousItemDownloadingStatusKey) as? String
    switch status {
    case NSMetadataUbiquitousItemDownloadingStatusNotDownloaded: return "in the cloud"
    case NSMetadataUbiquitousItemDownloadingStatusDownloaded: return "outdated"
    default: return isTrue(NSMetadataUbiquitousItemIsUploadedKey) ? "here" : "here alone"
    }
  }

  private static func say(_ text: String) {
    FileHandle.standardOutput.write(Data((text + "\n").utf8))
  }
}
