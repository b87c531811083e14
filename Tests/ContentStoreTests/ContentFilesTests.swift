import ContentStore
import Glibc
import Model
import Platform
import SystemPackage
import Testing

/// A directory that goes with the test.
final class TemporaryDirectory {
  let path: String

  init() throws {
    let template = "\(getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp")/content-XXXXXX"
    var bytes = Array(template.utf8CString)
    let made = bytes.withUnsafeMutableBufferPointer { mkdtemp($0.baseAddress!) != nil }
    try #require(made)
    path = bytes.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
  }

  deinit { try? Files.removeTree(path) }
}

private func key(_ low: UInt64, _ generation: UInt64) -> ContentKey {
  ContentKey(item: ItemID(high: 0xAB00_0000_0000_0000, low: low), generation: generation)
}

@Suite struct ContentFilesTests {
  let directory: TemporaryDirectory
  let files: ContentFiles

  init() throws {
    directory = try TemporaryDirectory()
    files = try ContentFiles(directory: directory.path + "/content")
  }

  @Test func aContentFileIsMadeWrittenReadAndRemoved() throws {
    #expect(throws: Errno.noSuchFileOrDirectory) { try files.open(key(1, 1), writable: true) }
    let file = try files.open(key(1, 1), writable: true, create: true)
    try file.write(Array("hello".utf8), at: 3)
    let again = try files.open(key(1, 1), writable: false)
    #expect(try again.read(count: 99, at: 0) == [0, 0, 0] + Array("hello".utf8))
    try files.synchronize(key(1, 1), file)
    #expect(files.path(of: key(1, 1)).contains("/ab/ab"))
    #expect(try files.found(key(1, 1))?.size == 8)
    #expect(try files.blocks(key(1, 1)) > 0)
    try files.remove(key(1, 1))
    try files.remove(key(1, 1))
    #expect(!files.exists(key(1, 1)))
    #expect(try again.read(count: 1, at: 3) == Array("h".utf8))
    #expect(try files.found(key(1, 1)) == nil)
  }

  @Test func keysAreThoseOfTheFilesAndNothingElse() throws {
    for generation in [0, 5, UInt64.max] {
      _ = try files.open(key(1, generation), writable: true, create: true)
    }
    for stray in ["ab/readme", "ab/ab.1", "zz", "abc"] {
      _ = try OpenFile.open("\(files.directory)/\(stray)", flags: O_CREAT | O_WRONLY)
    }
    #expect(try files.keys().sorted() == [key(1, 0), key(1, 5), key(1, .max)])
  }

  @Test func aKeyReadsBackOnlyWhatItWrites() {
    #expect(ContentKey(key(7, 255).description) == key(7, 255))
    #expect(ContentKey("\(key(7, 255).item).0ff") == nil)
    #expect(ContentKey("\(key(7, 255).item).FF") == nil)
    #expect(ContentKey("\(key(7, 255).item)") == nil)
  }

  @Test func aCopyKeepsHoles() throws {
    let file = try files.open(key(1, 1), writable: true, create: true)
    try file.write(Array("start".utf8), at: 0)
    try file.write(Array("end".utf8), at: 8 << 20)
    try files.copy(from: key(1, 1), to: key(1, 2))
    let copied = try files.open(key(1, 2), writable: false)
    #expect(try copied.read(count: 5, at: 0) == Array("start".utf8))
    #expect(try copied.read(count: 9, at: 8 << 20) == Array("end".utf8))
    #expect(try copied.status().st_size == file.status().st_size)
    #expect(try files.blocks(key(1, 2)) < 1024)
  }

  @Test func aWriterIsSeenAndSoIsAMapping() throws {
    var file: OpenFile? = try files.open(key(1, 1), writable: true, create: true)
    try file?.truncate(to: 4096)
    #expect(try files.hasWriter(key(1, 1)))
    let map = mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, try #require(file).descriptor, 0)
    file = nil
    #expect(try files.hasWriter(key(1, 1)))
    munmap(map, 4096)
    #expect(try !files.hasWriter(key(1, 1)))
    #expect(try !files.hasWriter(key(1, 99)))
  }

  /// A file that was read can be evicted the next moment, although its download made it whole just
  /// now.
  @Test func aDownloadThatEndedIsNoWriter() throws {
    let partial = try files.partial(key(1, 1), size: 4)
    try partial.write(Array("text".utf8), at: 0)
    #expect(try files.hasWriter(key(1, 1)))
    partial.endWriting()
    #expect(try !files.hasWriter(key(1, 1)))
    #expect(try partial.file().read(count: 4, at: 0) == Array("text".utf8))
    #expect(throws: Errno.badFileDescriptor) { try partial.write([0], at: 0) }
    try files.synchronize(partial)
  }

  /// It can come late: when the download has ended, and when its file is gone.
  @Test func partsGoToTheDiskWhileTheOthersCome() throws {
    let partial = try files.partial(key(1, 1), size: 12_288)
    let bytes = (0..<12_288).map { UInt8(truncatingIfNeeded: $0 / 7) }
    try partial.write(Array(bytes[..<4096]), at: 0)
    partial.startWriteback(0..<4096)
    try partial.write(Array(bytes[4096...]), at: 4096)
    partial.startWriteback(4096..<100_000)
    partial.startWriteback(100_000..<UInt64.max)
    partial.endWriting()
    partial.startWriteback(0..<12_288)
    #expect(try !files.hasWriter(key(1, 1)))
    #expect(try partial.file().read(count: 20_000, at: 0) == bytes)
    files.dropPartial(key(1, 1))
    try files.remove(key(1, 1))
    partial.startWriteback(0..<12_288)
    #expect(try files.found(key(1, 1)) == nil)
  }

  @Test func whoOpensAFileWhileItIsAskedForWritersHarmsNobody() throws {
    let directory = try TemporaryDirectory()
    let files = try ContentFiles(directory: directory.path)
    _ = try files.open(key(1, 1), writable: true, create: true)
    let isDone = Lock(false)
    let ended = Gate()
    _ = startThread {
      while !isDone.withLock({ $0 }) { _ = try? files.open(key(1, 1), writable: true) }
      ended.open()
    }
    // Half of the questions meet an open; the signal for that would end the process.
    for _ in 0..<20_000 { _ = try files.hasWriter(key(1, 1)) }
    isDone.withLock { $0 = true }
    ended.wait()
    #expect(try !files.hasWriter(key(1, 1)))
  }

  @Test func aPartialContentKnowsWhatIsThere() throws {
    let partial = try files.partial(key(1, 1), size: 1000)
    #expect(try files.partial(key(1, 1), size: 1000) === partial)
    #expect(throws: Errno.invalidArgument) { try files.partial(key(1, 1), size: 5) }
    #expect(partial.missing(in: 0..<5000) == [0..<1000])
    try partial.write([UInt8](repeating: 7, count: 100), at: 200)
    #expect(partial.isPresent(200..<300))
    #expect(!partial.isPresent(199..<300))
    #expect(partial.missing(in: 100..<400) == [100..<200, 300..<400])
    #expect(partial.presentBytes == 100)
    #expect(throws: Errno.invalidArgument) { try partial.write([1, 2], at: 999) }
    try partial.write([UInt8](repeating: 8, count: 200), at: 0)
    try partial.write([UInt8](repeating: 9, count: 700), at: 300)
    #expect(partial.isComplete)
    #expect(partial.presentBytes == 1000)
    try files.synchronize(partial)
    files.dropPartial(key(1, 1))
    #expect(files.existingPartial(key(1, 1)) == nil)
    #expect(try files.open(key(1, 1), writable: false).read(count: 1, at: 250) == [7])
  }

  @Test("blocks of zeros in a download stay holes, wherever its parts begin and end")
  func zerosStayHoles() throws {
    let size = 2 << 20
    var bytes = [UInt8](repeating: 0, count: size)
    for position in [0, 5, 4_095, 300_000, 1_048_575, 1_048_576, size - 1] { bytes[position] = 7 }
    for part in [size, 1 << 20, 300_001, 4_096, 1_000] {
      let key = key(9, UInt64(part))
      let partial = try files.partial(key, size: UInt64(size))
      var start = 0
      while start < size {
        let end = min(size, start + part)
        // A part may come twice.
        for _ in 0..<2 { try partial.write(Array(bytes[start..<end]), at: UInt64(start)) }
        start = end
      }
      #expect(partial.isComplete)
      #expect(try partial.file().length() == UInt64(size))
      #expect(try partial.file().read(count: size, at: 0) == bytes)
      // Parts of less than two blocks may cut every block that is zero.
      if part >= 4_096 { #expect(partial.heldBytes <= 6 * 4_096 + 8 * 8_192, "\(part)") }
      files.dropPartial(key)
    }
  }

  @Test func whatAFormerProcessLeftIsNotTakenForContent() throws {
    let file = try files.open(key(1, 1), writable: true, create: true)
    try file.write([1, 2, 3], at: 0)
    let partial = try files.partial(key(1, 1), size: 3)
    #expect(!partial.isPresent(0..<1))
    #expect(try partial.file().read(count: 3, at: 0) == [0, 0, 0])
  }
}

@Suite struct RangeListTests {
  @Test(arguments: 0..<20 as Range<UInt64>) func itAgreesWithASetOfNumbers(seed: UInt64) {
    var generator = SplitMix(state: seed)
    var list = RangeList()
    var reference: Set<UInt64> = []
    for _ in 0..<60 {
      let start = UInt64.random(in: 0..<100, using: &generator)
      let range = start..<(start + UInt64.random(in: 0..<12, using: &generator))
      list.insert(range)
      reference.formUnion(range)
      #expect(list.count == UInt64(reference.count))
      let from = UInt64.random(in: 0..<100, using: &generator)
      let asked = from..<(from + UInt64.random(in: 0..<30, using: &generator))
      #expect(list.contains(asked) == asked.allSatisfy(reference.contains))
      #expect(
        list.missing(in: asked).flatMap { Array($0) } == asked.filter { !reference.contains($0) })
      for (left, right) in zip(list.ranges, list.ranges.dropFirst()) {
        #expect(left.upperBound < right.lowerBound)
      }
    }
  }
}

struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }
}
