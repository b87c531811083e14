import Backend
import Model
import RemoteStore
import SyncEngine
import Testing

/// Segments that another device of the account wrote, and that no device of ours would.
@Suite struct HostileLogTests {
  @Test("a segment after which two items have one name is called damaged, not the local catalog")
  func noTree() async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let device = try EngineDevice(store: store, secret: secret)
    do {
      try device.write("Documents/mine", [1])
      try await device.sync.sync(timeout: .seconds(240))
      let account = try await RemoteAccount.open(
        store: store, secret: secret, createIfMissing: false)
      let container = try #require(try await account.container(EngineDevice.container))
      let time = Timestamp(nanoseconds: 1)
      var changes = LogChanges()
      for number in UInt64(1)...2 {
        changes.upserts.append(
          ItemRecord(
            id: ItemID(high: 7, low: number), kind: .directory,
            links: [Link(parent: .documents, name: try ItemName("twice"))], mode: 0o755,
            modified: time, created: time))
      }
      let head = try device.catalog.position()
      let forged = try await container.commit(
        changes, after: head, from: LogOrigin(device: .random(), time: time))
      #expect(forged != nil)
      do {
        try await device.sync.sync(timeout: .seconds(240))
        Issue.record("the segment was taken")
      } catch {
        let text = "\(error)"
        #expect(text.contains("/log/") && text.contains("do not form a tree"))
        #expect(!text.contains("catalog of this device"))
      }
      #expect(try await device.read("Documents/mine") == [1])
    } catch {
      await device.end()
      throw error
    }
    await device.end()
  }
}
