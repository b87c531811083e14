internal import Catalog
internal import Platform

/// One open of a file.
final class OpenFileHandle: Sendable {
  let number: InodeNumber
  let content: OpenContent
  let canRead: Bool
  let canWrite: Bool
  /// The kernel tells of its close by `flush`.
  let needsFlush: Bool
  /// The thread that opened it; 0 where that is not known.
  let process: Int32

  /// How the kernel does the I/O of an open.
  enum Service {
    /// It asks the daemon.
    case daemon
    /// It reads and writes the content file itself.
    case kernel
  }

  private struct State {
    var hasWritten = false
    /// Nil for what is no open of the kernel's, or not yet.
    var service: Service?
    var readAhead = ReadAhead()
  }

  private let state = Lock(State())

  init(
    number: InodeNumber, content: OpenContent, canRead: Bool, canWrite: Bool, needsFlush: Bool,
    process: Int32
  ) {
    self.number = number
    self.content = content
    self.canRead = canRead
    self.canWrite = canWrite
    self.needsFlush = needsFlush
    self.process = process
  }

  var service: Service? { state.withLock { $0.service } }

  func began(_ service: Service) { state.withLock { $0.service = service } }

  /// Whether this is the first write through this handle; notes it.
  func beginsWriting() -> Bool {
    state.withLock { state in
      defer { state.hasWritten = true }
      return !state.hasWritten
    }
  }

  /// What to fetch ahead now that `range` was asked for.
  func readAhead(after range: Range<UInt64>, size: UInt64) -> Range<UInt64>? {
    state.withLock { $0.readAhead.next(after: range, size: size) }
  }
}

/// Finds out whether a handle is read in order, and how much to fetch ahead of it.
///
/// The first read of a handle asks for its own range alone; a file of which a program reads the
/// header or one record costs no more than that. Only reads that go on where the last one ended make
/// the window grow.
struct ReadAhead {
  static let smallestWindow: UInt64 = 512 << 10
  static let largestWindow: UInt64 = 4 << 20

  private var end: UInt64?
  private var window: UInt64 = 0
  private var fetched: UInt64 = 0

  mutating func next(after range: Range<UInt64>, size: UInt64) -> Range<UInt64>? {
    defer { end = max(range.upperBound, isNear(range) ? end ?? 0 : 0) }
    guard let end, isNear(range) else {
      window = 0
      fetched = range.upperBound
      return nil
    }
    // The same bytes again are no progress.
    guard range.upperBound > end else { return nil }
    window = min(max(window * 2, Self.smallestWindow), Self.largestWindow)
    let start = max(fetched, range.upperBound)
    let wanted = min(range.upperBound + window, size)
    // Half a window is fetched at a time, so that requests stay large.
    guard wanted > start, wanted - start >= window / 2 || wanted == size else { return nil }
    fetched = wanted
    return start..<wanted
  }

  /// The kernel sends the pieces of its own read-ahead side by side, so that one may overtake
  /// another.
  private func isNear(_ range: Range<UInt64>) -> Bool {
    guard let end else { return false }
    let length = UInt64(range.count)
    return range.lowerBound <= end + length && range.upperBound + length >= end
  }
}
