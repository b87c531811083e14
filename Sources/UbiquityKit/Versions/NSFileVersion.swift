public import Foundation
internal import Platform

/// One content that a document in a container has, or had and lost a conflict with.
///
/// A document has its current version, and for each edit that another device made without knowing
/// of it one that lost: of two the one modified later is current. Those wait to be looked at. Mark
/// each of them as resolved, on whichever device, and remove it when nobody wants it any more:
/// until then it counts in the account's storage. Nothing else makes versions, and none goes by
/// itself.
///
/// Objects are snapshots: what is done elsewhere shows in ones that are asked for anew. For any
/// thread; what asks the daemon, which all but the properties do, may wait for it and is not for
/// the main thread. What changes the document itself (``replaceItem(at:options:)``) belongs in a
/// coordinated write.
///
/// Source: iCloud Design Guide, "App Responsibilities for Using iCloud Documents".
public final class NSFileVersion: NSObject, Sendable {
  /// How ``replaceItem(at:options:)`` takes the version's content.
  public struct ReplacingOptions: OptionSet, Sendable {
    public let rawValue: UInt

    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// The version is removed when its content is in its new place.
    public static let byMoving = ReplacingOptions(rawValue: 1)
  }

  let facts: VersionFacts
  private let resolved: Lock<Bool>

  init(_ facts: VersionFacts) {
    self.facts = facts
    resolved = Lock(facts.isResolved)
  }

  /// What a presenter is told of, which may be gone by now.
  convenience init(told identifier: String, of url: URL) {
    let store = try? VersionStore(url)
    let found = ([store?.current].compactMap(\.self) + (store?.others ?? []))
      .first { $0.identifier == identifier }
    self.init(
      found
        ?? VersionFacts(
          document: url, item: nil, identifier: identifier, url: url, isCurrent: false,
          isConflict: true, isResolved: true, device: nil, modified: nil, hasLocalContents: false))
  }

  // MARK: Finding

  /// The version that the document itself shows; nil when nothing is there. A document that is in
  /// no container has this one alone.
  public static func currentVersionOfItem(at url: URL) -> NSFileVersion? {
    (try? VersionStore(url))?.current.map(NSFileVersion.init)
  }

  /// All but the current one, the latest first, resolved or not; nil when nothing is there.
  public static func otherVersionsOfItem(at url: URL) -> [NSFileVersion]? {
    try? VersionStore(url).others.map(NSFileVersion.init)
  }

  /// Those that lost a conflict and are not marked as resolved, the latest first; nil when nothing
  /// is there.
  public static func unresolvedConflictVersionsOfItem(at url: URL) -> [NSFileVersion]? {
    otherVersionsOfItem(at: url)?.filter { $0.isConflict && !$0.isResolved }
  }

  /// The version of a ``persistentIdentifier``, on whatever device and however long ago it was
  /// given; nil when the document has no such version any more.
  public static func version(
    itemAt url: URL, forPersistentIdentifier persistentIdentifier: Any
  ) -> NSFileVersion? {
    let wanted = "\(persistentIdentifier)"
    guard let store = try? VersionStore(url) else { return nil }
    return ([store.current].compactMap(\.self) + store.others).first { $0.identifier == wanted }
      .map(NSFileVersion.init)
  }

  /// Those of the other versions whose content would have to be fetched. `completionHandler` is
  /// called once, on another thread, with them or with a `CocoaError`.
  public static func getNonlocalVersionsOfItem(
    at url: URL,
    completionHandler: @escaping @Sendable ([NSFileVersion]?, (any Error)?) -> Void
  ) {
    _ = startThread {
      do {
        let others = try VersionStore(url).others
        completionHandler(others.filter { !$0.hasLocalContents }.map(NSFileVersion.init), nil)
      } catch {
        completionHandler(nil, error)
      }
    }
  }

  /// As ``getNonlocalVersionsOfItem(at:completionHandler:)``.
  public static func nonlocalVersionsOfItem(at url: URL) async throws -> [NSFileVersion] {
    try await ItemCalls.onThread {
      try VersionStore(url).others.filter { !$0.hasLocalContents }.map(NSFileVersion.init)
    }
  }

  // MARK: What it is

  /// Where its content can be read, and fetches it where it is not here: the document itself for
  /// the current version, and a file that cannot be written for others. Of a package it is a tar
  /// archive. It is gone when the version is.
  public var url: URL { facts.url }

  /// The document's name.
  public var localizedName: String? { facts.document.lastPathComponent }

  /// The name of the device that saved it; its identifier where the name is not known.
  public var localizedNameOfSavingComputer: String? { facts.device }

  /// When it was modified, by the clock of the device that saved it.
  public var modificationDate: Date? { facts.modified }

  /// Names the version among those of its document, on every device of the account and in times to
  /// come: an `NSString`. Of a content that is not in the backend yet it is `local`.
  public var persistentIdentifier: any NSCoding { NSString(string: facts.identifier) }

  /// Whether it lost a conflict. The current version did not.
  public var isConflict: Bool { facts.isConflict }

  /// Whether somebody has looked at the conflict: always true of the current version.
  ///
  /// Setting it marks the version on every device, which needs the backend; read it to see whether
  /// that worked, or use ``setResolved(_:)``. It does not remove the version.
  public var isResolved: Bool {
    get { resolved.withLock { $0 } }
    set { try? setResolved(newValue) }
  }

  /// Whether the system may remove it to make room: never.
  public var isDiscardable: Bool { false }

  /// Whether its content is on this device.
  public var hasLocalContents: Bool { facts.hasLocalContents }

  /// Whether there is a small picture of it: never on Linux.
  public var hasThumbnail: Bool { false }

  // MARK: Doing

  /// As ``isResolved``, with what went wrong: a `CocoaError`,
  /// `ubiquitousFileUbiquityServerNotAvailable` for one. A version that is gone by now is resolved.
  public func setResolved(_ isResolved: Bool) throws {
    guard isResolved != self.isResolved else { return }
    guard isConflict else {
      throw UbiquityErrors.cocoa(
        .featureUnsupported, "the current version is not a conflict version", at: facts.document)
    }
    try facts.mark(resolved: isResolved)
    resolved.withLock { $0 = isResolved }
  }

  /// Gives the document at `url`, this one or any other, this version's content, and returns where
  /// it is.
  ///
  /// The whole content is fetched first, and then takes the place of the document's, which keeps
  /// its mode, its attributes and its other versions. To be called within a coordinated write, as
  /// others could see it half done. Of a package the archive is unpacked, which takes the program
  /// `tar`. Throws `CocoaError`: `ubiquitousFileUbiquityServerNotAvailable` when the content is not
  /// here and cannot be fetched, `fileReadNoSuchFile` when the version is gone, `fileLocking` when
  /// another device's version has become current since this one was asked for: ask for the versions
  /// again.
  @discardableResult
  public func replaceItem(at url: URL, options: ReplacingOptions = []) throws -> URL {
    try facts.checkCurrent(at: url)
    try VersionReplacement.run(facts, at: url)
    if options.contains(.byMoving), !facts.isCurrent { try remove() }
    return url
  }

  /// Removes the version on every device. Not the current one, which is `featureUnsupported`:
  /// remove the document. One that is gone by now is `fileNoSuchFile`.
  public func remove() throws {
    guard !facts.isCurrent else {
      throw UbiquityErrors.cocoa(
        .featureUnsupported, "cannot remove the current version; remove the document instead",
        at: facts.document)
    }
    try facts.remove()
  }

  /// Removes all but the current version, whether they are resolved or not, on every device. What
  /// is in no container has none.
  public static func removeOtherVersionsOfItem(at url: URL) throws {
    try VersionStore(url).removeOthers()
  }

  // MARK: Comparing

  public override func isEqual(_ object: Any?) -> Bool {
    guard let other = object as? NSFileVersion else { return false }
    return facts.document == other.facts.document && facts.identifier == other.facts.identifier
  }

  public override var hash: Int { facts.identifier.hashValue }

  public override var description: String {
    "NSFileVersion(\(facts.identifier.prefix(8)), \(isConflict ? "conflict" : "current"))"
  }
}
