internal import Dispatch
internal import Model
internal import Platform
internal import SystemPackage

/// A file's next chunks: plain bytes in memory that are lent until the next batch is asked for.
struct ChunkBatch: @unchecked Sendable {
  // Unchecked for the pointers into the reader's buffer, which only reading on changes.
  let references: [ChunkReference]
  let bytes: [UnsafeRawBufferPointer]
}

/// Reads a file through one buffer, cuts it into chunks, and names them. One batch at a time.
final class FileChunks: @unchecked Sendable {
  // Unchecked: the owner asks for one batch after the other.
  private let file: OpenFile
  private let size: UInt64
  private let keys: AccountKeys
  private let buffer: UnsafeMutableRawBufferPointer
  /// How far the file was read into the buffer.
  private var offset: UInt64 = 0
  /// What of the buffer is read and not cut yet.
  private var rest = 0..<0

  private static let capacity = 8 << 20

  init(file: OpenFile, size: UInt64, keys: AccountKeys) {
    self.file = file
    self.size = size
    self.keys = keys
    let capacity = Int(min(size, UInt64(Self.capacity)))
    buffer = .allocate(byteCount: max(1, capacity), alignment: 4096)
  }

  deinit { buffer.deallocate() }

  /// Nil at the end. Blocks on the disk and the processor: call it off the tasks' threads.
  func next() throws(RemoteError) -> ChunkBatch? {
    guard offset < size || !rest.isEmpty else { return nil }
    // Chunks are shorter than the buffer, so moving the rest to its start makes room for more.
    if rest.lowerBound > 0 {
      buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[rest]))
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

/// `body` of 0..<count, on all processors. Blocks: not for a task's thread.
func concurrently<Answer>(_ count: Int, _ body: @Sendable (Int) -> Answer) -> [Answer] {
  [Answer](unsafeUninitializedCapacity: count) { buffer, filled in
    if let start = buffer.baseAddress {
      // Each call initialises an element of its own.
      nonisolated(unsafe) let start = start
      DispatchQueue.concurrentPerform(iterations: count) { index in
        (start + index).initialize(to: body(index))
      }
    }
    filled = count
  }
}

/// Where blocking work of uploads is done.
enum UploadQueue {
  private static let queue = DispatchQueue(
    label: "ubiquityfs.upload", qos: .utility, attributes: .concurrent)

  static func run<Answer: Sendable, Failure: Error>(
    _ body: @escaping @Sendable () throws(Failure) -> Answer
  ) async throws(Failure) -> Answer {
    let result: Result<Answer, Failure> = await withCheckedContinuation { continuation in
      queue.async {
        let result: Result<Answer, Failure>
        do throws(Failure) {
          result = .success(try body())
        } catch {
          result = .failure(error)
        }
        continuation.resume(returning: result)
      }
    }
    return try result.get()
  }
}
