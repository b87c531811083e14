internal import Platform

/// The memory that one upload works in, used again for every chunk: pages that are fresh from the
/// system cost more than what is done in them. Gone with the upload.
///
/// Whoever takes something has it to itself until it gives it back; not giving it back is a waste
/// and no mistake.
final class UploadMemory: Sendable {
  private struct Spare {
    var compressors: [Compressor] = []
    var buffers: [ReadBuffer] = []
    var packs: [PackRoom] = []
  }

  private let spare = Lock(Spare())

  /// With room for one chunk.
  func withCompressor<Answer>(_ body: (Compressor) -> Answer) -> Answer {
    let compressor =
      spare.withLock { $0.compressors.popLast() } ?? Compressor(capacity: Chunker.maximum)
    defer { spare.withLock { $0.compressors.append(compressor) } }
    return body(compressor)
  }

  func takeBuffer() -> ReadBuffer { spare.withLock { $0.buffers.popLast() } ?? ReadBuffer() }

  func giveBack(_ buffer: ReadBuffer) { spare.withLock { $0.buffers.append(buffer) } }

  func takePack() -> PackRoom { spare.withLock { $0.packs.popLast() } ?? PackRoom() }

  func giveBack(_ pack: PackRoom) { spare.withLock { $0.packs.append(pack) } }
}

/// What files are read into.
final class ReadBuffer: @unchecked Sendable {
  // Unchecked: whoever took it from `UploadMemory` alone uses it.
  let bytes: UnsafeMutableRawBufferPointer

  /// Several of the largest chunks, so that there is work for all processors.
  static let capacity = 4 << 20

  init() { bytes = .allocate(byteCount: Self.capacity, alignment: 4096) }

  deinit { bytes.deallocate() }
}
