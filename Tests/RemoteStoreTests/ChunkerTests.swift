import Testing

@testable import RemoteStore

@Suite struct ChunkerTests {
  private let chunker: Chunker

  init() { chunker = noise(Chunker.gearBytes, seed: 42).withUnsafeBytes { Chunker(seed: $0) } }

  private func chunks(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
    var start = 0
    return bytes.withUnsafeBytes { chunker.lengths($0) }.map { length in
      defer { start += length }
      return bytes[start..<start + length]
    }
  }

  @Test func sizesAreWithinTheirBounds() {
    for count in [0, 1, 4096, 524_287, 524_288, 524_289, 1 << 20, 9_000_001] {
      let lengths = chunks(noise(count, seed: UInt64(count))).map(\.count)
      #expect(lengths.reduce(0, +) == count)
      #expect(lengths.allSatisfy { $0 > 0 && $0 <= Chunker.maximum })
      #expect(lengths.dropLast().allSatisfy { $0 >= Chunker.minimum })
      if count <= 524_288 { #expect(lengths.count == (count == 0 ? 0 : 1)) }
    }
  }

  @Test func theMeanIsNearTheNormalSize() {
    let lengths = chunks(noise(64 << 20, seed: 3)).map(\.count)
    let mean = (64 << 20) / lengths.count
    #expect(mean > 400 << 10 && mean < 800 << 10, "\(mean)")
  }

  @Test func zerosMakeChunks() {
    let lengths = chunks([UInt8](repeating: 0, count: 5 << 20)).map(\.count)
    #expect(lengths.reduce(0, +) == 5 << 20)
    #expect(Set(lengths.dropLast()).count == 1)
  }

  @Test func aChangedByteChangesOneOrTwoChunks() {
    let bytes = noise(8 << 20, seed: 5)
    let before = Set(chunks(bytes))
    var generator = SplitMix(state: 6)
    for _ in 0..<40 {
      var changed = bytes
      changed[Int.random(in: 0..<bytes.count, using: &generator)] ^= 0x55
      let new = chunks(changed).filter { !before.contains($0) }
      #expect(new.count == 1 || new.count == 2)
    }
  }

  @Test func whatIsInsertedAtTheStartMovesOnlyTheFirstChunks() {
    let bytes = noise(8 << 20, seed: 7)
    let before = Set(chunks(bytes))
    for count in [1, 100, 4096, 300_000] {
      let new = chunks(noise(count, seed: 8) + bytes).filter { !before.contains($0) }
      #expect(new.count <= 4, "\(count): \(new.count)")
    }
  }

  @Test func cutsDoNotDependOnHowTheContentIsRead() {
    let bytes = noise(6 << 20, seed: 9)
    let whole = chunks(bytes).map(\.count)
    var start = 0
    var piecewise: [Int] = []
    while start < bytes.count {
      let end = min(start + Chunker.maximum, bytes.count)
      let length = Array(bytes[start..<end]).withUnsafeBytes { chunker.cut($0) }
      piecewise.append(length)
      start += length
    }
    #expect(piecewise == whole)
  }
}
