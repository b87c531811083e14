internal import ControlProtocol
internal import DaemonClient
public import Foundation
internal import Platform

/// A content of an item: the current one, or one that lost a conflict.
///
/// Blocks while the daemon answers. Source: Apple's documentation of `NSFileVersion`.
public final class NSFileVersion: Sendable {
  /// What tells it from the item's other versions, on every device.
  public let persistentIdentifier: String
  /// The item.
  public let url: URL
  private let listed: ListedVersion?
  private let resolved: Lock<Bool>

  init(_ identifier: String, of url: URL, _ listed: ListedVersion?) {
    persistentIdentifier = identifier
    self.url = url
    self.listed = listed
    resolved = Lock(listed?.isResolved ?? true)
  }

  /// The device that saved it.
  public var localizedNameOfSavingComputer: String? { listed?.device }
  /// It lost a conflict.
  public var isConflict: Bool { listed?.isConflict ?? false }
  /// When it was saved.
  public var modificationDate: Date? {
    listed.flatMap {
      try? Date(
        $0.modified, strategy: .iso8601.year().month().day().time(includingFractionalSeconds: true))
    }
  }

  /// Whether somebody has dealt with the conflict.
  public var isResolved: Bool {
    get { resolved.withLock { $0 } }
    set { resolved.withLock { $0 = newValue } }
  }

  /// Those that lost a conflict that nobody has dealt with; nil when it cannot be said.
  public static func unresolvedConflictVersionsOfItem(at url: URL) -> [NSFileVersion]? {
    try? list(url).filter { $0.listed?.isConflict == true && !$0.isResolved }
  }

  /// The one of that identifier.
  public static func version(
    itemAt url: URL, forPersistentIdentifier identifier: Any
  ) -> NSFileVersion? {
    try? list(url).first { $0.persistentIdentifier == "\(identifier)" }
  }

  /// Removes all but the current version, on every device.
  public static func removeOtherVersionsOfItem(at url: URL) throws {
    let others = try list(url).filter { $0.listed?.isCurrent == false }
    try remove(others.map(\.persistentIdentifier), of: url)
  }

  /// Removes this version, on every device.
  public func remove() throws { try Self.remove([persistentIdentifier], of: url) }

  /// Makes the item's content that of this version. Within a claim for writing.
  @discardableResult
  public func replaceItem(at url: URL) throws -> URL {
    var content = Data()
    do throws(ControlError) {
      let client = try ControlClient.connect(state: Service.shared.stateDirectory, launcher: nil)
      let item = try ItemLocator.locate(self.url.pathBytes)
      _ = try client.call(
        Methods.ReadVersion.self, VersionRequest(item: item, version: persistentIdentifier)
      ) { name, line throws(ControlError) in
        guard name == Notifications.data else { return }
        guard let piece = try? Message.parameters(DataPiece.self, in: line),
          let bytes = Data(base64Encoded: piece.base64)
        else { throw ControlError(.failed, "the daemon sent content that is not understood") }
        content.append(bytes)
      }
    } catch {
      throw CoordinationError.from(error, reads: true, self.url)
    }
    try content.write(to: url)
    return url
  }

  private static func list(_ url: URL) throws -> [NSFileVersion] {
    do throws(ControlError) {
      let item = try ItemLocator.locate(url.pathBytes)
      let report = try Service.shared.connection().callAndWait(
        Methods.ListVersions.self, ItemRequest(item: item))
      return report.versions.map { NSFileVersion($0.id, of: url, $0) }
    } catch {
      throw CoordinationError.from(error, reads: true, url)
    }
  }

  private static func remove(_ identifiers: [String], of url: URL) throws {
    guard !identifiers.isEmpty else { return }
    do throws(ControlError) {
      let item = try ItemLocator.locate(url.pathBytes)
      _ = try Service.shared.connection().callAndWait(
        Methods.RemoveVersions.self, RemoveVersionsRequest(item: item, versions: identifiers))
    } catch {
      throw CoordinationError.from(error, reads: false, url)
    }
  }
}

/// The version that a presenter is told of, which may be gone already.
enum PresentedVersion {
  static func make(_ identifier: String, of url: URL) -> NSFileVersion {
    NSFileVersion.version(itemAt: url, forPersistentIdentifier: identifier)
      ?? NSFileVersion(identifier, of: url, nil)
  }
}
