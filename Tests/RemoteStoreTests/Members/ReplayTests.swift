import Backend
import Model
import RemoteStore
import Testing

/// A store that shows older versions of objects, and a removed device that replaces them.
struct ReplayTests {
  private func quota(_ limit: UInt64, by device: MemberDevice) -> AccountQuota {
    AccountQuota(limit: limit, time: Timestamp(nanoseconds: 1), device: device.id)
  }

  @Test("a quota that a store shows again does not apply, also after a restart")
  func replayedQuota() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let two = try await MemberDevice("two", in: store)
    try await one.account.setQuota(quota(1, by: one))
    let old = try await store.get("account/quota")
    try await two.account.setQuota(quota(2, by: two))
    #expect(try await one.account.quota()?.limit == 2)
    try await store.replace("account/quota", old)
    #expect(try await one.account.quota()?.limit == 2)
    let next = try MemberDevice(after: one, in: store)
    #expect(try await next.account.quota()?.limit == 2)
    // The next version is later than all.
    try await next.account.setQuota(quota(3, by: one))
    #expect(try await two.account.quota()?.limit == 3)
  }

  @Test("a name that a store shows again does not bring back a deleted container")
  func replayedName() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let container = try await one.container()
    let keys = try await store.list(prefix: "", after: nil, limit: 1000)
    var objects: [String: [UInt8]] = [:]
    for key in keys { objects[key] = try await store.get(key) }
    try await one.account.deleteContainer(
      MemberDevice.container, by: ContainerDeletion(device: one.id, time: Timestamp(nanoseconds: 2))
    )
    // The whole container as it was, and no record that it was deleted.
    for (key, bytes) in objects { try await store.replace(key, bytes) }
    try await store.delete("deleted/\(container.incarnation)")
    #expect(try await one.account.containers() == [])
    #expect(try await one.account.container(MemberDevice.container) == nil)
    let next = try MemberDevice(after: one, in: store)
    #expect(try await next.account.containers() == [])
    let fresh = try await next.container()
    #expect(fresh.incarnation != container.incarnation)
  }

  @Test("an older name of a container that was made anew is passed over for the newer one")
  func replayedIncarnation() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    _ = try await one.container()
    let name = try #require(try await store.list(prefix: "names/", after: nil, limit: 2).first)
    let old = try await store.get(name)
    try await one.account.deleteContainer(
      MemberDevice.container, by: ContainerDeletion(device: one.id, time: Timestamp(nanoseconds: 2))
    )
    let new = try await one.container()
    try await store.replace(name, old)
    #expect(try await one.account.container(MemberDevice.container)?.incarnation == new.incarnation)
  }

  @Test("nothing that a removed device signs is accepted outside of logs either")
  func removedDeviceReplaces() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let two = try await MemberDevice("two", in: store)
    let lost = try await MemberDevice("lost", in: store)
    let container = try await one.container()
    try await one.account.setQuota(quota(7, by: one))
    let head = try await lost.log().head
    let stale = try await lost.container()
    #expect(try await two.account.quota()?.limit == 7)
    _ = try await one.account.rotate(removing: [lost.id], secret: .generate())
    try await two.account.refreshMembers()
    // It goes on with what it knew.
    try await lost.account.setQuota(quota(1, by: lost))
    #expect(try await two.account.quota()?.limit == 7)
    let fresh = try await MemberDevice("fresh", in: store, secret: one.account.secret.text)
    await #expect(throws: RemoteError.self) { _ = try await fresh.account.quota() }

    try await lost.account.register(
      DeviceRecord(id: one.id, name: "not one", lastSeen: Timestamp(nanoseconds: 1)))
    try await two.account.refreshMembers()
    #expect(
      try await two.account.devices().map(\.name).sorted() == ["fresh", "one", "two"])

    // A deletion would remove the container for all.
    try? await lost.account.deleteContainer(
      MemberDevice.container,
      by: ContainerDeletion(device: lost.id, time: Timestamp(nanoseconds: 2)))
    #expect(try await container.deletion() == nil)
    #expect(
      try await two.account.container(MemberDevice.container, incarnation: container.incarnation)
        .deletion() == nil)

    let writer = stale.writeSnapshot(at: head, from: lost.origin)
    let part = try await writer.put(SnapshotPartBody(), number: 0)
    _ = try await writer.finish([part], items: 0)
    await #expect(throws: RemoteError.self) { _ = try await container.snapshot(head.sequence) }

    try await stale.put(
      DeviceCursor(
        device: lost.id, sequence: 1, time: Timestamp(nanoseconds: 1), keepRemovedDays: 1))
    #expect(try await container.cursors().isEmpty)
  }
}
