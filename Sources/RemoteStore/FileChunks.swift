package import Model
package import Platform
internal import SystemPackage

/// A file's next chunks: plain bytes in memory that are lent until the batch after the next one is
/// asked for.
struct ChunkBatch: @unchecked Sendable {
  // Unchecked for the pointers into a buffer of the reader, which only reading on changes.
  let references: [ChunkReference]
  let bytes: [UnsafeRawBufferPointer]
}

/// Reads a file, cuts it into chunks, and names them. A batch can be worked on while the next one
/// is read: they take turns with two buffers. A file that fits into one takes one.
final class FileChunks: @unchecked Sendable {
  // Unchecked: the owner asks for one batch after the other.
  private let file: OpenFile
  private let size: UInt64
  private let keys: AccountState
  private let memory: UploadMemory
  private var lent: ReadBuffer
  /// Of the batch before.
  private var other: ReadBuffer?
  private var buffer: UnsafeMutableRawBufferPointer { lent.bytes }
  /// How far the file was read.
  private var offset: UInt64 = 0
  /// What of the buffer is read and not cut yet.
  private var rest = 0..<0

  init(file: OpenFile, size: UInt64, keys: AccountState, memory: UploadMemory) {
    self.file = file
    self.size = size
    self.keys = keys
    self.memory = memory
    lent = memory.takeBuffer()
  }

  deinit {
    memory.giveBack(lent)
    if let other { memory.giveBack(other) }
  }

  /// Nil at the end. Blocks on the disk and the processor: call it off the tasks' threads.
  func next() throws(RemoteError) -> ChunkBatch? {
    guard offset < size || !rest.isEmpty else { return nil }
    // Chunks are shorter than a buffer, so there is room for more behind the rest.
    if rest.lowerBound > 0 {
      let next = other ?? memory.takeBuffer()
      next.bytes.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[rest]))
      (lent, other) = (next, lent)
      rest = 0..<rest.count
    }
    let room = Int(min(UInt64(buffer.count - rest.count), size - offset))
    if room > 0 {
      let target = UnsafeMutableRawBufferPointer(
        rebasing: buffer[rest.upperBound..<rest.upperBound + room])
      let count: Int
      do throws(Errno) {
        count = try file.read(into: target, at: offset)
      } catch {
        throw .file(error)
      }
      guard count == room else { throw .changedWhileReading }
      offset += UInt64(room)
      rest = 0..<rest.upperBound + room
    }
    return name(cut())
  }

  private func cut() -> [UnsafeRawBufferPointer] {
    var pieces: [UnsafeRawBufferPointer] = []
    var start = 0
    let isEnd = offset == size
    while start < rest.upperBound {
      let left = UnsafeRawBufferPointer(rebasing: buffer[start..<rest.upperBound])
      guard isEnd || left.count >= Chunker.maximum else { break }
      let length = size <= UInt64(Chunker.whole) ? left.count : keys.chunker.cut(left)
      pieces.append(UnsafeRawBufferPointer(rebasing: left[..<length]))
      start += length
    }
    rest = start..<rest.upperBound
    return pieces
  }

  private func name(_ pieces: [UnsafeRawBufferPointer]) -> ChunkBatch {
    // The buffer stays as it is until this returns.
    nonisolated(unsafe) let named = pieces
    let keys = keys
    let references = concurrently(pieces.count) { index in
      ChunkReference(id: keys.chunkID(named[index]), length: UInt32(named[index].count))
    }
    return ChunkBatch(references: references, bytes: pieces)
  }
}

extension RemoteAccount {
  /// What a content is called in this account. Nothing is sent. Blocks on the disk and the
  /// processor.
  package func manifest(of file: OpenFile, size: UInt64) throws(RemoteError) -> Manifest {
    let chunks = FileChunks(file: file, size: size, keys: keys, memory: UploadMemory())
    var references: [ChunkReference] = []
    while let batch = try chunks.next() { references += batch.references }
    return Manifest(chunks: references)
  }
}
