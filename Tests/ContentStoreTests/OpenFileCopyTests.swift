import ContentStore
import Glibc
import Model
import Platform
import SystemPackage
import Testing

/// Copies without a name, as they are made of open files.
@Suite struct OpenFileCopyTests {
  private static let mebibyte: UInt64 = 1 << 20
  /// Free on the disk, one value for each look; the last one stays.
  private let room = Lock<[UInt64]>([])
  private let directory: TemporaryDirectory
  private let files: ContentFiles
  private let source: OpenFile

  init() throws {
    directory = try TemporaryDirectory()
    let room = self.room
    let disk: @Sendable () -> DiskStatistics? = {
      let bytes = room.withLock { $0.count > 1 ? $0.removeFirst() : $0.first ?? .max }
      guard var disk = try? DiskStatistics.of("/") else { return nil }
      disk.blockSize = 1
      disk.blocksAvailable = bytes
      return disk
    }
    files = try ContentFiles(
      directory: directory.path + "/content", disk: disk, clones: false)
    let key = ContentKey(item: ItemID(high: 1, low: 1), generation: 1)
    source = try files.open(key, writable: true, create: true)
  }

  private func write(_ mebibytes: Int, at offset: UInt64 = 0) throws {
    let bytes = [UInt8](repeating: 7, count: 1 << 20)
    for index in 0..<UInt64(mebibytes) {
      try source.write(bytes, at: offset + index * Self.mebibyte)
    }
    try source.synchronize()
  }

  /// Files of the directory that this process has open and that have no name.
  private func openWithoutName() throws -> Int {
    try Files.names(in: "/proc/self/fd").filter { name in
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = bytes.withUnsafeMutableBytes {
        readlink("/proc/self/fd/\(name)", $0.baseAddress!.assumingMemoryBound(to: CChar.self), 4096)
      }
      let target = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
      return target.hasPrefix(directory.path) && target.hasSuffix("(deleted)")
    }.count
  }

  private func copy(reserve: UInt64 = 0, isCancelled: () -> Bool = { false })
    throws(CopyFailure) -> OpenFile
  {
    try files.unnamedCopy(of: source, leaving: { _ in reserve }, isCancelled: isCancelled)
  }

  @Test("a copy has the bytes and the holes of its source")
  func aCopyKeepsHoles() throws {
    try write(1, at: 100 * Self.mebibyte)
    try source.truncate(to: 200 * Self.mebibyte)
    try source.synchronize()
    let data = try source.dataBytes()
    // Holes take no room.
    room.withLock { $0 = [data + 10] }
    let result = try copy(reserve: 10)
    #expect(try openWithoutName() == 1)
    #expect(try result.length() == 200 * Self.mebibyte)
    #expect(try result.nextData(from: 0) == 100 * Self.mebibyte)
    let bytes = try result.read(count: 1 << 20, at: 100 * Self.mebibyte)
    #expect(bytes == [UInt8](repeating: 7, count: 1 << 20))
  }

  @Test("a copy that would not leave the reserve free is not begun")
  func aCopyLeavesTheReserve() throws {
    try write(1, at: 100 * Self.mebibyte)
    let data = try source.dataBytes()
    room.withLock { $0 = [data + 9] }
    #expect(throws: CopyFailure.noRoom(missing: 1)) { try copy(reserve: 10) }
    #expect(try openWithoutName() == 0)
  }

  @Test("space that is reserved and not written to counts for nothing, and is a hole in the copy")
  func reservedSpace() throws {
    try write(1)
    #expect(posix_fallocate(source.descriptor, 0, off_t(64 * Self.mebibyte)) == 0)
    #expect(try source.blocks() * 512 > 60 * Self.mebibyte)
    room.withLock { $0 = [2 * Self.mebibyte] }
    let result = try copy(reserve: 10)
    #expect(try result.length() == 64 * Self.mebibyte)
    #expect(try result.blocks() * 512 < 2 * Self.mebibyte)
  }

  @Test("a copy stops and leaves nothing when another program fills the disk")
  func aCopyStopsWhenTheDiskFills() throws {
    try write(80)
    let data = try source.dataBytes()
    room.withLock { $0 = [1 << 40, 3 * Self.mebibyte] }
    let left = data - 64 * Self.mebibyte
    #expect(throws: CopyFailure.noRoom(missing: left + Self.mebibyte)) {
      try copy(reserve: 4 * Self.mebibyte)
    }
    #expect(try openWithoutName() == 0)
  }

  @Test("a cancelled copy stops after one piece and leaves nothing")
  func aCancelledCopyStops() throws {
    try write(48)
    var questions = 0
    #expect(throws: CopyFailure.cancelled) {
      try copy {
        questions += 1
        return questions == 3
      }
    }
    #expect(questions == 3)
    #expect(try openWithoutName() == 0)
  }
}
