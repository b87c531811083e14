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
    /// In the mount's record.
    var slot: Int?
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

  var slot: Int? { state.withLock { $0.slot } }

  func isRecorded(in slot: Int) { state.withLock { $0.slot = slot } }

  func began(_ service: Service) { state.withLock { $0.service = service } }

  /// Whether this is the first write through this handle; notes it.
  func beginsWriting() -> Bool {
    state.withLock { state in
      defer { state.hasWritten = true }
      return !state.hasWritten
    }
  }

  /// What to fetch ahead now that `range` was asked for, and was not all here if `isMissing`.
  func readAhead(after range: Range<UInt64>, size: UInt64, isMissing: Bool) -> Range<UInt64>? {
    state.withLock { $0.readAhead.next(after: range, size: size, isMissing: isMissing) }
  }
}
