internal import ControlProtocol
internal import DaemonClient
public import Foundation
internal import Platform

extension FileManager {
  /// Whether there is an item at the URL and it is in a ubiquity container that is mounted.
  ///
  /// What is never uploaded (`.nosync`) is in its container all the same. Asks no daemon and no
  /// backend. For any thread.
  public func isUbiquitousItem(at url: URL) -> Bool {
    switch try? ItemState.attribute(ItemState.container, of: url) {
    case .value: true
    case .none?, nil: false
    case .noAttributes:
      (try? ItemCalls.locate(url, .reading)).map { !VersionsPlace.contains($0) } ?? false
    }
  }

  /// Has the content of an item brought to this device, of a directory all that is below it, and
  /// returns.
  ///
  /// Of what is here already nothing is done. A coordinated read, or opening and reading, brings
  /// the content as well; so does ``Foundation/FileManager/downloadUbiquitousItem(at:)``, which
  /// waits for it.
  ///
  /// Throws `CocoaError`: `fileReadNoSuchFile` for what is in no container,
  /// `ubiquitousFileUbiquityServerNotAvailable` in airplane mode. What fails later is the item's
  /// `ubiquitousItemDownloadingErrorKey`.
  ///
  /// Source: iCloud Design Guide, "App Responsibilities for Using iCloud Documents".
  public func startDownloadingUbiquitousItem(at url: URL) throws {
    let item = try ItemCalls.locate(url, .reading)
    _ = try ItemCalls.call(
      Methods.Download.self, DownloadRequest(items: [item], waits: false), .downloading, at: url)
  }

  /// Brings the content of an item to this device, of a directory all that is below it, and returns
  /// when it is here and the newest that is known of.
  ///
  /// Throws as ``Foundation/FileManager/startDownloadingUbiquitousItem(at:)``, and
  /// `ubiquitousFileUnavailable` when the content cannot be had, for one because the device that
  /// saved it has not sent it yet. A download goes on when the task is cancelled.
  public func downloadUbiquitousItem(at url: URL) async throws {
    try await ItemCalls.onThread { try Downloads.bring(url) }
  }

  /// Gives back the room that the content of an item takes on this device; of a directory, of all
  /// that is below it. The item stays, and its content comes again when it is read.
  ///
  /// Whoever presents the item is asked first, and given 5 s. Throws `CocoaError`: `fileLocking`
  /// while it is open, pinned, not uploaded yet or claimed by anybody, this program's own
  /// coordinated accesses included (elsewhere that would wait for ever); `fileWriteNoPermission`
  /// for what is never uploaded (`.nosync`); `fileNoSuchFile` for what is in no container. Not on
  /// the main thread.
  ///
  /// Source: iCloud Design Guide, "Your App Can Help Manage Local Storage in Some Cases".
  public func evictUbiquitousItem(at url: URL) throws {
    let item = try ItemCalls.locate(url, .writing)
    _ = try ItemCalls.call(Methods.Evict.self, ItemsRequest(items: [item]), .writing, at: url)
  }
}

enum Downloads {
  static func bring(_ url: URL) throws(CocoaError) {
    let item = try ItemCalls.locate(url, .reading)
    // Of a content that gives way to a newer one meanwhile the newer one is wanted.
    for _ in 0..<3 {
      _ = try ItemCalls.call(
        Methods.Download.self, DownloadRequest(items: [item], waits: true), .downloading, at: url)
      let report = try ItemCalls.call(
        Methods.ItemStatus.self, ItemsRequest(items: [item]), .downloading, at: url)
      guard let status = report.items.first, status.downloadingStatus != .current else { return }
      _ = try ItemCalls.call(
        Methods.Sync.self, SyncRequest(items: [item], waits: true, timeout: 60), .downloading,
        at: url)
    }
    throw UbiquityErrors.cocoa(
      .ubiquitousFileUnavailable, "remote devices change the item faster than it downloads",
      at: url)
  }
}

/// Where a mount shows versions as files; what is there is no item.
enum VersionsPlace {
  static let directory = Array(".ubiquity".utf8)

  static func contains(_ item: ItemReference) -> Bool {
    item.path.bytes.prefix { $0 != 0x2F } == directory[...]
  }
}
