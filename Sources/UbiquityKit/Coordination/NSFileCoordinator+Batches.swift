public import Foundation
internal import Platform

/// Several items under one claim. Source: Apple's documentation of `NSFileCoordinator`.
extension NSFileCoordinator {
  /// Claims all items at once, and runs `batchAccessor`: what this coordinator claims until the
  /// completion is called does not wait for that claim. Blocks until `batchAccessor` has returned.
  ///
  /// The claim is held until the completion is called, which may be later and on any thread, or
  /// until nobody has the completion any more. The accessors of the claims within get the items'
  /// URLs.
  public func prepare(
    forReadingItemsAt readingURLs: [URL], options readingOptions: ReadingOptions = [],
    writingItemsAt writingURLs: [URL], options writingOptions: WritingOptions = [],
    error outError: NSErrorPointer,
    byAccessor batchAccessor: (@escaping @Sendable () -> Void) -> Void
  ) {
    do {
      try prepare(
        forReadingItemsAt: readingURLs, options: readingOptions, writingItemsAt: writingURLs,
        options: writingOptions, byAccessor: batchAccessor)
    } catch {
      outError?.pointee = error as NSError
    }
  }

  /// The same, throwing.
  public func prepare<Result>(
    forReadingItemsAt readingURLs: [URL], options readingOptions: ReadingOptions = [],
    writingItemsAt writingURLs: [URL], options writingOptions: WritingOptions = [],
    byAccessor batchAccessor: (@escaping @Sendable () -> Void) throws -> Result
  ) throws -> Result {
    let wishes =
      readingURLs.map { ClaimWish.reading($0, readingOptions) }
      + writingURLs.map { ClaimWish.writing($0, writingOptions) }
    let (claim, context) = try take(wishes)
    let batch = Batch(self, claim, context)
    return try CoordinationContext.$current.withValue(context) {
      try batchAccessor { batch.end() }
    }
  }

  /// A claim that outlives its accessor.
  private final class Batch: Sendable {
    private let coordinator: NSFileCoordinator
    private let claim: TakenClaim
    private let context: CoordinationContext
    private let isOver = Lock(false)

    init(_ coordinator: NSFileCoordinator, _ claim: TakenClaim, _ context: CoordinationContext) {
      self.coordinator = coordinator
      self.claim = claim
      self.context = context
      coordinator.adopt(context.purpose)
    }

    deinit { end() }

    func end() {
      let isFirst = isOver.withLock { isOver in
        defer { isOver = true }
        return !isOver
      }
      guard isFirst else { return }
      context.end()
      coordinator.abandon(context.purpose)
      claim.release()
    }
  }

  /// Claims all items at once without blocking, and runs `accessor` on `queue` with nil, or with
  /// the error for which there is no claim. Within it each intent's `url` says where its item is.
  /// The claim is held until `accessor` has returned.
  public func coordinate(
    with intents: [NSFileAccessIntent], queue: OperationQueue,
    byAccessor accessor: @escaping @Sendable ((any Error)?) -> Void
  ) {
    take(intents.map(\.wish)) { outcome, context in
      queue.addOperation {
        switch outcome {
        case .failure(let error): accessor(error)
        case .success(let claim):
          for (intent, url) in zip(intents, claim.urls) { intent.url = url }
          CoordinationContext.$current.withValue(context) { accessor(nil) }
          context.end()
          claim.release()
        }
      }
    }
  }

  /// The same for tasks: suspends until the claim is given, and gives what `accessor` gives.
  nonisolated(nonsending) public func coordinate<Result>(
    with intents: [NSFileAccessIntent],
    byAccessor accessor: () async throws -> Result
  ) async throws -> Result {
    try await perform(intents.map(\.wish), isolation: #isolation) { urls in
      for (intent, url) in zip(intents, urls) { intent.url = url }
      return try await accessor()
    }
  }
}
