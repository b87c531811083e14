internal import CZstd

/// Compresses one chunk after the other in the same memory: one byte that says how the rest is
/// stored, and the rest, compressed where that makes it smaller.
final class Compressor: @unchecked Sendable {
  // Unchecked: one thread at a time uses it.
  private let context: OpaquePointer
  private let room: UnsafeMutableRawBufferPointer

  static let raw: UInt8 = 0
  static let compressed: UInt8 = 1
  private static let level: Int32 = 1

  /// For plain bytes of up to `capacity`.
  init(capacity: Int) {
    guard let context = ZSTD_createCCtx() else { preconditionFailure("no memory to compress in") }
    self.context = context
    room = .allocate(byteCount: ZSTD_compressBound(capacity) + 1, alignment: 16)
  }

  deinit {
    ZSTD_freeCCtx(context)
    room.deallocate()
  }

  /// Valid until the next call.
  func pack(_ plain: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
    precondition(room.count > ZSTD_compressBound(plain.count), "more than there is room for")
    let rest = UnsafeMutableRawBufferPointer(rebasing: room[1...])
    let count = ZSTD_compressCCtx(
      context, rest.baseAddress, rest.count, plain.baseAddress, plain.count, Self.level)
    let length: Int
    if ZSTD_isError(count) == 0, count < plain.count {
      room[0] = Self.compressed
      length = count
    } else {
      room[0] = Self.raw
      rest.copyMemory(from: plain)
      length = plain.count
    }
    return UnsafeRawBufferPointer(rebasing: room[...length])
  }
}
