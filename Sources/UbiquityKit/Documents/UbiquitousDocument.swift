public import Foundation
internal import Platform

/// A document that is a file or a package of a ubiquity container: it coordinates, presents itself,
/// saves by itself, takes over what other devices do, and says when there is a conflict. A subclass
/// says what is in it.
///
/// A subclass overrides `contents(forType:)` and `load(fromContents:ofType:)`, with `Data` for a
/// file and `FileWrapper` for a package, and calls `updateChangeCount(.done)` when somebody edited
/// it. The rest is here:
///
/// - **Saving** happens a moment after an edit, before others read or change the file, and when the
///   document closes. What is written takes the old content's place as a whole and is on the disk
///   then. A content that is what was loaded or saved last is not written: scrolling is no edit.
/// - **Changes of others**, programs or devices, are loaded when there are no unsaved changes.
///   Before they come, what is unsaved is saved, so that both contents are there and the container
///   decides which is current. A content that came unasked is kept beside the document, as `NAME
///   2.EXTENSION`, when it is saved.
/// - **Moves** are followed: `fileURL` changes. **Deletion** closes the document, after it was
///   saved.
/// - **Conflicts** set `State.inConflict` as long as
///   `NSFileVersion.unresolvedConflictVersionsOfItem(at:)` has some.
/// - **Format versions**: see `formatVersion`.
///
/// For the main actor; the disk is used on another thread. Source: Apple's documentation of
/// `UIDocument`; the iCloud Design Guide, "App Responsibilities for Using iCloud Documents" and
/// "Designing a Document File Format for iCloud".
@MainActor
open class UbiquitousDocument: NSFilePresenter {
  /// What is true of a document. Source: Apple's documentation of `UIDocument.State`.
  public struct State: OptionSet, Hashable, Sendable {
    public let rawValue: UInt
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// Open, and nothing is wrong with it.
    public static let normal: State = []
    /// Not open yet, or not any more.
    public static let closed = State(rawValue: 1 << 0)
    /// There are versions of it that lost a conflict, and nobody has dealt with them.
    public static let inConflict = State(rawValue: 1 << 1)
    /// It could not be saved the last time.
    public static let savingError = State(rawValue: 1 << 2)
    /// It is not to be edited now: somebody else is at it, or it is of a newer format.
    public static let editingDisabled = State(rawValue: 1 << 3)
    /// It is being downloaded: `progress` says how far it is.
    public static let progressAvailable = State(rawValue: 1 << 4)
  }

  /// What happened to the content. Source: Apple's documentation of `UIDocument.ChangeKind`.
  public enum ChangeKind: Sendable {
    /// An edit.
    case done
    /// An edit was taken back.
    case undone
    /// An edit that was taken back was made again.
    case redone
    /// There is nothing to save.
    case cleared
  }

  /// Why a document is saved. Source: Apple's documentation of `UIDocument.SaveOperation`.
  public enum SaveOperation: Sendable {
    /// It is to be at this place from now on.
    case forCreating
    /// It is there already.
    case forOverwriting
  }

  /// Posted on the main thread with the document as its object, when `documentState` has changed.
  nonisolated public static let stateChangedNotification = Notification.Name(
    "UbiquitousDocumentStateChangedNotification")

  let core: DocumentCore
  var loaded: DocumentContents?
  var edits = EditCount()
  var disabling: Set<DisablingReason> = []
  var autosaving: Task<Void, Never>?
  var unsavedSince: ContinuousClock.Instant?
  var isChecking = false
  var mustCheckAgain = false

  /// A document at `fileURL`, which need not be there yet: `open` loads it, `save(to:for:)` makes
  /// it.
  public init(fileURL: URL) {
    core = DocumentCore(fileURL)
  }

  // MARK: To be overridden

  /// What is to be stored: `Data`, or a `FileWrapper`. Errors are those of saving. The default
  /// throws: a document without content is none.
  open func contents(forType typeName: String) throws -> Any {
    throw UbiquityErrors.cocoa(
      .featureUnsupported, "\(type(of: self)) does not override contents(forType:)", at: nil)
  }

  /// Takes over what was stored: `Data` of a file, a `FileWrapper` of a directory. Called when the
  /// document is opened, and whenever another content has come. `typeName` is the name's extension.
  /// The default throws.
  open func load(fromContents contents: Any, ofType typeName: String?) throws {
    throw UbiquityErrors.cocoa(
      .featureUnsupported, "\(type(of: self)) does not override load(fromContents:ofType:)",
      at: nil)
  }

  /// Something went wrong while the document was opened, saved or taken over. The default does
  /// nothing.
  open func handleError(_ error: any Error, userInteractionPermitted: Bool) {}

  /// Called before somebody else changes the document: it is not to be edited until
  /// `enableEditing`.
  open func disableEditing() {}

  /// Called when the document may be edited again.
  open func enableEditing() {}

  /// The version of the format in which this program writes the document. It is stored with the
  /// document, as the extended attribute `user.document.formatVersion`, which goes to every device;
  /// 0, the default, stores none.
  ///
  /// A document of a greater version was written by a newer program: it opens for reading alone,
  /// with a `NewerDocumentFormat` for `handleError`, so that an older program does not spoil it.
  /// Source: the iCloud Design Guide, "Use a format version number".
  open class var formatVersion: Int { 0 }

  /// The format version of a content, where that says it itself; nil, the default: as the attribute
  /// says.
  open func formatVersion(ofContents contents: Any) -> Int? { nil }

  /// Whether the document may be edited, and so saved as `formatVersion`, when it is of this
  /// version.
  open func canEdit(formatVersion version: Int) -> Bool { version <= Self.formatVersion }

  /// Seconds without a further edit after which the document is saved. 1.
  open var autosavingDelay: TimeInterval { 1 }

  // MARK: What it is

  /// Where it is now. From any thread.
  nonisolated public var fileURL: URL { core.url }
  /// The name to show: without its extension.
  open var localizedName: String { fileURL.deletingPathExtension().lastPathComponent }
  /// The name's extension; nil if there is none.
  open var fileType: String? { fileURL.pathExtension.isEmpty ? nil : fileURL.pathExtension }
  /// When the content was changed that was loaded or saved last.
  public internal(set) var fileModificationDate: Date?
  /// How far a download is; of use while the state has `progressAvailable`.
  public let progress = Progress(totalUnitCount: 100)

  /// What is true of it now.
  public internal(set) var documentState: State = .closed {
    didSet {
      guard documentState != oldValue else { return }
      NotificationCenter.default.post(name: Self.stateChangedNotification, object: self)
    }
  }

  // MARK: Changes

  /// There is something that is not stored yet.
  open var hasUnsavedChanges: Bool { edits.hasUnsaved }

  /// To be called when somebody edited the content: it is saved soon.
  open func updateChangeCount(_ change: ChangeKind) {
    edits.note(change)
    noteUnsaved()
  }

  /// What `updateChangeCount(withToken:for:)` takes when what is here now is stored.
  open func changeCountToken(for operation: SaveOperation) -> Any { edits.token }

  /// What was here when the token was made is stored.
  open func updateChangeCount(withToken token: Any, for operation: SaveOperation) {
    guard let token = token as? EditCount.Token else { return }
    edits.stored(token)
    noteUnsaved()
  }

  // MARK: Its life

  /// Loads it, waiting for its download, and presents it. False, after `handleError`, when that
  /// cannot be done. One that is open already stays as it is.
  @discardableResult
  open func open() async -> Bool { await performOpen() }

  /// Saves what is unsaved, and lets go of the file. False, and still open, when it cannot be
  /// saved.
  @discardableResult
  open func close() async -> Bool { await performClose() }

  /// Stores the content at `url`. With `.forCreating` the document is there from then on, and open;
  /// what was there is replaced. False, after `handleError`, when that cannot be done.
  @discardableResult
  open func save(to url: URL, for operation: SaveOperation) async -> Bool {
    await performSave(to: url, for: operation)
  }

  /// Stores what is unsaved, where the document is.
  @discardableResult
  open func autosave() async -> Bool {
    guard hasUnsavedChanges else { return true }
    return await save(to: fileURL, for: .forOverwriting)
  }

  /// Takes over what is stored at `url`, and drops what is unsaved. What is not the document's own
  /// file counts as an edit.
  @discardableResult
  open func revert(toContentsOf url: URL) async -> Bool { await performRevert(to: url) }

  // MARK: NSFilePresenter

  nonisolated public var presentedItemURL: URL? { core.url }
  nonisolated public var presentedItemOperationQueue: OperationQueue { core.presenting }

  nonisolated open func relinquishPresentedItem(
    toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
  ) { letRead(reader) }

  nonisolated open func relinquishPresentedItem(
    toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
  ) { letWrite(writer) }

  nonisolated open func savePresentedItemChanges(
    completionHandler: @escaping @Sendable ((any Error)?) -> Void
  ) { saveForOthers(completionHandler) }

  nonisolated open func accommodatePresentedItemDeletion(
    completionHandler: @escaping @Sendable ((any Error)?) -> Void
  ) { closeForDeletion(completionHandler) }

  nonisolated open func accommodatePresentedSubitemDeletion(
    at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void
  ) { saveForOthers(completionHandler) }

  nonisolated open func presentedSubitemDidAppear(at url: URL) { Task { await self.check() } }
  nonisolated open func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) {
    Task { await self.check() }
  }
  nonisolated open func presentedSubitemDidChange(at url: URL) { Task { await self.check() } }

  nonisolated open func presentedItemDidMove(to newURL: URL) { core.url = newURL }
  nonisolated open func presentedItemDidChange() { Task { await self.check() } }
  nonisolated open func presentedItemDidGain(_ version: NSFileVersion) {
    Task { await self.check() }
  }
  nonisolated open func presentedItemDidLose(_ version: NSFileVersion) {
    Task { await self.check() }
  }
  nonisolated open func presentedItemDidResolveConflict(_ version: NSFileVersion) {
    Task { await self.check() }
  }
}

/// A document was written by a newer program, and can be read only.
public struct NewerDocumentFormat: LocalizedError, Hashable, Sendable {
  /// The document.
  public let url: URL
  /// Of the document.
  public let documentVersion: Int
  /// What this program writes.
  public let supportedVersion: Int

  public var errorDescription: String? {
    "\"\(url.lastPathComponent)\" has format version \(documentVersion), but this program supports "
      + "only version \(supportedVersion). Update the program to change the document."
  }
}

/// Apple's forms with completion handlers, which run on the main thread.
extension UbiquitousDocument {
  /// As `open()`.
  public func open(completionHandler: (@MainActor @Sendable (Bool) -> Void)? = nil) {
    Task {
      let result = await self.open()
      completionHandler?(result)
    }
  }

  /// As `close()`.
  public func close(completionHandler: (@MainActor @Sendable (Bool) -> Void)? = nil) {
    Task {
      let result = await self.close()
      completionHandler?(result)
    }
  }

  /// As `save(to:for:)`.
  public func save(
    to url: URL, for operation: SaveOperation,
    completionHandler: (@MainActor @Sendable (Bool) -> Void)? = nil
  ) {
    Task {
      let result = await self.save(to: url, for: operation)
      completionHandler?(result)
    }
  }

  /// As `autosave()`.
  public func autosave(completionHandler: (@MainActor @Sendable (Bool) -> Void)? = nil) {
    Task {
      let result = await self.autosave()
      completionHandler?(result)
    }
  }

  /// As `revert(toContentsOf:)`.
  public func revert(
    toContentsOf url: URL, completionHandler: (@MainActor @Sendable (Bool) -> Void)? = nil
  ) {
    Task {
      let result = await self.revert(toContentsOf: url)
      completionHandler?(result)
    }
  }
}
