import Backend
import Catalog
import Model
import RemoteStore
import Testing

@testable import SyncEngine

/// The order of uploads within a lane.
@Suite struct UploadOrderTests {
  /// Files of these sizes, the first of which has the lowest item in the order of sizes.
  private func files(_ sizes: [Int]) async throws -> [Catalog.Inode] {
    let device = try EngineDevice(store: MemoryStore(), secret: .generate())
    let result = Result {
      try sizes.indices.map { index -> Catalog.Inode in
        try device.write("Documents/file\(index)", Array(repeating: 1, count: sizes[index]))
        return try #require(try device.find("Documents/file\(index)"))
      }
    }
    await device.end()
    return try result.get()
  }

  @Test("awaited files come first, restless files last, the rest by size")
  func awaitedFilesComeFirst() async throws {
    let files = try await files([5_000_000, 2_000_000, 3_000_000, 4_000_000])
    let batches = UploadOrder.batches(
      files, at: files[0].changed, last: [files[1].item], awaited: [files[0].item])
    #expect(batches.map(\.bytes) == [5_000_000, 3_000_000, 4_000_000, 2_000_000])
    #expect(batches.map(\.isAwaited) == [true, false, false, false])
  }

  @Test("a file that became restless while a plan waited for the lock stays so")
  func aRestlessFileIsKept() {
    let (late, now, old) = (ItemID.random(), ItemID.random(), ItemID.random())
    var state = UploadQueue.State()
    state.restless = [late: 100_000_000_007, now: 100_000_000_000, old: 39_999_999_999]
    state.forgetRestless(at: 100_000_000_000)
    #expect(Set(state.restless.keys) == [late, now])
  }

  @Test("a restless file that is awaited comes first")
  func anAwaitedRestlessFileComesFirst() async throws {
    let files = try await files([5_000_000, 2_000_000])
    let item = files[0].item
    let batches = UploadOrder.batches(files, at: files[0].changed, last: [item], awaited: [item])
    #expect(batches.map(\.bytes) == [5_000_000, 2_000_000])
  }

  @Test("small files that are awaited share no batch with others")
  func awaitedFilesShareNoBatch() async throws {
    let files = try await files([300, 100, 200, 400])
    let batches = UploadOrder.batches(
      files, at: files[0].changed, awaited: [files[0].item, files[3].item])
    #expect(batches.map { $0.files.map(\.size) } == [[300, 400], [100, 200]])
    #expect(batches.map(\.isAwaited) == [true, false])
  }
}
