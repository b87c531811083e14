import Catalog
import Coordination
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage
import TestWaiting
import Testing

/// A budget of local space, without a mount.
@Suite struct SpaceTests {
  let container: Container
  let space: LocalSpace
  let uses: UseTimes
  static let mebi = 1 << 20

  init() throws {
    container = try Container()
    uses = try UseTimes(path: container.directory + "/uses")
    space = LocalSpace(
      limits: SpaceLimits(limit: .bytes(UInt64(8 * Self.mebi))), directory: container.directory)
    container.coordinator.setSpace(space, uses: uses)
    space.add(LocalSpace.Member(container.coordinator))
  }

  /// A file of another device, of so many mebibytes, that is read here.
  private func read(_ name: String, _ size: Int = 1, pausing: Bool = true) throws -> InodeNumber {
    let number = try container.appear(name, [UInt8](repeating: 0x62, count: size * Self.mebi))
    try read(number, size)
    return number
  }

  private func read(_ number: InodeNumber, _ size: Int) throws {
    let handle = try container.open(number)
    _ = try container.read(handle, count: size * Self.mebi)
    container.system.release(handle)
  }

  private func isHere(_ number: InodeNumber) throws -> Bool {
    try container.catalog.inode(number).content == .local
  }

  private func used() throws -> Int { Int(try #require(space.measured()).used) }

  /// As a download asks for room; a pass is over when it returns, where one is needed.
  private func room(_ size: Int) async {
    let reservation = await container.coordinator.reserve(UInt64(size * Self.mebi))
    reservation?.end()
  }

  /// After a pass that found nothing there is none for as long as that took.
  private func room(
    _ size: Int, until what: String, _ isDone: () throws -> Bool
  ) async throws {
    try await eventually(what) {
      await room(size)
      return try isDone()
    }
  }

  @Test func theLeastRecentlyUsedGoes() async throws {
    defer { space.stop() }
    var files: [InodeNumber] = []
    for index in 0..<7 { files.append(try read("f\(index)")) }
    try read(files[0], 1)
    #expect(try used() >= 7 * Self.mebi)
    await room(2)
    #expect(try isHere(files[0]))
    #expect(try !isHere(files[1]))
    #expect(try isHere(files[6]))
    #expect(try used() <= 6 * Self.mebi)
    let state = try #require(space.report())
    #expect(state.evictedFiles > 0)
    #expect(state.evictedBytes == state.evictedFiles * UInt64(Self.mebi))
    #expect(state.tally?.evictable == UInt64(try used()))
    // The room is on the disk when the pass is over.
    let keys = try container.content.keys()
    #expect(keys.count == 7 - Int(state.evictedFiles))
  }

  @Test func whatMustStayStays() async throws {
    defer { space.stop() }
    let pinned = try read("pinned", 2)
    try container.catalog.setPinned(pinned, true)
    let open = try read("open", 2)
    let handle = try container.open(open)
    let edited = try container.create("edited", String(repeating: "x", count: 2 * Self.mebi))
    container.system.release(edited.handle)
    let folder = try container.make(.directory, "kept")
    let below = try read("below", 1)
    try container.system.rename(
      container.name("below"), in: .root, to: container.name("below"), in: folder, mode: .noReplace)
    try container.catalog.setPolicy(folder, .downloadEagerlyAndKeepDownloaded)
    let free = try read("free", 1)
    try await room(6, until: "the free file is evicted") { try !isHere(free) }
    for number in [pinned, open, edited.number, below] { #expect(try isHere(number)) }
    #expect(try !isHere(free))
    let tally = try #require(space.report()?.tally)
    #expect(tally.kept >= UInt64(3 * Self.mebi))
    #expect(tally.unsent >= UInt64(2 * Self.mebi))
    #expect(tally.open >= UInt64(2 * Self.mebi))
    #expect(tally.evictable == 0)
    container.system.release(handle)
    try await room(6, until: "the closed file is evicted") { try !isHere(open) }
    #expect(try !isHere(open))
  }

  @Test func partialFilesGiveTheirBlocksBack() async throws {
    defer { space.stop() }
    let number = try container.appear(
      "partial", [UInt8](repeating: 0x61, count: 16 * Self.mebi))
    let handle = try container.open(number)
    for part in 0..<6 {
      _ = try container.read(handle, at: UInt64(part * 2 * Self.mebi), count: Self.mebi)
    }
    let before = try used()
    #expect(before >= 6 * Self.mebi)
    // While it is open it stays.
    await room(6)
    #expect(try used() >= before)
    container.system.release(handle)
    try await room(6, until: "the partial file has no blocks") { try used() == 0 }
    #expect(try used() == 0)
    #expect(try container.content.keys().isEmpty)
    #expect(try container.system.status(number).blocks == 1)
    try read(number, 1)
    #expect(try used() == Self.mebi)
  }

  @Test func aPackageGoesAsAWhole() async throws {
    defer { space.stop() }
    let package = try container.make(.directory, "a.pages")
    var parts: [InodeNumber] = []
    for index in 0..<3 {
      let part = try read("part\(index)", 1)
      try container.system.rename(
        container.name("part\(index)"), in: .root, to: container.name("p\(index)"), in: package,
        mode: .noReplace)
      parts.append(part)
    }
    try #require(try container.coordinator.isPackage(container.catalog.inode(package)))
    // A move here is a change that is not sent, so none of it can go.
    await room(6)
    for part in parts { #expect(try isHere(part)) }
  }

  @Test func withoutABudgetNothingGoesByItself() async throws {
    defer { space.stop() }
    let plain = LocalSpace(limits: SpaceLimits(), directory: container.directory)
    defer { plain.stop() }
    container.coordinator.setSpace(plain, uses: nil)
    plain.add(LocalSpace.Member(container.coordinator))
    let number = try read("file", 4)
    #expect(await !container.coordinator.makeRoom(for: 100))
    #expect(try isHere(number))
  }

  @Test func aCloseWaitsWhileWhatWasWrittenIsSent() async throws {
    defer { space.stop() }
    // Without a way to the backend nobody waits.
    let edited = try container.create("edited", String(repeating: "x", count: 9 * Self.mebi))
    container.system.release(edited.handle)
    let none = container.coordinator.waitForRoom {}
    #expect(none == nil)
    let isSending = Lock(true)
    space.add(
      LocalSpace.Member(container.coordinator, canSend: { isSending.withLock { $0 } }))
    let waited = Gate()
    let first = container.coordinator.waitForRoom { waited.open() }
    #expect(first != nil)
    #expect(!waited.wait(milliseconds: 200))
    // It ends when there is nothing to wait for any more.
    isSending.withLock { $0 = false }
    waited.wait()
    isSending.withLock { $0 = true }
    let given = Gate()
    let second = container.coordinator.waitForRoom { given.open() }
    try #require(second).cancel()
    given.wait()
  }

  /// A close that waits; the gate opens when it goes on.
  private func close() throws -> Gate {
    let waited = Gate()
    let ticket = container.coordinator.waitForRoom { waited.open() }
    try #require(ticket != nil)
    return waited
  }

  /// A store that is sound once the test says so.
  private final class Looks: StoreConfirming {
    let isSound = Lock(false)

    func evictionRefusal(since: UInt64) -> Errno? {
      isSound.withLock { $0 } ? nil : .resourceTemporarilyUnavailable
    }

    func confirmStore(since: UInt64, _ completion: @escaping @Sendable (Errno?) -> Void) {
      completion(evictionRefusal(since: since))
    }
  }

  @Test("a close waits for what is sent and cannot be evicted yet")
  func aCloseWaitsForTheStore() async throws {
    defer { space.stop() }
    let looks = Looks()
    container.coordinator.setStoreConfirmer(looks)
    space.add(LocalSpace.Member(container.coordinator, canSend: { true }))
    for number in 1...9 { _ = try read("file\(number)", pausing: false) }
    let waited = try close()
    #expect(!waited.wait(milliseconds: 1000))
    looks.isSound.withLock { $0 = true }
    #expect(waited.wait(milliseconds: 60_000))
    #expect(try used() <= 8 * Self.mebi)
  }

  /// Opens a file that was sent, and writes so many mebibytes over it: nothing but it has changed.
  private func write(_ name: String, _ size: Int) throws -> UInt64 {
    let handle = try container.open(container.appear(name, [1]), writing: true, truncating: true)
    try container.write(handle, String(repeating: "x", count: size * Self.mebi))
    return handle
  }

  @Test("a close waits for a file that another program is closing")
  func aCloseWaitsForOtherCloses() async throws {
    space.stop()
    let space = LocalSpace(
      limits: space.limits, directory: container.directory, hopeLimit: 60_000)
    defer { space.stop() }
    container.coordinator.setSpace(space, uses: nil)
    let isSending = Lock(true)
    space.add(
      LocalSpace.Member(container.coordinator, canSend: { isSending.withLock { $0 } }))
    let first = try write("first", 5)
    let second = try write("second", 5)
    try #require(try container.catalog.dirtyCount() == 2)
    let waited = try close()
    #expect(!waited.wait(milliseconds: 300))
    container.system.release(first)
    #expect(!waited.wait(milliseconds: 300))
    isSending.withLock { $0 = false }
    #expect(waited.wait(milliseconds: 60_000))
    container.system.release(second)
  }

  @Test("a close goes on when only files that are being written are left")
  func aCloseGoesOnBesideOpenFiles() async throws {
    defer { space.stop() }
    space.add(LocalSpace.Member(container.coordinator, canSend: { true }))
    let open = try write("open", 9)
    let waited = try close()
    // Sooner than when nothing moves.
    #expect(waited.wait(milliseconds: 8000))
    container.system.release(open)
  }

  @Test("a close waits for what is sent beside a file that is open and unchanged")
  func openUnchangedFile() async throws {
    defer { space.stop() }
    let open = try container.open(container.appear("database", [1]), writing: true)
    container.system.release(try write("large", 9))
    try #require(try container.catalog.dirtyCount() == 1)
    let isSending = Lock(true)
    space.add(
      LocalSpace.Member(container.coordinator, canSend: { isSending.withLock { $0 } }))
    let waited = try close()
    #expect(!waited.wait(milliseconds: 1000))
    isSending.withLock { $0 = false }
    #expect(waited.wait(milliseconds: 60_000))
    container.system.release(open)
  }

  @Test("a close does not wait for a container that is deleted or rolled back")
  func containerThatIsNotInOrder() async throws {
    defer { space.stop() }
    let other = try Container("iCloud.com.example.other")
    other.coordinator.setStoreConfirmer(Looks())
    other.coordinator.setSpace(space, uses: uses)
    space.add(LocalSpace.Member(other.coordinator))
    let file = try other.appear("file", [UInt8](repeating: 0x62, count: 4 * Self.mebi))
    let reading = try other.open(file)
    _ = try other.read(reading, count: 4 * Self.mebi)
    other.system.release(reading)
    space.add(LocalSpace.Member(container.coordinator, canSend: { true }))
    let open = try write("open", 5)
    let waited = try close()
    // Sooner than when nothing moves.
    #expect(waited.wait(milliseconds: 8000))
    container.system.release(open)
    #expect(try other.catalog.inode(file).content == .local)
  }

  @Test func usesOutliveTheProcess() throws {
    defer { space.stop() }
    let number = try read("file")
    let noted = uses.time(of: number)
    #expect(noted > 0)
    #expect(try UseTimes(path: container.directory + "/uses").time(of: number) == noted)
    uses.note(InodeNumber(1 << 40), at: 5)
    #expect(uses.time(of: InodeNumber(1 << 40)) == 0)
    #expect(uses.time(of: InodeNumber(900_000)) == 0)
    // What is none of ours is begun anew.
    let path = container.directory + "/other"
    try Files.replace(path, with: Array("something else".utf8))
    #expect(try UseTimes(path: path).time(of: InodeNumber(1)) == 0)
  }

  // MARK: Policies

  @Test func policiesAreReadAndWrittenAsAttributes() throws {
    defer { space.stop() }
    let system = container.system
    let name = container.name("user.ubiquity.policy")
    let folder = try container.make(.directory, "folder")
    func set(_ text: String, _ number: InodeNumber) throws(Errno) {
      try system.setAttribute(name, Array(text.utf8), mode: .createOrReplace, of: number)
    }
    #expect(try system.attribute(name, of: folder) == Array("inherit".utf8))
    for policy in DownloadPolicy.allCases {
      try set(policy.rawValue + "\n", folder)
      #expect(try system.attribute(name, of: folder) == Array(policy.rawValue.utf8))
    }
    #expect(throws: Errno.invalidArgument) { try set("sometimes", folder) }
    #expect(throws: Errno.invalidArgument) { try set("", folder) }
    let file = try container.create("file")
    #expect(throws: Errno.notDirectory) { try set("inherit", file.number) }
    #expect(throws: Errno.noData) { try system.attribute(name, of: file.number) }
    system.release(file.handle)
  }

  @Test func theNearestDirectoryDecides() throws {
    defer { space.stop() }
    let outer = try container.make(.directory, "outer")
    let inner = try container.make(.directory, "inner", in: outer)
    let file = try container.create("file", in: inner)
    container.system.release(file.handle)
    func keeping() throws -> ContainerCoordinator.Keeping {
      container.coordinator.keeping(of: try container.catalog.inode(file.number))
    }
    #expect(try keeping().policy == .inherit)
    #expect(try keeping().isWanted(isGreedy: true))
    try container.catalog.setPolicy(outer, .downloadEagerlyAndKeepDownloaded)
    #expect(try keeping().isKept)
    try container.catalog.setPolicy(inner, .downloadLazily)
    #expect(try !keeping().isKept)
    #expect(try !keeping().isWanted(isGreedy: true))
    try container.catalog.setPinned(outer, true)
    #expect(try keeping().isKept)
  }

  @Test func anEagerDirectoryBringsWhatIsBelowAndWhatIsMovedThere() throws {
    defer { space.stop() }
    let far = try container.appear("far", [UInt8](repeating: 1, count: 100))
    let folder = try container.make(.directory, "folder")
    try container.coordinator.setPolicy(folder, .downloadEagerlyAndKeepDownloaded)
    #expect(container.fetcher.asked.isEmpty)
    try container.system.rename(
      container.name("far"), in: .root, to: container.name("near"), in: folder, mode: .noReplace)
    #expect(container.fetcher.asked.count == 1)
    #expect(try container.catalog.lookup(try ItemName("near"), in: folder)?.number == far)
  }
}
