internal import ControlProtocol
internal import Foundation
internal import Glibc
internal import Platform
internal import SystemPackage

/// What is known of one version.
struct VersionFacts: Sendable {
  /// The document's.
  let document: URL
  /// Nil where the document is in no container.
  let item: ItemReference?
  /// As the daemon names it; `local` for what the backend does not have yet.
  let identifier: String
  let url: URL
  let isCurrent: Bool
  let isConflict: Bool
  let isResolved: Bool
  let device: String?
  let modified: Date?
  let hasLocalContents: Bool
  /// The version that was current when this was asked for; nil where the document is in no
  /// container.
  var currentThen: String?

  /// Throws where another device's version has become current since: this program has not seen it.
  func checkCurrent(at url: URL) throws(CocoaError) {
    guard let currentThen, let item, document.standardizedFileURL == url.standardizedFileURL else {
      return
    }
    let listed = try ItemCalls.call(
      Methods.ListVersions.self, ItemRequest(item: item), .reading, at: document
    ).versions
    guard let now = listed.first(where: \.isCurrent), now.id != currentThen else { return }
    let own = try ItemCalls.call(
      Methods.AccountStatus.self, Nothing(), .reading, at: document
    ).deviceIdentifier
    // A version that was saved here since is this device's own. Names do not tell: two devices may
    // have the same one.
    guard now.deviceIdentifier != own else { return }
    throw UbiquityErrors.cocoa(
      .fileLocking,
      "\"\(document.lastPathComponent)\" has a new current version, saved by \"\(now.device)\"; "
        + "list its versions again",
      at: document)
  }

  func mark(resolved: Bool) throws(CocoaError) {
    guard let item else { return }
    _ = try ItemCalls.call(
      Methods.MarkVersions.self,
      MarkVersionsRequest(item: item, versions: [identifier], resolved: resolved), .writing,
      at: document)
  }

  func remove() throws(CocoaError) {
    guard let item else { return }
    _ = try ItemCalls.call(
      Methods.RemoveVersions.self, RemoveVersionsRequest(item: item, versions: [identifier]),
      .writing, at: document)
  }
}

/// A document's versions, as they were when they were asked for.
struct VersionStore {
  private static let local = "local"

  private let document: URL
  private let item: ItemReference?
  let current: VersionFacts?
  /// The latest first.
  let others: [VersionFacts]

  /// Throws when nothing is there, or it is a directory that is no document.
  init(_ url: URL) throws(CocoaError) {
    document = url
    let path = try ItemCalls.path(url)
    let status: Glibc.stat
    do throws(Errno) { status = try path.status() } catch {
      throw UbiquityErrors.cocoa(error, .reading, at: url)
    }
    let modified = Date(
      timeIntervalSince1970: Double(status.st_mtim.tv_sec) + Double(status.st_mtim.tv_nsec) / 1e9)
    guard let item = try? ItemCalls.locate(url, .reading), !VersionsPlace.contains(item) else {
      item = nil
      others = []
      current = VersionFacts(
        document: url, item: nil, identifier: Self.local, url: url, isCurrent: true,
        isConflict: false, isResolved: true, device: nil, modified: modified,
        hasLocalContents: true)
      return
    }
    self.item = item
    let listed = try ItemCalls.call(
      Methods.ListVersions.self, ItemRequest(item: item), .reading, at: url
    ).versions
    let currentNow = listed.first { $0.isCurrent }?.id
    others = listed.filter { !$0.isCurrent }.map { Self.facts($0, item, url, currentNow) }
    // What was edited here and is not sent yet is nobody else's version so far.
    let state = try ItemState.of(url)
    let known = listed.first { $0.isCurrent && state?.isUploaded == true }
    var device = known?.device
    if device == nil {
      device = try ItemCalls.call(Methods.AccountStatus.self, Nothing(), .reading, at: url).device
    }
    current = VersionFacts(
      document: url, item: item, identifier: known?.id ?? Self.local, url: url, isCurrent: true,
      isConflict: false, isResolved: true, device: device, modified: modified,
      hasLocalContents: state?.downloadingStatus != "notDownloaded")
  }

  func removeOthers() throws(CocoaError) {
    guard let item, !others.isEmpty else { return }
    _ = try ItemCalls.call(
      Methods.RemoveVersions.self,
      RemoveVersionsRequest(item: item, versions: others.map(\.identifier)), .writing, at: document)
  }

  private static func facts(
    _ listed: ListedVersion, _ item: ItemReference, _ url: URL, _ current: String?
  ) -> VersionFacts {
    VersionFacts(
      document: url, item: item, identifier: listed.id, url: place(of: listed.id, item),
      isCurrent: listed.isCurrent, isConflict: listed.isConflict, isResolved: listed.isResolved,
      device: listed.device, modified: date(listed.modified),
      hasLocalContents: listed.hasLocalContents, currentThen: current)
  }

  /// `MOUNT/.ubiquity/versions/PATH/VERSION`.
  private static func place(of version: String, _ item: ItemReference) -> URL {
    let bytes =
      item.mountpoint.bytes + [0x2F] + VersionsPlace.directory + Array("/versions/".utf8)
      + item.path.bytes + [0x2F] + Array(version.utf8)
    return (bytes.map { CChar(bitPattern: $0) } + [0]).withUnsafeBufferPointer {
      URL(
        fileURLWithFileSystemRepresentation: $0.baseAddress!, isDirectory: false, relativeTo: nil)
    }
  }

  /// RFC 3339 with nanoseconds, which Foundation's own formatter does not read.
  static func date(_ text: String) -> Date? {
    let parts = text.dropLast(text.hasSuffix("Z") ? 1 : 0).split(separator: ".")
    guard let whole = parts.first,
      let seconds = try? Date("\(whole)Z", strategy: Date.ISO8601FormatStyle())
    else { return nil }
    guard parts.count > 1, let fraction = Double("0.\(parts[1])") else { return seconds }
    return seconds.addingTimeInterval(fraction)
  }
}
