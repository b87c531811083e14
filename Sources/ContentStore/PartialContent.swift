internal import Glibc
package import Model
package import Platform
package import SystemPackage

/// A content file that is being filled from the backend, and which of its bytes are there.
///
/// The file has its full length from the start. Which bytes are there is known in memory alone: what
/// is left in files after the process ends is a cache that the next start sweeps. Any thread; the
/// lock is a leaf and is not held over a write: bytes count as present only once they are written.
package final class PartialContent: Sendable {
  package let key: ContentKey
  package let size: UInt64
  /// For reading.
  package let file: OpenFile
  private let present = Lock(RangeList())
  /// Nil once all is written.
  private let writer: Lock<OpenFile?>

  fileprivate init(key: ContentKey, size: UInt64, file: OpenFile, writer: OpenFile) {
    self.key = key
    self.size = size
    self.file = file
    self.writer = Lock(writer)
  }

  /// Nothing is written any more. Before the content is called local: from then on a descriptor for
  /// writing counts as somebody's who changes the file, which can't be evicted then.
  package func endWriting() { writer.withLock { $0 = nil } }

  /// Writes bytes of the content and notes them as present. Beyond the end is EINVAL,
  /// after `endWriting` EBADF.
  package func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(Errno) {
    let (end, overflow) = offset.addingReportingOverflow(UInt64(bytes.count))
    guard !overflow, end <= size else { throw .invalidArgument }
    guard let writer = writer.withLock({ $0 }) else { throw .badFileDescriptor }
    try writer.write(bytes, at: offset)
    FaultPoint.reach("content.part-written")
    present.withLock { $0.insert(offset..<end) }
  }

  package func write(_ bytes: [UInt8], at offset: UInt64) throws(Errno) {
    var failure: Errno?
    bytes.withUnsafeBytes { buffer in
      do throws(Errno) { try write(buffer, at: offset) } catch { failure = error }
    }
    if let failure { throw failure }
  }

  /// What of `range` still has to come, in order. What is past the end is not part of the answer.
  package func missing(in range: Range<UInt64>) -> [Range<UInt64>] {
    let wanted = clamped(range)
    return present.withLock { $0.missing(in: wanted) }
  }

  /// Whether all of `range` that is within the content is there.
  package func isPresent(_ range: Range<UInt64>) -> Bool {
    let wanted = clamped(range)
    return present.withLock { $0.contains(wanted) }
  }

  package var isComplete: Bool { presentBytes == size }

  /// What its file takes on the disk.
  package var heldBytes: UInt64 { ((try? file.blocks()) ?? 0) &* 512 }

  package var presentBytes: UInt64 { present.withLock { $0.count } }

  /// SEEK_DATA: the first present offset from `offset`; nil when there is none before the end.
  package func nextData(from offset: UInt64) -> UInt64? {
    present.withLock { $0.firstPresent(from: offset) }
  }

  /// SEEK_HOLE: the first missing offset from `offset`, or the end of the file.
  package func nextHole(from offset: UInt64) -> UInt64 {
    min(size, present.withLock { $0.firstMissing(from: offset) })
  }

  private func clamped(_ range: Range<UInt64>) -> Range<UInt64> {
    min(range.lowerBound, size)..<min(range.upperBound, size)
  }
}

extension ContentFiles {
  /// Makes the bytes and their file's name durable. To be done before the catalog calls the content
  /// local: that row must never outlive the bytes it stands for.
  package func synchronize(_ partial: PartialContent) throws(Errno) {
    try synchronize(partial.key, partial.file)
  }

  /// The partial content of `key`, made empty where there is none yet. All who ask for the same key
  /// get the same object until it is dropped. A size other than that of the first is EINVAL.
  package func partial(_ key: ContentKey, size: UInt64) throws(Errno) -> PartialContent {
    try partials.withLock { (known) throws(Errno) -> PartialContent in
      if let found = known[key] {
        guard found.size == size else { throw .invalidArgument }
        return found
      }
      let writer = try open(key, writable: true, create: true)
      // What a former process left is not known to be right.
      try writer.truncate(to: 0)
      try writer.truncate(to: size)
      FaultPoint.reach("content.partial-made")
      let made = PartialContent(
        key: key, size: size, file: try open(key, writable: false), writer: writer)
      known[key] = made
      return made
    }
  }

  /// The partial content of `key`, if something began to fill it.
  package func existingPartial(_ key: ContentKey) -> PartialContent? {
    partials.withLock { $0[key] }
  }

  /// Forgets which bytes are there: because all are and the catalog says so, or because the content
  /// is to be removed. The file stays.
  package func dropPartial(_ key: ContentKey) {
    partials.withLock { _ = $0.removeValue(forKey: key) }
  }

  /// The partial contents that there are, for status.
  package func allPartials() -> [PartialContent] { partials.withLock { Array($0.values) } }
}
