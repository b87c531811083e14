/// Cuts content where its own bytes say so, so that a change in it moves only the chunks that it
/// touches. FastCDC with normalised sizes: W. Xia et al., "FastCDC: a Fast and Efficient
/// Content-Defined Chunking Approach for Data Deduplication", USENIX ATC 2016, and its 2020
/// extension.
///
/// The gear table comes from the account's key: with one that everybody has, the sizes of chunks
/// would tell the backend which well-known files are stored.
struct Chunker: Sendable {
  static let minimum = 128 << 10
  static let normal = 512 << 10
  static let maximum = 1 << 20
  /// Content up to this is one chunk: a small file is changed as a whole.
  static let whole = normal
  static let gearBytes = 256 * 8
  /// Bytes that the rolling hash depends on.
  private static let window = 64
  // Two bits more than for cuts at the normal size before it, two less after it. The top bits are
  // those that depend on the whole window.
  private static let hardMask: UInt64 = ((1 << 21) - 1) << 43
  private static let easyMask: UInt64 = ((1 << 17) - 1) << 47

  private let gear: [UInt64]

  /// `seed` is `gearBytes` long: 256 numbers, big-endian.
  init(seed: UnsafeRawBufferPointer) {
    precondition(seed.count == Self.gearBytes, "a gear table has 256 numbers")
    gear = (0..<256).map { index in
      UInt64(bigEndian: seed.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self))
    }
  }

  /// The length of the chunk that starts where `bytes` do. `bytes` is `maximum` long, or all that
  /// is left of the content.
  func cut(_ bytes: UnsafeRawBufferPointer) -> Int {
    let end = min(bytes.count, Self.maximum)
    guard end > Self.minimum else { return end }
    let middle = min(end, Self.normal)
    return gear.withUnsafeBufferPointer { gear in
      var hash: UInt64 = 0
      var index = Self.minimum - Self.window
      while index < Self.minimum {
        hash = hash << 1 &+ gear[Int(bytes[index])]
        index += 1
      }
      while index < middle {
        hash = hash << 1 &+ gear[Int(bytes[index])]
        index += 1
        if hash & Self.hardMask == 0 { return index }
      }
      while index < end {
        hash = hash << 1 &+ gear[Int(bytes[index])]
        index += 1
        if hash & Self.easyMask == 0 { return index }
      }
      return end
    }
  }

  /// All cuts of a content that is in memory.
  func lengths(_ bytes: UnsafeRawBufferPointer) -> [Int] {
    guard bytes.count > Self.whole else { return bytes.isEmpty ? [] : [bytes.count] }
    var result: [Int] = []
    var start = 0
    while start < bytes.count {
      let length = cut(UnsafeRawBufferPointer(rebasing: bytes[start...]))
      result.append(length)
      start += length
    }
    return result
  }
}
