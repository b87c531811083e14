public import Foundation

/// Apple's closure forms: the error goes to `outError`, and the accessor does not run then. They
/// block until the accessor has returned. Source: Apple's documentation of `NSFileCoordinator`.
extension NSFileCoordinator {
  /// Runs `reader` while nobody changes the item. A file's content, or all of a package's, is here
  /// by then.
  public func coordinate(
    readingItemAt url: URL, options: ReadingOptions = [], error outError: NSErrorPointer,
    byAccessor reader: (URL) -> Void
  ) {
    perform([.reading(url, options)], outError) { reader($0[0]) }
  }

  /// Runs `writer` while nobody else reads or changes the item, which need not be there yet.
  public func coordinate(
    writingItemAt url: URL, options: WritingOptions = [], error outError: NSErrorPointer,
    byAccessor writer: (URL) -> Void
  ) {
    perform([.writing(url, options)], outError) { writer($0[0]) }
  }

  /// Reads one item and changes another, under one claim.
  public func coordinate(
    readingItemAt readingURL: URL, options readingOptions: ReadingOptions = [],
    writingItemAt writingURL: URL, options writingOptions: WritingOptions = [],
    error outError: NSErrorPointer, byAccessor readerWriter: (URL, URL) -> Void
  ) {
    perform([.reading(readingURL, readingOptions), .writing(writingURL, writingOptions)], outError)
    {
      readerWriter($0[0], $0[1])
    }
  }

  /// Changes two items under one claim: what a move needs.
  public func coordinate(
    writingItemAt url1: URL, options options1: WritingOptions = [],
    writingItemAt url2: URL, options options2: WritingOptions = [],
    error outError: NSErrorPointer, byAccessor writer: (URL, URL) -> Void
  ) {
    perform([.writing(url1, options1), .writing(url2, options2)], outError) { writer($0[0], $0[1]) }
  }

  private func perform(
    _ wishes: [ClaimWish], _ outError: NSErrorPointer, _ body: ([URL]) -> Void
  ) {
    do {
      try perform(wishes, body)
    } catch {
      outError?.pointee = error as NSError
    }
  }

  func perform<Result>(
    _ wishes: [ClaimWish], _ body: ([URL]) throws -> Result
  ) throws -> Result {
    let (claim, context) = try take(wishes)
    defer {
      context.end()
      claim.releaseAndWait()
    }
    return try CoordinationContext.$current.withValue(context) { try body(claim.urls) }
  }

  func perform<Result>(
    _ wishes: [ClaimWish], isolation: isolated (any Actor)?,
    _ body: ([URL]) async throws -> Result
  ) async throws -> Result {
    let (claim, context) = try await take(wishes, isolation: isolation)
    let outcome: Swift.Result<Result, any Error>
    do {
      outcome = .success(
        try await CoordinationContext.$current.withValue(
          context, operation: { try await body(claim.urls) }, isolation: isolation))
    } catch {
      outcome = .failure(error)
    }
    context.end()
    await withCheckedContinuation { continuation in claim.release { continuation.resume() } }
    return try outcome.get()
  }
}
