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

  @Test("a start removes old temporary files of writers, and nothing else in tmp")
  func leftovers() throws {
    _ = try DirectoryStore(path: path, createIfMissing: true)
    let tmp = path + "/tmp/"
    let others = ["-1", "1-", "77-1-2", "77-DEADBEEF", "notes.txt", "x-1"]
    for name in ["1-0", "77-deadbeef", "78-new"] + others { try write("x", to: tmp + name) }
    try write("x", to: tmp + "78-abc")
    try Files.makeDirectory(tmp + "79-d")
    #expect(symlink("notes.txt", tmp + "79-e") == 0)
    let times = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 1, tv_nsec: 0)]
    for name in try Files.names(in: path + "/tmp") where name != "78-abc" {
      #expect(utimensat(AT_FDCWD, tmp + name, times, AT_SYMLINK_NOFOLLOW) == 0)
    }
    _ = try DirectoryStore(path: path, createIfMissing: false)
    let left = try Files.names(in: path + "/tmp")
    #expect(left == (others + ["78-abc", "78-new", "79-d", "79-e"]).sorted())
  }

  // Root may read every directory.
  @Test(
    "a list passes over an unreadable directory that can hold no objects, and fails for any other",
    .enabled(if: geteuid() != 0))
  func unreadableDirectories() async throws {
    let store = try DirectoryStore(path: path, createIfMissing: true)
    let container = "containers/" + String(repeating: "a", count: 32)
    let snapshot = container + "/snapshots/00000000000000000001"
    let keys = [container + "/log/1", snapshot + "/index", "format", "names/n"]
    for key in keys { #expect(try await store.putIfAbsent(key, [1])) }
    let foreign = ["", "names/", "containers/", container + "/", container + "/log/"]
      .map { path + "/" + $0 + "zz" }
    for directory in foreign { try Files.makeDirectory(directory, mode: 0) }
    defer { for directory in foreign { rmdir(directory) } }
    #expect(try await store.list(prefix: "", after: nil, limit: 10) == keys)
    #expect(try await store.list(prefix: container + "/log/", after: nil, limit: 10) == [keys[0]])
    await expectNotPermitted { _ = try await store.list(prefix: "zz/", after: nil, limit: 10) }
    let names = try await store.storedNames(prefix: container + "/log/", after: nil, limit: 10)
    #expect(names == [keys[0], container + "/log/zz/"])
    for directory in ["names", "containers", container, container + "/log", snapshot] {
      #expect(chmod(path + "/" + directory, 0) == 0)
      defer { chmod(path + "/" + directory, 0o700) }
      await expectNotPermitted { _ = try await store.list(prefix: "", after: nil, limit: 10) }
    }
  }

  @Test("stored names include those that are no keys, and directories that can hold no objects")
  func storedNames() async throws {
    let store = try DirectoryStore(path: path, createIfMissing: true)
    for key in ["format", "names/n", "names/zz/inner"] {
      #expect(try await store.putIfAbsent(key, [1]))
    }
    for name in ["a b", "names/.hidden", "names/~x.tmp"] { try write("x", to: path + "/" + name) }
    try Files.makeDirectory(path + "/.stfolder")
    #expect(symlink("n", path + "/names/link") == 0)
    #expect(
      try await store.storedNames(prefix: "", after: nil, limit: 10)
        == [".stfolder/", "a b", "format", "names/", "tmp/"])
    let names = ["names/.hidden", "names/link", "names/n", "names/zz/", "names/~x.tmp"]
    #expect(try await store.storedNames(prefix: "names/", after: nil, limit: 10) == names)
    for (index, name) in names.enumerated() {
      let rest = try await store.storedNames(prefix: "names/", after: name, limit: 10)
      #expect(rest == Array(names[(index + 1)...]))
    }
    #expect(
      try await store.list(prefix: "", after: nil, limit: 10)
        == ["format", "names/n", "names/zz/inner"])
  }

  @Test(
    "the store reads, writes, lists and removes nothing through a symbolic link below its root")
  func symbolicLinks() async throws {
    let store = try DirectoryStore(path: path, createIfMissing: true)
    #expect(try await store.putIfAbsent("format", [1]))
    let foreign = place.path + "/foreign"
    try Files.makeDirectory(foreign)
    try write("theirs", to: foreign + "/1")
    #expect(symlink("../../foreign", path + "/names") == 0)
    await expectInvalid { _ = try await store.get("names/1") }
    await expectInvalid { _ = try await store.putIfAbsent("names/1", [1]) }
    await expectInvalid { _ = try await store.putIfAbsent("names/2", [1]) }
    await expectInvalid { _ = try await store.putIfAbsent("names/deep/2", [1]) }
    await expectInvalid { try await store.replace("names/1", [1]) }
    await expectInvalid { try await store.delete("names/1") }
    for prefix in ["", "na", "names/"] {
      await expectInvalid { _ = try await store.list(prefix: prefix, after: nil, limit: 10) }
    }
    await expectInvalid {
      _ = try await store.storedNames(prefix: "names/", after: nil, limit: 10)
    }
    let names = try await store.storedNames(prefix: "", after: nil, limit: 10)
    #expect(names == ["format", "names", "tmp/"])
    #expect(try Files.names(in: foreign) == ["1"])
    #expect(try Files.read(foreign + "/1") == Array("theirs".utf8))
    #expect(try Files.names(in: path + "/tmp").isEmpty)
  }

  @Test("an object that is a symbolic link is not read, and is replaced and removed itself")
  func linkedObjects() async throws {
    let store = try DirectoryStore(path: path, createIfMissing: true)
    try write("theirs", to: place.path + "/1")
    #expect(try await store.putIfAbsent("log/0", [1]))
    for name in ["/log/1", "/log/2"] { #expect(symlink(place.path + "/1", path + name) == 0) }
    await expectInvalid { _ = try await store.get("log/1") }
    #expect(try await !store.putIfAbsent("log/1", [1]))
    try await store.replace("log/1", [7])
    #expect(try await store.get("log/1") == [7])
    try await store.delete("log/2")
    #expect(try Files.names(in: path + "/log") == ["0", "1"])
    #expect(try Files.read(place.path + "/1") == Array("theirs".utf8))
  }

  @Test("a start neither removes nor writes anything through a tmp that is a symbolic link")
  func linkedTmp() async throws {
    let store = try DirectoryStore(path: path, createIfMissing: true)
    #expect(try await store.putIfAbsent("format", [1]))
    let foreign = place.path + "/foreign"
    try Files.makeDirectory(foreign)
    try write("theirs", to: foreign + "/77-deadbeef")
    let times = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 1, tv_nsec: 0)]
    #expect(utimensat(AT_FDCWD, foreign + "/77-deadbeef", times, 0) == 0)
    try Files.removeDirectory(path + "/tmp")
    #expect(symlink(foreign, path + "/tmp") == 0)
    let again = try DirectoryStore(path: path, createIfMissing: false)
    await expectInvalid { _ = try await again.putIfAbsent("log/1", [1]) }
    #expect(try Files.names(in: foreign) == ["77-deadbeef"])
    #expect(try await again.get("format") == [1])
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

  private func expectNotPermitted(_ call: () async throws -> Void) async {
    do {
      try await call()
      Issue.record("it was done")
    } catch StoreError.notPermitted {
    } catch {
      Issue.record(error)
    }
  }

  private func expectInvalid(_ call: () async throws -> Void) async {
    do {
      try await call()
      Issue.record("it was done")
    } catch StoreError.invalid {
    } catch {
      Issue.record(error)
    }
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
