/// How many contents of the backlog are fetched at a time: a few, so that a reader's requests find
/// room. While they are small, more of them: each spends most of its time with waiting for the
/// backend and the disk.
struct BackgroundPlaces {
  private static let fewest = 4
  private static let most = 32
  private static let bytesOfMany: UInt64 = 4 << 20

  private var count = 0
  private var bytes: UInt64 = 0

  var hasRoom: Bool {
    count < Self.fewest || (count < Self.most && bytes < Self.bytesOfMany)
  }

  /// `grow` follows once its size is known, and `end` with the same size.
  mutating func begin() { count += 1 }

  mutating func grow(by size: UInt64) { bytes &+= size }

  mutating func end(_ size: UInt64) {
    count -= 1
    bytes &-= size
  }
}
