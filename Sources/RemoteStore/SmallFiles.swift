internal import Model
package import Platform
package import SystemPackage

/// A file whose content is one chunk. What is to be done with it is called on threads that may
/// block.
package struct SmallFile: Sendable {
  /// At most `ContentUploader.smallFile`, and not 0.
  package let size: UInt64
  /// Nil: it is not to be read now.
  package let open: @Sendable () throws(Errno) -> OpenFile?
  /// Called when all of it was read.
  package let synchronize: @Sendable (OpenFile) throws(Errno) -> Void

  package init(
    size: UInt64, open: @escaping @Sendable () throws(Errno) -> OpenFile?,
    synchronize: @escaping @Sendable (OpenFile) throws(Errno) -> Void
  ) {
    self.size = size
    self.open = open
    self.synchronize = synchronize
  }
}

/// Small files that are read and named together: for each of its own, the way to another thread and
/// back would take longer than the work there.
final class SmallFiles: @unchecked Sendable {
  // Unchecked: the buffer is written by `init` alone, each file's part by one thread.
  private(set) var results: [Result<Manifest, RemoteError>]
  private let files: [SmallFile]
  private var opened: [OpenFile?]
  private let memory: UploadMemory
  private let buffer: ReadBuffer
  /// What could be read.
  let batch: ChunkBatch

  /// Together not longer than a buffer. Blocks.
  init(_ files: [SmallFile], keys: AccountState, memory: UploadMemory) {
    self.files = files
    self.memory = memory
    let buffer = memory.takeBuffer()
    self.buffer = buffer
    var starts: [Int] = []
    var total = 0
    for file in files {
      starts.append(total)
      total += Int(file.size)
    }
    precondition(total <= ReadBuffer.capacity, "more small files than there is room for")
    let read = concurrently(files.count) { [starts] index in
      let part = buffer.bytes[starts[index]..<starts[index] + Int(files[index].size)]
      return Self.read(
        files[index], into: UnsafeMutableRawBufferPointer(rebasing: part), keys: keys)
    }
    results = read.map { $0.map { Manifest(chunks: [$0.reference]) } }
    opened = read.map { try? $0.get().file }
    var references: [ChunkReference] = []
    var bytes: [UnsafeRawBufferPointer] = []
    for (index, result) in read.enumerated() {
      guard case .success(let content) = result else { continue }
      references.append(content.reference)
      let part = buffer.bytes[starts[index]..<starts[index] + Int(files[index].size)]
      bytes.append(UnsafeRawBufferPointer(rebasing: part))
    }
    batch = ChunkBatch(references: references, bytes: bytes)
  }

  deinit { memory.giveBack(buffer) }

  private struct Content: Sendable {
    let file: OpenFile
    let reference: ChunkReference
  }

  private static func read(
    _ file: SmallFile, into part: UnsafeMutableRawBufferPointer, keys: AccountState
  ) -> Result<Content, RemoteError> {
    do throws(Errno) {
      guard let opened = try file.open() else { return .failure(.changedWhileReading) }
      guard try opened.read(into: part, at: 0) == part.count else {
        return .failure(.changedWhileReading)
      }
      let id = keys.chunkID(UnsafeRawBufferPointer(part))
      return .success(
        Content(file: opened, reference: ChunkReference(id: id, length: UInt32(part.count))))
    } catch {
      return .failure(.file(error))
    }
  }

  /// Each of them waits for the disk, which does many such requests in the time of one.
  private static let disk = BlockingQueue(threads: 16)

  func synchronize() async {
    let failures = await Self.disk.all(files.count) { [files, opened] index -> Errno? in
      guard let file = opened[index] else { return nil }
      do throws(Errno) { try files[index].synchronize(file) } catch { return error }
      return nil
    }
    for (index, failure) in failures.enumerated() {
      if let failure { results[index] = .failure(.file(failure)) }
    }
    opened = []
  }
}
