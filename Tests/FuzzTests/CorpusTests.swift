import Foundation
import Samples
import Testing

/// Runs the fuzz targets without libFuzzer: on the committed corpus, on inputs that once broke
/// something, and on mutations of both that a seed determines. A crash ends the test run. The last
/// target that began in `.build/test.log` caused it.
@Suite(.serialized) struct CorpusTests {
  /// Of a target.
  private static let changes = 1500

  private static let place = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Fuzz")

  @Test("every target keeps its property on its corpus", arguments: FuzzTarget.all.map(\.name))
  func corpus(_ name: String) throws {
    let target = try #require(FuzzTarget.named(name))
    for input in try target.seeds() + Self.inputs(of: target) { try target.run(input) }
  }

  @Test("every target keeps its property on changed inputs", arguments: FuzzTarget.all.map(\.name))
  func changedInputs(_ name: String) throws {
    let target = try #require(FuzzTarget.named(name))
    var mutator = Mutator(try Self.inputs(of: target), limit: target.limit, seed: 1)
    for _ in 0..<Self.changes { try target.run(mutator.next()) }
  }

  @Test("every target has seeds that its decoder takes and a committed corpus")
  func everyTargetHasInputs() throws {
    #expect(Set(FuzzTarget.all.map(\.name)).count == FuzzTarget.all.count)
    for target in FuzzTarget.all {
      #expect(try !target.seeds().isEmpty, "\(target.name)")
      let corpus = Self.place.appending(path: "corpus/\(target.name)")
      #expect(FileManager.default.fileExists(atPath: corpus.path), "\(target.name)")
    }
  }

  private static func inputs(of target: FuzzTarget) throws -> [[UInt8]] {
    // Without the seeds, of which some have random keys in them.
    var result: [[UInt8]] = []
    if let packed = try? Data(contentsOf: place.appending(path: "corpus/\(target.name)")) {
      result += try #require(Corpus.unpack(Array(packed)))
    }
    let found = place.appending(path: "found/\(target.name)")
    for name in ((try? FileManager.default.contentsOfDirectory(atPath: found.path)) ?? []).sorted()
    {
      result.append(Array(try Data(contentsOf: found.appending(path: name))))
    }
    return result
  }
}

/// Changed inputs, the same ones for the same seed.
private struct Mutator {
  private let inputs: [[UInt8]]
  private let limit: Int
  private var random: SplitMix

  init(_ inputs: [[UInt8]], limit: Int, seed: UInt64) {
    // Long ones would be most of the time, and differ little.
    self.inputs = inputs.filter { $0.count <= 8192 }
    self.limit = limit
    random = SplitMix(state: seed)
  }

  private mutating func pick(_ count: Int) -> Int { Int(random.next() % UInt64(max(1, count))) }

  mutating func next() -> [UInt8] {
    var input = inputs.isEmpty ? [] : inputs[pick(inputs.count)]
    for _ in 0...pick(4) { change(&input) }
    return Array(input.prefix(limit))
  }

  private static let extremes: [UInt8] = [
    0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x20, 0x22, 0x28, 0x3A, 0x5B,
  ]

  private mutating func change(_ input: inout [UInt8]) {
    let place = pick(input.count + 1)
    let length = pick(min(16, input.count - place) + 1)
    switch pick(6) {
    case 0 where place < input.count: input[place] ^= 1 << UInt8(pick(8))
    case 1 where place < input.count: input[place] = Self.extremes[pick(Self.extremes.count)]
    case 2: input.removeSubrange(place..<place + length)
    case 3:
      let piece = Array(input[place..<place + length])
      input.insert(contentsOf: (0...pick(20)).flatMap { _ in piece }, at: place)
    case 4: input.insert(Self.extremes[pick(Self.extremes.count)], at: place)
    default:
      guard let other = inputs.isEmpty ? nil : inputs[pick(inputs.count)] else { return }
      let from = pick(other.count + 1)
      input.replaceSubrange(
        place..<place + length, with: other[from..<from + pick(other.count - from + 1)])
    }
  }
}
