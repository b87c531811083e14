internal import Glibc
package import Model
package import Platform
package import SystemPackage

/// A content file that is being filled from the backend, and which of its bytes are there.
///
/// The file has its full length from the start, and is one hole. Blocks of zeros stay holes, so
/// that a sparse file takes no more room here than where it was made. Which bytes are there is
/// known in memory alone: what is left in files after the process ends is a cache that the next
/// start sweeps. Any thread; the locks are not held over a write: bytes count as present only once
/// they are written.
package final class PartialContent: Sendable {
  package let key: ContentKey
  package let size: UInt64
  private let present = Lock(RangeList())
  private let descriptors: Lock<Descriptors>
  private let path: String
  private let inode: UInt64
  private let budget: DescriptorBudget

  private struct Descriptors {
    var reader: OpenFile?
    var writer: OpenFile?
    var isComplete = false
    var lastUse: UInt64 = 0
  }

  fileprivate init(
    key: ContentKey, size: UInt64, reader: OpenFile, writer: OpenFile, store: ContentFiles
  ) throws(Errno) {
    self.key = key
    self.size = size
    budget = store.descriptors
    path = store.path(of: key)
    inode = UInt64(try writer.status().st_ino)
    descriptors = Lock(
      Descriptors(reader: reader, writer: writer, lastUse: monotonicNanoseconds()))
    budget.opened(self)
  }

  deinit { budget.forget(ObjectIdentifier(self)) }

  /// For reading. ESTALE when the file is gone, or another one has its name.
  package func file() throws(Errno) -> OpenFile {
    try descriptors.withLock { (held) throws(Errno) in
      held.lastUse = monotonicNanoseconds()
      if let file = held.reader { return file }
      let file = try open(O_RDONLY)
      held.reader = file
      return file
    }
  }

  private func open(_ access: Int32) throws(Errno) -> OpenFile {
    let file: OpenFile
    do throws(Errno) { file = try ContentFiles.open(path, access | O_NOFOLLOW, budget) } catch {
      throw error == .noSuchFileOrDirectory ? .staleNFSFileHandle : error
    }
    // The known ranges are present in this one file alone.
    guard UInt64(try file.status().st_ino) == inode else { throw .staleNFSFileHandle }
    budget.opened(self)
    return file
  }

  /// Nothing is written any more. Before the content is called local: from then on a descriptor for
  /// writing counts as somebody's who changes the file, which can't be evicted then.
  package func endWriting() {
    descriptors.withLock { held in
      held.writer = nil
      held.isComplete = true
    }
  }

  private func writer() throws(Errno) -> OpenFile {
    try descriptors.withLock { (held) throws(Errno) in
      guard !held.isComplete else { throw Errno.badFileDescriptor }
      held.lastUse = monotonicNanoseconds()
      if let file = held.writer { return file }
      let file = try open(O_RDWR)
      held.writer = file
      return file
    }
  }

  /// Writes bytes of the content and notes them as present. Beyond the end is EINVAL,
  /// after `endWriting` EBADF.
  package func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(Errno) {
    let (end, overflow) = offset.addingReportingOverflow(UInt64(bytes.count))
    guard !overflow, end <= size else { throw .invalidArgument }
    // Bytes that are written a second time are the same ones: where they are zeros it is a hole
    // still.
    try writer().fillHole(bytes, at: offset)
    FaultPoint.reach("content.part-written")
    present.withLock { $0.insert(offset..<end) }
  }

  /// Has the kernel begin to write a part to the disk. A large content that is written at its end
  /// keeps the disk from everything else for a while.
  package func startWriteback(_ range: Range<UInt64>) {
    (try? file())?.startWriteback(clamped(range))
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
  package var heldBytes: UInt64 { ((try? blocks()) ?? 0) &* 512 }

  /// Of 512 bytes.
  package func blocks() throws(Errno) -> UInt64 { try file().blocks() }

  package var presentBytes: UInt64 { present.withLock { $0.count } }

  private func clamped(_ range: Range<UInt64>) -> Range<UInt64> {
    min(range.lowerBound, size)..<min(range.upperBound, size)
  }
}

extension PartialContent: DescriptorHolder {
  package var lastUse: UInt64 { descriptors.withLockIfFree { $0.lastUse } ?? .max }

  package func closeDescriptors() -> Bool {
    descriptors.withLockIfFree { held in
      guard held.reader != nil || held.writer != nil else { return false }
      held.reader = nil
      held.writer = nil
      return true
    } ?? false
  }
}

extension ContentFiles {
  /// Makes the bytes and their file's name durable. To be done before the catalog calls the content
  /// local: that row must never outlive the bytes it stands for.
  package func synchronize(_ partial: PartialContent) throws(Errno) {
    try synchronize(partial.key, partial.file())
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
      let made = try PartialContent(
        key: key, size: size, reader: try open(key, writable: false), writer: writer, store: self)
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
