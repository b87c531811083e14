internal import Dispatch
public import Foundation
internal import Platform

/// Takes turns at items with other programs of this device, and with what other devices do.
///
/// What is read or written belongs into an accessor: it runs when nobody else is at the items, and
/// until it has returned, also by throwing, nobody else is let. Readers share; a writer is alone. A
/// claim on a directory covers all below it, and of a package all that is in it. Before an accessor
/// runs, those who present the items (`NSFilePresenter`) are asked to let go of them, except the
/// one that the coordinator was made with. While an item is claimed for writing, what is done to it
/// does not reach another device, and no other device's change reaches the item.
///
/// - **Where the item is.** The accessor gets the item's URL as it is then, which differs from the
///   one that was asked for when the item was moved while the claim waited.
/// - **Nesting.** What an accessor claims itself, with this coordinator or another, on the same
///   thread or in the same task, has part in its claim and never waits for it. Several items are
///   better claimed at once: then no order of claims can make two programs wait for each other. A
///   claim that would be given never is refused with `CocoaError.fileLocking`.
/// - **Outside.** Items that are in no ubiquity container are not claimed: the accessor runs at
///   once.
/// - **Errors** are of `NSCocoaErrorDomain`, with the daemon's words as their description: no such
///   file (260 for reading, 4 for writing), no permission (257, 513), not here and offline (4353,
///   `NSUbiquitousFileUnavailableError`), a download that stalls (4355), cancelled (3072,
///   `NSUserCancelledError`), deadlock (255), an option that the daemon does not have (3328),
///   others (256, 512). The accessor does not run then.
///
/// Methods without `async` block until the claim is given; do not use them on the thread or queue
/// on which a presenter of this program has to answer, such as the main queue. Safe from any
/// thread.
///
/// Source: Apple's documentation of `NSFileCoordinator`; the iCloud Design Guide, "The Role of File
/// Coordinators and Presenters".
open class NSFileCoordinator: @unchecked Sendable {
  private struct State {
    var purpose = "\(ProcessInfo.processInfo.processIdentifier)-\(UUID().uuidString)"
    var pending: [UInt64: PendingClaim] = [:]
    /// Of claims that stay for others of this coordinator: of `prepare`.
    var adopted: [String] = []
  }

  private let state = Lock(State())
  private weak let presenter: (any NSFilePresenter)?
  /// Where claims without a waiting thread are prepared, in their order.
  static let preparation = DispatchQueue(label: "ubiquitykit.coordination")

  /// `filePresenter` is who coordinates: it is not asked to let go of anything for this
  /// coordinator's claims. It is not retained.
  public init(filePresenter: (any NSFilePresenter)?) { presenter = filePresenter }

  /// Of nobody who presents anything.
  public convenience init() { self.init(filePresenter: nil) }

  // MARK: Presenters

  /// From here on `filePresenter` is asked before others come to its item, and told of what
  /// happened to it. It is not retained: remove it before it goes away. Its `presentedItemURL` is
  /// read now.
  ///
  /// Starts the daemon if none runs, and blocks until it knows. When it cannot be reached, the
  /// presenter is known to this program alone until it can. Source: Apple's documentation of
  /// `NSFileCoordinator`.
  open class func addFilePresenter(_ filePresenter: any NSFilePresenter) {
    PresenterRegistry.shared.add(filePresenter)
  }

  /// What it was asked and has not answered is waited for no longer.
  open class func removeFilePresenter(_ filePresenter: any NSFilePresenter) {
    PresenterRegistry.shared.remove(filePresenter)
  }

  /// Those of this program, in the order in which they were added.
  open class var filePresenters: [any NSFilePresenter] { PresenterRegistry.shared.presenters }

  // MARK: Purpose

  /// Coordinators of one purpose, of whatever programs, never wait for each other. Each has its own
  /// at first.
  open var purposeIdentifier: String {
    get { state.withLock { $0.purpose } }
    set { state.withLock { $0.purpose = newValue } }
  }

  private var effectivePurpose: String {
    CoordinationContext.purpose ?? state.withLock { $0.adopted.last ?? $0.purpose }
  }

  func adopt(_ purpose: String) { state.withLock { $0.adopted.append(purpose) } }

  func abandon(_ purpose: String) {
    state.withLock { state in
      if let index = state.adopted.lastIndex(of: purpose) { state.adopted.remove(at: index) }
    }
  }

  // MARK: Cancelling

  /// Gives up every claim of this coordinator that still waits: the methods that wait for them end
  /// with `NSUserCancelledError`. Accessors that run already run on. From any thread.
  open func cancel() {
    for pending in state.withLock({ Array($0.pending.values) }) { pending.cancel() }
  }

  // MARK: Moves

  /// The item is about to be moved, within a claim for moving. Nothing has to be said before a move
  /// here: it is there for programs that say it.
  open func item(at oldURL: URL, willMoveTo newURL: URL) {}

  /// The item was moved, within a claim for moving. The daemon sees moves in containers itself, and
  /// tells presenters; of items elsewhere this tells the presenters of this program.
  open func item(at oldURL: URL, didMoveTo newURL: URL) {
    PresenterRegistry.shared.movedOutside(oldURL, to: newURL, except: presenter)
  }

  // MARK: Claims

  /// Blocks until the claim is held.
  func take(_ wishes: [ClaimWish]) throws -> (claim: TakenClaim, context: CoordinationContext) {
    let purpose = effectivePurpose
    let pending = begin()
    defer { ended(pending) }
    pending.begin(wishes, purpose: purpose, presenter: presenter)
    let gate = Gate()
    let outcome = Lock<PendingClaim.Outcome>(.failure(UbiquityErrors.cancelled as NSError))
    pending.onEnd { result in
      outcome.withLock { $0 = result }
      gate.open()
    }
    gate.wait()
    let claim = try outcome.withLock { $0 }.get()
    try claim.check(wishes)
    return (claim, CoordinationContext(purpose: purpose))
  }

  /// Suspends until the claim is held; a task that is cancelled gives it up.
  func take(
    _ wishes: [ClaimWish], isolation: isolated (any Actor)?
  ) async throws -> (claim: TakenClaim, context: CoordinationContext) {
    let purpose = effectivePurpose
    let pending = begin()
    defer { ended(pending) }
    let outcome = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        start(pending, wishes, purpose) { continuation.resume(returning: $0) }
      }
    } onCancel: {
      pending.cancel()
    }
    return (try outcome.get(), CoordinationContext(purpose: purpose))
  }

  /// `completion` runs once, on a thread that may block.
  func take(
    _ wishes: [ClaimWish],
    completion: @escaping @Sendable (PendingClaim.Outcome, CoordinationContext) -> Void
  ) {
    let purpose = effectivePurpose
    let pending = begin()
    start(pending, wishes, purpose) { [self] outcome in
      ended(pending)
      completion(outcome, CoordinationContext(purpose: purpose))
    }
  }

  private func start(
    _ pending: PendingClaim, _ wishes: [ClaimWish], _ purpose: String,
    completion: @escaping @Sendable (PendingClaim.Outcome) -> Void
  ) {
    pending.onEnd { outcome in
      // What looks at items is not for the connection's thread.
      DispatchQueue.global().async {
        completion(
          outcome.flatMap { claim in
            do throws(NSError) { try claim.check(wishes) } catch { return .failure(error) }
            return .success(claim)
          })
      }
    }
    Self.preparation.async { [self] in
      pending.begin(wishes, purpose: purpose, presenter: presenter)
    }
  }

  private func begin() -> PendingClaim {
    let pending = PendingClaim()
    state.withLock { $0.pending[pending.ticket] = pending }
    return pending
  }

  private func ended(_ pending: PendingClaim) {
    state.withLock { _ = $0.pending.removeValue(forKey: pending.ticket) }
  }
}
