import SyncEngine
import Testing

/// A recovery keeps the rest of a package's conflict version if the store lost a part of it.
@Suite(.serialized) struct SalvagedVersionTests {
  @Test(
    "a recovery keeps the rest of a package's version of which the store lost a part",
    arguments: [0, 1])
  func restOfAVersion(recoverer: Int) async throws {
    try await withRestorableStore { house in
      let (first, second) = (try house.device(), try house.device())
      let package = "Documents/p.pages"
      try first.makeDirectory(package)
      for name in ["a", "b"] { try first.write("\(package)/\(name)", Array("base".utf8)) }
      try await settle(first, second)
      try second.write("\(package)/a", Array("second's a".utf8))
      try await second.sync.sync(timeout: .seconds(240))
      let before = try await house.packs()
      try second.write("\(package)/c", Array("second's c".utf8))
      try await second.sync.sync(timeout: .seconds(240))
      let lost = try await house.packs().subtracting(before)
      // The package of the first device is the later one.
      try first.write("\(package)/b", Array("first's b".utf8))
      try await settle(first, second)
      #expect(try await archive(first, package).contains("second's c"))

      var earlier = try await house.copy()
      for key in lost { earlier[key] = nil }
      try first.makeDirectory("Documents/later")
      try await settle(first, second)
      try await house.restore(earlier)
      let devices = [first, second]
      for device in devices {
        await #expect(throws: SyncFailure.self) {
          try await device.sync.sync(timeout: .seconds(240))
        }
      }
      _ = try await devices[recoverer].sync.recoverStore()
      try await settle(first, second)
      let newcomer = try house.device()
      try await settle(first, second, newcomer)
      for device in devices + [newcomer] {
        let kept = try await archive(device, package)
        #expect(kept.contains("second's a"))
        #expect(!kept.contains("second's c"))
        #expect(try device.catalog.keptConflicts().isEmpty)
        #expect(try device.find("Documents/later") != nil)
        #expect(try await device.read("\(package)/b") == Array("first's b".utf8))
      }
    }
  }

  /// The one conflict version of a package, as text.
  private func archive(
    _ device: EngineDevice, _ package: String, at place: SourceLocation = #_sourceLocation
  ) async throws -> String {
    let number = try #require(try device.find(package)).number
    let versions = try device.sync.versions(of: number).filter(\.isConflict)
    #expect(versions.count == 1, sourceLocation: place)
    let version = try #require(versions.first, sourceLocation: place)
    let collected = Collected()
    try await device.sync.read(version.id, of: number) { await collected.add($0) }
    return String(decoding: await collected.bytes, as: UTF8.self)
  }
}
