import Backend
import Catalog
import Coordination
import Model
import Platform
import SyncEngine
import Testing

/// Local content that gives way to the content of another device while the store has lost packs.
@Suite(.serialized) struct LostPackTests {
  private static let path = "Documents/f"

  /// A file that both devices have locally.
  private func makeFile(_ first: EngineDevice, _ second: EngineDevice) async throws {
    try first.write(Self.path, Array("base".utf8))
    try await settle(first, second)
    _ = try await second.read(Self.path)
  }

  /// Writes and uploads a content. Gives its packs.
  private func upload(
    _ text: String, from device: EngineDevice, of house: RestorableHousehold
  ) async throws -> Set<String> {
    let before = try await house.packs()
    try device.write(Self.path, Array(text.utf8))
    try await device.sync.sync(timeout: .seconds(240))
    let packs = try await house.packs().subtracting(before)
    try #require(!packs.isEmpty)
    return packs
  }

  private func text(_ device: EngineDevice) async throws -> String {
    String(decoding: try await device.read(Self.path), as: UTF8.self)
  }

  private func conflicts(_ device: EngineDevice) async throws -> [String] {
    let number = try #require(try device.find(Self.path)).number
    var result: [String] = []
    for version in try device.sync.versions(of: number) where version.isConflict {
      let collected = Collected()
      try await device.sync.read(version.id, of: number) { await collected.add($0) }
      result.append(String(decoding: await collected.bytes, as: UTF8.self))
    }
    return result.sorted()
  }

  @Test(
    "the loser of a conflict is uploaded again before it gives way if the store lost it",
    arguments: [false, true])
  func loser(restarts: Bool) async throws {
    try await withRestorableStore { house in
      var first = try house.device()
      let second = try house.device()
      try await makeFile(first, second)
      let lost = try await upload("loser", from: first, of: house)
      _ = try await upload("winner", from: second, of: house)
      // The first device has the only copy now, and does not know of the conflict yet.
      for key in lost { try await house.store.delete(key) }
      if restarts {
        await first.stop()
        first = try house.device(after: first)
      }
      #expect(try await text(first) == "loser")

      try await first.sync.sync(timeout: .seconds(240))
      try await settle(first, second)
      let third = try house.device()
      try await settle(first, second, third)
      for device in [first, second, third] {
        #expect(try await text(device) == "winner")
        #expect(try await conflicts(device) == ["loser"])
      }
      #expect(try await third.sync.verify(VerifyOptions(readsData: true)).isWell)
    }
  }

  @Test("files come back from the trash beside others that the store has lost")
  func restoringBesideLosses() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      let directory = "Documents/d"
      try device.makeDirectory(directory)
      try device.write("\(directory)/a", Array("a".utf8))
      try await device.sync.sync(timeout: .seconds(240))
      let before = try await house.packs()
      try device.write("\(directory)/b", Array("b".utf8))
      try await device.sync.sync(timeout: .seconds(240))
      try await device.evict("\(directory)/b")
      for key in try await house.packs().subtracting(before) { try await house.store.delete(key) }
      #expect(try await !device.sync.verify(VerifyOptions()).isWell)
      for name in ["a", "b"] { try device.remove("\(directory)/\(name)") }
      try device.remove(directory, directory: true)
      try await device.sync.sync(timeout: .seconds(240))

      let place = try #require(
        try device.sync.removedItems().first { $0.path.last?.description == "d" })
      do {
        try await device.sync.restore([place.item.record.id])
        Issue.record("a lost content was restored")
      } catch {
        // The description of a case escapes the quotes of its text.
        #expect("\(error)".contains(#"\"b\""#))
      }
      #expect(try await device.read("\(directory)/a") == Array("a".utf8))
      #expect(try device.find("\(directory)/b") == nil)
      let left = try device.sync.removedItems()
      #expect(left.map { $0.path.last?.description } == ["b"])
    }
  }

  @Test("the loser of a conflict gives way though its presenter takes its time")
  func slowPresenter() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try await makeFile(first, second)
      _ = try await upload("loser", from: first, of: house)
      _ = try await upload("winner", from: second, of: house)
      let claims = first.coordinator.claims
      let presenter = SlowPresenter(claims)
      let party = claims.join(name: "an editor", process: 0, listener: presenter)
      let file = try #require(try first.find(Self.path))
      let place = try #require(try first.coordinator.claimed(file.number))
      _ = claims.present(place.path, by: party)

      try await first.sync.sync(timeout: .seconds(240))
      #expect(presenter.questions.withLock(\.self) > 0)
      claims.leave(party)
      for device in [first, second] {
        #expect(try await text(device) == "winner")
        #expect(try await conflicts(device) == ["loser"])
      }
    }
  }

  @Test(
    "a newer content that the store lost does not replace the older one that is local",
    arguments: [false, true])
  func newerContent(isConflict: Bool) async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try await makeFile(first, second)
      if isConflict { _ = try await upload("loser", from: first, of: house) }
      let kept = isConflict ? "loser" : "base"
      let lost = try await upload("newer", from: second, of: house)
      for key in lost { try await house.store.delete(key) }

      await #expect(throws: SyncFailure.self) {
        try await first.sync.sync(timeout: .seconds(240))
      }
      #expect(try first.find(Self.path)?.content == .local)
      #expect(try await text(first) == kept)
      #expect(await first.sync.status().errors.contains { $0.contains("it is missing") })

      let report = try await second.sync.verify(VerifyOptions())
      #expect(report.isWell)
      #expect(report.repaired == 1)
      try await settle(second, first)
      let losers = isConflict ? ["loser"] : []
      for device in [first, second] {
        #expect(try await text(device) == "newer")
        #expect(try await conflicts(device) == losers)
      }
    }
  }

  @Test("a package wins its conflict though the store lost content of the other version")
  func loserOfAPackage() async throws {
    try await withRestorableStore { house in
      let (first, second) = (try house.device(), try house.device())
      let package = Self.package
      let files = ["a", "b"].map { "\(package)/\($0)" }
      try await makePackage(["a", "b"], first, second)
      try await makeFile(first, second)
      // A conflict of this file has the first device list the packs.
      _ = try await upload("loser", from: first, of: house)
      let before = try await house.packs()
      try second.write(files[0], Array("second".utf8))
      try await second.sync.sync(timeout: .seconds(240))
      let lost = try await house.packs().subtracting(before)
      _ = try await upload("winner", from: second, of: house)
      // The package of the first device is the later one.
      try first.write(files[1], Array("first".utf8))
      for key in lost { try await house.store.delete(key) }

      try await first.sync.sync(timeout: .seconds(240))
      // The second device still has the lost content, and uploads it again.
      try await settle(second, first)
      #expect(try await second.sync.verify(VerifyOptions()).isWell)
      for device in [first, second] {
        #expect(try await text(device) == "winner")
        var texts: [String] = []
        for file in files {
          texts.append(String(decoding: try await device.read(file), as: UTF8.self))
        }
        #expect(texts == ["base", "first"])
        let number = try #require(try device.find(package)).number
        #expect(try device.sync.versions(of: number).map(\.isConflict) == [false, true])
      }
      let number = try #require(try first.find(package)).number
      let version = try #require(try first.sync.versions(of: number).last)
      let archive = Collected()
      try await first.sync.read(version.id, of: number) { await archive.add($0) }
      #expect(String(decoding: await archive.bytes, as: UTF8.self).contains("second"))
    }
  }

  @Test("the headers of a package's version are sent again before the package gives way")
  func lostHeaders() async throws {
    try await withRestorableStore { house in
      let (first, second) = (try house.device(), try house.device())
      let package = Self.package
      try await makePackage(["a", "b"], first, second)
      // The winner's content is in a pack that stays.
      try first.write("Documents/x", Array("winner".utf8))
      try await settle(first, second)
      try first.write("\(package)/a", Array("mine".utf8))
      try await first.sync.sync(timeout: .seconds(240))
      first.offline.set(offline: true)
      try second.write("\(package)/b", Array("winner".utf8))
      let before = try await house.packs()
      try await second.sync.sync(timeout: .seconds(240))
      let headers = try await house.packs().subtracting(before)
      #expect(headers.count == 1)
      for key in headers { try await house.store.delete(key) }

      first.offline.set(offline: false)
      try await settle(first, second)
      #expect(try await second.sync.verify(VerifyOptions()).isWell)
      for device in [first, second] {
        let number = try #require(try device.find(package)).number
        let versions = try device.sync.versions(of: number)
        #expect(versions.map(\.isConflict) == [false, true])
        let version = try #require(versions.last)
        let archive = Collected()
        try await device.sync.read(version.id, of: number) { await archive.add($0) }
        #expect(String(decoding: await archive.bytes, as: UTF8.self).contains("mine"))
      }
    }
  }

  private static let package = "Documents/p.pages"

  /// A package of files that both devices have locally.
  private func makePackage(_ names: [String], _ first: EngineDevice, _ second: EngineDevice)
    async throws
  {
    try first.makeDirectory(Self.package)
    for name in names { try first.write("\(Self.package)/\(name)", Array("base".utf8)) }
    try await settle(first, second)
    for name in names { _ = try await second.read("\(Self.package)/\(name)") }
  }

  @Test("a package wins its conflict though the store lost a placeholder of it")
  func placeholderOfAPackage() async throws {
    try await withRestorableStore { house in
      let (first, second) = (try house.device(), try house.device())
      try await makePackage(["a", "b"], first, second)
      let before = try await house.packs()
      try first.write("\(Self.package)/c", Array("rare".utf8))
      try await settle(first, second)
      for key in try await house.packs().subtracting(before) { try await house.store.delete(key) }
      let report = try await second.sync.verify(VerifyOptions())
      #expect(!report.isWell)

      try first.write("\(Self.package)/a", Array("first".utf8))
      try await first.sync.sync(timeout: .seconds(240))
      try second.write("\(Self.package)/b", Array("second".utf8))
      try await second.sync.sync(timeout: .seconds(240))

      try await settle(first, second)
      _ = try await first.sync.verify(VerifyOptions())
      try await settle(first, second)
      for (name, text) in [("a", "base"), ("b", "second"), ("c", "rare")] {
        let bytes = try await second.read("\(Self.package)/\(name)")
        #expect(String(decoding: bytes, as: UTF8.self) == text)
      }
    }
  }

  @Test(
    "a package with an edit passes other files of it that the store lost",
    arguments: [["b"], ["c"], ["d"]])
  func editBesideLostFilesInAPackage(edited: [String]) async throws {
    try await withRestorableStore { house in
      let (first, second) = (try house.device(), try house.device())
      try await makePackage(["a", "b", "c", "d"], first, second)
      for name in ["b", "c", "d"] { _ = try await first.read("\(Self.package)/\(name)") }
      first.offline.set(offline: true)
      for name in edited { try first.write("\(Self.package)/\(name)", Array("edit".utf8)) }
      let before = try await house.packs()
      // The other package is the later one.
      for name in ["c", "d"] { try second.write("\(Self.package)/\(name)", Array("rare".utf8)) }
      try await second.sync.sync(timeout: .seconds(240))
      for key in try await house.packs().subtracting(before) { try await house.store.delete(key) }
      first.offline.set(offline: false)
      try await settle(first, second)
      for device in [first, second] {
        for name in ["a", "b", "c", "d"] {
          let bytes = try await device.read("\(Self.package)/\(name)")
          let text = edited.contains(name) ? "edit" : "base"
          #expect(String(decoding: bytes, as: UTF8.self) == text)
        }
        let number = try #require(try device.find(Self.package)).number
        let versions = try device.sync.versions(of: number)
        #expect(versions.map(\.isConflict) == [false, true])
      }
    }
  }

  @Test("a package with an edit passes a content that the store lost")
  func editOfALostFileInAPackage() async throws {
    try await withRestorableStore { house in
      let (first, second) = (try house.device(), try house.device())
      try await makePackage(["a", "b"], first, second)
      let before = try await house.packs()
      try first.write("\(Self.package)/c", Array("rare".utf8))
      try await settle(first, second)
      let lost = try await house.packs().subtracting(before)
      first.offline.set(offline: true)
      try first.write("\(Self.package)/c", Array("edit".utf8))
      // The other package is the later one.
      try second.write("\(Self.package)/b", Array("second".utf8))
      try await second.sync.sync(timeout: .seconds(240))
      for key in lost { try await house.store.delete(key) }
      first.offline.set(offline: false)
      try await first.sync.sync(timeout: .seconds(240))
      try await settle(first, second)
      for device in [first, second] {
        for (name, text) in [("b", "base"), ("c", "edit")] {
          let bytes = try await device.read("\(Self.package)/\(name)")
          #expect(String(decoding: bytes, as: UTF8.self) == text)
        }
        let number = try #require(try device.find(Self.package)).number
        #expect(try device.sync.versions(of: number).map(\.isConflict) == [false, true])
      }
    }
  }

  @Test("a package loses its conflict though a recovery left a file of it by name only")
  func fileByNameInAPackage() async throws {
    try await withRestorableStore { house in
      let (first, second) = (try house.device(), try house.device())
      try await makePackage(["b"], first, second)
      let before = try await house.packs()
      try first.write("\(Self.package)/a", Array("rare".utf8))
      try await settle(first, second)
      let lost = try await house.packs().subtracting(before)
      // No device has its bytes after this.
      try await first.evict("\(Self.package)/a")
      let earlier = try await house.copy().filter { !lost.contains($0.key) }
      try first.write("Documents/x", [1])
      try await settle(first, second)
      second.offline.set(offline: true)
      try second.write("\(Self.package)/b", Array("second".utf8))
      try second.write("Documents/other", Array("other".utf8))

      try await house.restore(earlier)
      await #expect(throws: SyncFailure.self) { try await first.sync.sync() }
      #expect(try await first.sync.recoverStore().missing.count == 1)
      // The later edit wins.
      try first.write("\(Self.package)/b", Array("first".utf8))
      try await first.sync.sync(timeout: .seconds(240))

      second.offline.set(offline: false)
      try await second.sync.sync(timeout: .seconds(240))
      try await settle(first, second)
      for device in [first, second] {
        let bytes = try await device.read("\(Self.package)/b")
        #expect(String(decoding: bytes, as: UTF8.self) == "first")
        #expect(try await device.read("Documents/other") == Array("other".utf8))
        #expect(try device.catalog.pendingContents().count == 1)
      }
    }
  }

  @Test("content of a package is uploaded again though another device renamed the file")
  func renamedFileOfAPackage() async throws {
    try await withRestorableStore { house in
      let (first, second) = (try house.device(), try house.device())
      try await makePackage(["a"], first, second)
      let before = try await house.packs()
      try first.write("\(Self.package)/b", Array("rare".utf8))
      try await makeFile(first, second)
      let lost = try await house.packs().subtracting(before)
      _ = try await upload("loser", from: first, of: house)
      try second.rename("\(Self.package)/b", "\(Self.package)/c")
      _ = try await upload("winner", from: second, of: house)
      for key in lost { try await house.store.delete(key) }

      try await first.sync.sync(timeout: .seconds(240))
      let third = try house.device()
      try await settle(third, second)
      for device in [first, second, third] {
        let bytes = try await device.read("\(Self.package)/c")
        #expect(String(decoding: bytes, as: UTF8.self) == "rare")
        #expect(try await text(device) == "winner")
      }
    }
  }
}

/// Lets go of what it presents a moment after it was asked, as a program on a busy machine does.
private final class SlowPresenter: PresenterListening {
  private let claims: ClaimTable
  let questions = Lock(0)

  init(_ claims: ClaimTable) { self.claims = claims }

  func asked(_ question: Question) {
    questions.withLock { $0 += 1 }
    let claims = claims
    Task {
      try? await Task.sleep(for: .milliseconds(100))
      claims.answer(question)
    }
  }

  func reacquired(_ presenter: PresenterID) {}
  func passedOver(_ question: Question) {}
  func withdrawn(_ question: Question) {}
  func told(_ news: [PresenterNews]) {}
}

extension RestorableHousehold {
  /// The keys of the packs that the store has.
  func packs() async throws -> Set<String> {
    let keys = try await store.list(prefix: "containers/", after: nil, limit: .max)
    return Set(keys.filter { StoreKey.isPack($0) })
  }
}
