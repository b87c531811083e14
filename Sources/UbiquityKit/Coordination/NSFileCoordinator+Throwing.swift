public import Foundation

/// The same, giving what the accessor gives, and throwing its errors and those of the claim. Code
/// of tasks gets the forms that suspend, all other code those that block.
extension NSFileCoordinator {
  /// Gives what `reader` gives, which runs while nobody changes the item. Blocks.
  @_disfavoredOverload
  public func coordinate<Result>(
    readingItemAt url: URL, options: ReadingOptions = [], byAccessor reader: (URL) throws -> Result
  ) throws -> Result {
    try perform([.reading(url, options)]) { try reader($0[0]) }
  }

  /// Gives what `writer` gives, which runs while nobody else reads or changes the item. Blocks.
  @_disfavoredOverload
  public func coordinate<Result>(
    writingItemAt url: URL, options: WritingOptions = [], byAccessor writer: (URL) throws -> Result
  ) throws -> Result {
    try perform([.writing(url, options)]) { try writer($0[0]) }
  }

  /// Reads one item and changes another, under one claim. Blocks.
  @_disfavoredOverload
  public func coordinate<Result>(
    readingItemAt readingURL: URL, options readingOptions: ReadingOptions = [],
    writingItemAt writingURL: URL, options writingOptions: WritingOptions = [],
    byAccessor readerWriter: (URL, URL) throws -> Result
  ) throws -> Result {
    try perform([.reading(readingURL, readingOptions), .writing(writingURL, writingOptions)]) {
      try readerWriter($0[0], $0[1])
    }
  }

  /// Changes two items under one claim. Blocks.
  @_disfavoredOverload
  public func coordinate<Result>(
    writingItemAt url1: URL, options options1: WritingOptions = [],
    writingItemAt url2: URL, options options2: WritingOptions = [],
    byAccessor writer: (URL, URL) throws -> Result
  ) throws -> Result {
    try perform([.writing(url1, options1), .writing(url2, options2)]) { try writer($0[0], $0[1]) }
  }

  /// Suspends until the claim is given, then runs `reader` in the caller's isolation; the claim is
  /// held until it has returned. A task that is cancelled meanwhile gives up the claim that it
  /// waits for, and throws `NSUserCancelledError`.
  nonisolated(nonsending) public func coordinate<Result>(
    readingItemAt url: URL, options: ReadingOptions = [],
    byAccessor reader: (URL) async throws -> Result
  ) async throws -> Result {
    try await perform([.reading(url, options)], isolation: #isolation) { try await reader($0[0]) }
  }

  /// As the asynchronous form for reading, for changing the item.
  nonisolated(nonsending) public func coordinate<Result>(
    writingItemAt url: URL, options: WritingOptions = [],
    byAccessor writer: (URL) async throws -> Result
  ) async throws -> Result {
    try await perform([.writing(url, options)], isolation: #isolation) { try await writer($0[0]) }
  }

  /// As the asynchronous form for reading, for reading one item and changing another.
  nonisolated(nonsending) public func coordinate<Result>(
    readingItemAt readingURL: URL, options readingOptions: ReadingOptions = [],
    writingItemAt writingURL: URL, options writingOptions: WritingOptions = [],
    byAccessor readerWriter: (URL, URL) async throws -> Result
  ) async throws -> Result {
    try await perform(
      [.reading(readingURL, readingOptions), .writing(writingURL, writingOptions)],
      isolation: #isolation
    ) { try await readerWriter($0[0], $0[1]) }
  }

  /// As the asynchronous form for reading, for changing two items.
  nonisolated(nonsending) public func coordinate<Result>(
    writingItemAt url1: URL, options options1: WritingOptions = [],
    writingItemAt url2: URL, options options2: WritingOptions = [],
    byAccessor writer: (URL, URL) async throws -> Result
  ) async throws -> Result {
    try await perform(
      [.writing(url1, options1), .writing(url2, options2)], isolation: #isolation
    ) { try await writer($0[0], $0[1]) }
  }
}
