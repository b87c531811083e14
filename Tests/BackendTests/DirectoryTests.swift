import Backend
import BackendDirectory
import Glibc
import Platform
import Testing

@Suite struct DirectoryTests {
  let place: TemporaryDirectory
  let path: String

  init() throws {
    place = try TemporaryDirectory()
    path = place.path + "/deep/store"
  }

  @Test func aMissingStoreIsMadeOnlyWhenAsked() async throws {
    #expect(throws: StoreError.self) { try DirectoryStore(path: path, createIfMissing: false) }
    #expect(!Files.exists(path))
    let store = try DirectoryStore(path: path, createIfMissing: true)
    #expect(try await store.putIfAbsent("format", [1]))
    _ = try DirectoryStore(path: path + "/", createIfMissing: false)
  }

  @Test func anUnmountedDiskIsNotTakenForAnEmptyStore() async throws {
    let store = try DirectoryStore(path: path, createIfMissing: true)
    #expect(try await store.putIfAbsent("format", [1]))
    try Files.rename(path, path + ".away")
    try Files.makeDirectory(path)
    for attempt in 0..<2 {
      await expectUnavailable { _ = try await store.get("format") }
      await expectUnavailable { _ = try await store.putIfAbsent("log/1", [1]) }
      await expectUnavailable { try await store.replace("log/1", [1]) }
      await expectUnavailable { try await store.delete("log/1") }
      await expectUnavailable { _ = try await store.list(prefix: "", after: nil, limit: 1) }
      if attempt == 0 {
        #expect(try Files.names(in: path).isEmpty)
        try Files.removeDirectory(path)
      }
    }
    #expect(!Files.exists(path))
    try Files.rename(path + ".away", path)
    #expect(try await store.get("format") == [1])
  }

  @Test func aCopyWithoutItsEmptyDirectoriesIsStillAStore() async throws {
    let store = try DirectoryStore(path: path, createIfMissing: true)
    #expect(try await store.putIfAbsent("format", [1]))
    try Files.removeDirectory(path + "/tmp")
    let copy = try DirectoryStore(path: path, createIfMissing: false)
    #expect(try await copy.putIfAbsent("x", [2]))
  }

  @Test func nothingIsLeftInTmp() async throws {
    let store = try DirectoryStore(path: path, createIfMissing: true)
    #expect(try await store.putIfAbsent("x", [2]))
    #expect(try await !store.putIfAbsent("x", [2]))
    try await store.replace("x", [3])
    #expect(try Files.names(in: path + "/tmp").isEmpty)
  }

  @Test func somethingInTheWayIsSaid() async throws {
    try Files.makeDirectories(place.path + "/deep")
    try Files.replace(path, with: [1])
    #expect(throws: StoreError.self) { try DirectoryStore(path: path, createIfMissing: true) }
    #expect(throws: StoreError.self) {
      try DirectoryStore(path: path + "/below", createIfMissing: true)
    }
    #expect(throws: StoreError.self) { try DirectoryStore(path: "relative", createIfMissing: true) }
    try Files.remove(path)
    let store = try DirectoryStore(path: path, createIfMissing: true)
    #expect(try await store.putIfAbsent("a", [1]))
    await #expect(throws: StoreError.self) { try await store.putIfAbsent("a/b", [1]) }
    #expect(mkfifo(path + "/fifo", 0o600) == 0)
    await #expect(throws: StoreError.notFound("fifo")) { try await store.get("fifo") }
  }

  @Test func whereNothingMayBeWrittenIsSaid() {
    // Not even root may make a directory here.
    let error = #expect(throws: StoreError.self) {
      try DirectoryStore(path: "/sys/kernel/ubiquityfs-test", createIfMissing: true)
    }
    guard case .notPermitted = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test func newsComeAgainAfterTheDirectoryWasAway() async throws {
    let store = try DirectoryStore(path: path, createIfMissing: true)
    #expect(try await store.putIfAbsent("format", [1]))
    #expect(try await store.putIfAbsent("log/1", [1]))
    var news = store.news(prefix: "log/").makeAsyncIterator()
    try Files.rename(path, path + ".away")
    try Files.rename(path + ".away", path)
    #expect(try await store.putIfAbsent("log/2", [1]))
    #expect(await news.next() != nil)
    try await store.delete("log/1")
    try await store.delete("log/2")
    #expect(!Files.exists(path + "/log"))
    #expect(try await store.putIfAbsent("log/3", [1]))
    #expect(await news.next() != nil)
  }

  private func expectUnavailable(_ call: () async throws -> Void) async {
    do {
      try await call()
      Issue.record("it was done")
    } catch StoreError.unavailable {
    } catch {
      Issue.record(error)
    }
  }
}
