import Catalog
import Coordination
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage
import Testing

@Suite struct PlaceholderTests {
  let container: Container
  let bytes = [UInt8](repeating: 0x61, count: 8 << 20)
  let number: InodeNumber
  private var system: ContainerFileSystem { container.system }

  init() throws {
    container = try Container()
    number = try container.appear("far", bytes)
  }

  @Test func statAndOpenFetchNothing() throws {
    let status = try system.status(number)
    #expect(status.size == UInt64(bytes.count))
    // GNU tar takes a file without blocks for one hole.
    #expect(status.blocks == 1)
    let handle = try container.open(number)
    #expect(try system.seek(handle, .data, from: 0) == 0)
    #expect(try system.seek(handle, .hole, from: 0) == UInt64(bytes.count))
    _ = try system.attribute(container.name("user.ubiquity.status"), of: number)
    #expect(container.fetcher.asked.isEmpty)
  }

  @Test func theFirstReadAsksForItsRangeAlone() throws {
    let handle = try container.open(number)
    let start: UInt64 = 5 << 20
    let text = try container.read(handle, at: start, count: 4096)
    #expect(text == String(repeating: "a", count: 4096))
    #expect(container.fetcher.asked == [start..<(start + 4096)])
    let status = try system.status(number)
    #expect(status.blocks == 8)
    // Missing ranges are data too.
    #expect(try system.seek(handle, .data, from: 0) == 0)
    #expect(try system.seek(handle, .hole, from: 5 << 20) == UInt64(bytes.count))
    #expect(try container.coordinator.status(of: number).localBytes == 4096)
  }

  @Test func aReadPastTheEndAsksForNothingBeyondIt() throws {
    let handle = try container.open(number)
    let size = UInt64(bytes.count)
    _ = try container.read(handle, at: size - 10, count: 4096)
    #expect(container.fetcher.asked == [(size - 10)..<size])
    #expect(try container.read(handle, at: size + 5, count: 10) == "")
  }

  @Test func onlyReadingInOrderFetchesAhead() throws {
    let handle = try container.open(number)
    for offset in [UInt64(1 << 20), 5 << 20, 3 << 20, 7 << 20] {
      _ = try container.read(handle, at: offset, count: 4096)
    }
    #expect(container.fetcher.asked.count == 4)
    let other = try container.open(number)
    let start: UInt64 = 128 << 10
    for step in UInt64(0)..<4 {
      _ = try container.read(other, at: step * start, count: Int(start))
    }
    let ahead = container.fetcher.asked.dropFirst(4).filter { $0.count > Int(start) }
    #expect(!ahead.isEmpty)
    #expect(ahead.allSatisfy { $0.upperBound <= UInt64(bytes.count) && $0.count <= 4 << 20 })
  }

  @Test(arguments: [
    (FetchFailure.offline, Errno.networkDown), (.stalled, .timedOut), (.unsent(.ioError), .ioError),
    (.damaged("x"), .ioError),
  ])
  func aFailureIsTheErrnoOfTheContract(failure: FetchFailure, errno: Errno) throws {
    let handle = try container.open(number)
    container.fetcher.fail(failure)
    #expect(throws: errno) { try container.read(handle) }
    #expect(try system.status(number).inode.content == .remote)
    container.fetcher.fail(nil)
    #expect(try container.read(handle, count: 4).utf8.count > 0)
  }

  /// Nobody has read what was never sent: who has it open reads what came in its stead.
  @Test func contentThatWasOnlyAnnouncedGivesWayInPlace() throws {
    let number = try container.appear("announced", [1, 2, 3], isSent: false)
    let handle = try container.open(number)
    #expect(try container.replaceRemotely(number, Array("written again".utf8)) == number)
    #expect(try container.read(handle, count: 100) == "written again")
    #expect(try container.size(number) == 13)
    container.system.release(handle)
  }

  /// A handle that has read one content never goes on with another.
  @Test func whatWasReadIsNotReadOnWithOtherBytes() throws {
    let handle = try container.open(number)
    #expect(try container.read(handle, count: 4) == "aaaa")
    #expect(try container.replaceRemotely(number, Array("other".utf8)) != number)
    #expect(try container.read(handle, at: 100, count: 4) == "aaaa")
    container.system.release(handle)
  }

  @Test func withoutANetworkItSaysSo() throws {
    let handle = try container.open(number)
    container.coordinator.setFetcher(nil)
    #expect(throws: Errno.networkDown) { try container.read(handle) }
  }

  @Test func theFirstWriteBringsTheWhole() throws {
    let handle = try container.open(number, writing: true)
    try container.write(handle, "new", at: 3)
    #expect(container.fetcher.asked == [0..<UInt64(bytes.count)])
    let inode = try system.status(number).inode
    #expect(inode.content == .local)
    #expect(inode.version == nil)
    let range = try container.finish { () throws(Errno) in
      try system.read(handle, offset: 0, count: bytes.count)
    }
    var expected = bytes
    expected.replaceSubrange(3..<6, with: Array("new".utf8))
    #expect(try #require(range.file).read(count: bytes.count, at: 0) == expected)
  }

  @Test func truncatingToNothingFetchesNothing() throws {
    let reader = try container.open(number)
    _ = try container.read(reader, at: 0, count: 4096)
    let asked = container.fetcher.asked.count
    let handle = try container.open(number, writing: true, truncating: true)
    #expect(container.fetcher.asked.count == asked)
    #expect(try container.size(number) == 0)
    #expect(try container.read(reader) == "")
    try container.write(handle, "new")
    #expect(try container.read(reader) == "new")
    #expect(try system.status(number).inode.content == .local)
  }

  @Test func truncatingToSomethingBringsTheWhole() throws {
    let status = try container.finish { () throws(Errno) in
      try system.setStatus(number, StatusChanges(size: 10), caller: Container.caller)
    }
    #expect(status.size == 10)
    #expect(container.fetcher.asked == [0..<UInt64(bytes.count)])
  }

  @Test func aReaderSeesTheContentBecomeLocal() throws {
    let handle = try container.open(number)
    let first = try container.read(handle, at: 0, count: 100)
    let other = try container.open(number, writing: true)
    try container.write(other, "x", at: UInt64(bytes.count))
    #expect(try container.read(handle, at: 0, count: 100) == first)
    #expect(try container.read(handle, at: UInt64(bytes.count), count: 10) == "x")
  }

  @Test func aReplacedFileIsNotOpenedAgainByItsOldInode() throws {
    let old = try container.appear("near", Array("old".utf8))
    _ = system.remembered(try container.catalog.inode(old), readAt: system.moment)
    let handle = try container.open(old)
    #expect(try container.read(handle) == "old")
    let new = try container.replaceRemotely(old, Array("newer".utf8))
    #expect(new != old)
    #expect(throws: Errno.staleNFSFileHandle) { _ = try container.open(old, writing: true) }
    func truncate(isOpen: Bool) throws {
      _ = try container.finish { () throws(Errno) in
        try system.setStatus(
          old, StatusChanges(size: 1), caller: Container.caller, isOpen: isOpen)
      }
    }
    #expect(throws: Errno.staleNFSFileHandle) { try truncate(isOpen: false) }
    #expect(try container.read(handle) == "old")
    try truncate(isOpen: true)
    #expect(try container.read(handle) == "o")
    #expect(try container.read(container.open(new)) == "newer")
  }

  @Test func aRemovedFileCanBeOpenedAgainWhileItIsOpen() throws {
    let (number, handle) = try container.create("gone", "x")
    try system.remove(container.name("gone"), in: .root, directory: false)
    #expect(try container.read(container.open(number)) == "x")
    system.release(handle)
  }
}
