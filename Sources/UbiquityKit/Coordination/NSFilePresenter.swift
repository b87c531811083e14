public import Foundation

/// An object that shows an item, or keeps something of it in memory: it is asked before others come
/// to the item, and told of what happened to it.
///
/// - **Asking.** What has a completion has to call it, once, from any thread, within 5 seconds;
///   whoever waits goes on without it after that. Until then the presenter may coordinate itself,
///   to save for one: that does not wait for who asks. A completion with an error makes the claim
///   that waits fail with that error's description.
/// - **Telling.** What has happened, on this device or another; several changes that follow each
///   other may be told once.
/// - **Packages.** What happens in a presented package is told as of a subitem, and as
///   `presentedItemDidChange`.
/// - **Threads.** Everything comes on `presentedItemOperationQueue`, one after the other and in the
///   order in which it happened, whatever queue that is.
/// - **Who is left out.** Coordinators that were made with the presenter do not ask it.
/// - After the daemon was restarted, `presentedItemDidChange` is called: nobody knows what was
///   missed.
///
/// Everything but `presentedItemURL` and `presentedItemOperationQueue` has a default: to answer at
/// once, and to do nothing when told. Source: Apple's documentation of `NSFilePresenter`.
public protocol NSFilePresenter: AnyObject {
  /// The item; nil when nothing is presented yet. Read when the presenter is added, from any
  /// thread. It is the presenter's to change in `presentedItemDidMove(to:)`.
  var presentedItemURL: URL? { get }
  /// Where all other methods are called. Not one on which this program waits for claims.
  var presentedItemOperationQueue: OperationQueue { get }
  /// Of an item that belongs to another, its main item. Nothing is made of it here.
  var primaryPresentedItemURL: URL? { get }
  /// The keys that `presentedItemDidChangeUbiquityAttributes` is to be called for; none: never.
  var observedPresentedItemUbiquityAttributes: Set<URLResourceKey> { get }

  /// Somebody is about to read the item. `reader` is to be called when nothing is written to it any
  /// more, with what is to run when the other has read.
  func relinquishPresentedItem(
    toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void)
  /// Somebody, or another device, is about to change the item. `writer` is to be called when it is
  /// neither read nor written any more, with what is to run when the other has written.
  func relinquishPresentedItem(
    toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void)
  /// Somebody is about to read the item: what is not stored yet has to be.
  func savePresentedItemChanges(
    completionHandler: @escaping @Sendable ((any Error)?) -> Void)
  /// The item is about to be removed or replaced.
  func accommodatePresentedItemDeletion(
    completionHandler: @escaping @Sendable ((any Error)?) -> Void)
  /// The item's content is about to leave this device; the item stays.
  func accommodatePresentedItemEviction(
    completionHandler: @escaping @Sendable ((any Error)?) -> Void)
  /// Something in the presented directory is about to be removed or replaced.
  func accommodatePresentedSubitemDeletion(
    at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void)

  /// The item was moved or renamed, or a directory above it was.
  func presentedItemDidMove(to newURL: URL)
  /// The item's content or its attributes changed.
  func presentedItemDidChange()
  /// The item's state of synchronisation changed: some of the observed attributes have other
  /// values.
  func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<URLResourceKey>)
  /// A version was added: another device's that lost a conflict, for one.
  func presentedItemDidGain(_ version: NSFileVersion)
  /// A version was removed.
  func presentedItemDidLose(_ version: NSFileVersion)
  /// A conflict version was marked as resolved, here or on another device.
  func presentedItemDidResolveConflict(_ version: NSFileVersion)

  /// Something was added to the presented directory, at whatever depth.
  func presentedSubitemDidAppear(at url: URL)
  /// Something in the presented directory was moved or renamed.
  func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL)
  /// Content or attributes of something in the presented directory changed.
  func presentedSubitemDidChange(at url: URL)
  /// As `presentedItemDidGain`, of something in the presented directory.
  func presentedSubitem(at url: URL, didGain version: NSFileVersion)
  /// As `presentedItemDidLose`, of something in the presented directory.
  func presentedSubitem(at url: URL, didLose version: NSFileVersion)
  /// As `presentedItemDidResolveConflict`, of something in the presented directory.
  func presentedSubitem(at url: URL, didResolve version: NSFileVersion)
}

extension NSFilePresenter {
  public var primaryPresentedItemURL: URL? { nil }
  public var observedPresentedItemUbiquityAttributes: Set<URLResourceKey> { [] }

  public func relinquishPresentedItem(
    toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
  ) { reader(nil) }

  public func relinquishPresentedItem(
    toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void
  ) { writer(nil) }

  public func savePresentedItemChanges(
    completionHandler: @escaping @Sendable ((any Error)?) -> Void
  ) { completionHandler(nil) }

  public func accommodatePresentedItemDeletion(
    completionHandler: @escaping @Sendable ((any Error)?) -> Void
  ) { completionHandler(nil) }

  public func accommodatePresentedItemEviction(
    completionHandler: @escaping @Sendable ((any Error)?) -> Void
  ) { completionHandler(nil) }

  /// Of a package, which is one document: lets go of all of it.
  public func accommodatePresentedSubitemDeletion(
    at url: URL, completionHandler: @escaping @Sendable ((any Error)?) -> Void
  ) {
    guard presentsPackage else { return completionHandler(nil) }
    relinquishPresentedItem(toWriter: { _ in completionHandler(nil) })
  }

  public func presentedItemDidMove(to newURL: URL) {}
  public func presentedItemDidChange() {}
  public func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<URLResourceKey>) {}
  public func presentedItemDidGain(_ version: NSFileVersion) {}
  public func presentedItemDidLose(_ version: NSFileVersion) {}
  public func presentedItemDidResolveConflict(_ version: NSFileVersion) {}

  public func presentedSubitemDidAppear(at url: URL) {}
  public func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) {}
  public func presentedSubitemDidChange(at url: URL) {}
  public func presentedSubitem(at url: URL, didGain version: NSFileVersion) {}
  public func presentedSubitem(at url: URL, didLose version: NSFileVersion) {}
  public func presentedSubitem(at url: URL, didResolve version: NSFileVersion) {}

  private var presentsPackage: Bool {
    presentedItemURL.flatMap { ItemCalls.text("user.ubiquity.isPackage", of: $0) } == "1"
  }
}
