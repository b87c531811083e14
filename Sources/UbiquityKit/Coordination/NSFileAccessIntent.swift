public import Foundation
internal import Platform

/// One item of a `coordinate(with:queue:byAccessor:)`, and what is to be done with it.
///
/// Safe from any thread. Source: Apple's documentation of `NSFileAccessIntent`.
public final class NSFileAccessIntent: Sendable {
  private let current: Lock<URL>
  let wish: ClaimWish

  private init(_ wish: ClaimWish) {
    self.wish = wish
    current = Lock(wish.url)
  }

  /// Where the item is: within the accessor where it is by then, which may not be where it was.
  public internal(set) var url: URL {
    get { current.withLock { $0 } }
    set { current.withLock { $0 = newValue } }
  }

  /// The item will be read.
  public static func readingIntent(
    with url: URL, options: NSFileCoordinator.ReadingOptions = []
  ) -> NSFileAccessIntent {
    NSFileAccessIntent(.reading(url, options))
  }

  /// The item will be changed, or made.
  public static func writingIntent(
    with url: URL, options: NSFileCoordinator.WritingOptions = []
  ) -> NSFileAccessIntent {
    NSFileAccessIntent(.writing(url, options))
  }
}
