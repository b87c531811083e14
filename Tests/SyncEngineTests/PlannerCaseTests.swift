import Model
import SyncEngine
import Testing

/// Single cases of the planner, each of which a simulated life once came to.
@Suite struct PlannerCaseTests {
  private let me = Model.DeviceID(high: 7, low: 0)
  private let item = ItemID(high: 1, low: 1)

  private func announced(by device: Model.DeviceID, conflicts: [ContentVersion] = []) throws
    -> ItemRecord
  {
    let time = Timestamp(nanoseconds: 1000)
    return ItemRecord(
      id: item, kind: .file, links: [Link(parent: .documents, name: try ItemName("a"))],
      mode: 0o644, modified: time, created: time,
      content: ContentVersion(
        id: VersionID(high: 2, low: 2), parent: nil, device: device, modified: time, size: 1,
        manifest: nil),
      conflicts: conflicts)
  }

  private func plan(_ record: ItemRecord) throws -> Plan {
    var device = SimulatedDevice(device: me)
    device.remote[item] = record
    return try Planner(device: me, view: device).plan(device.gather())
  }

  /// This device announced a file, did not hear that it had, and the file went before it was sent.
  /// Taken for news it came back, on all devices, with a content that nobody had.
  @Test func whatNobodyCanSendAnyMoreGoes() throws {
    let plan = try plan(announced(by: me))
    #expect(plan.removals == [item])
    #expect(plan.local.isEmpty && plan.upserts.isEmpty)
  }

  @Test func whatAnotherDeviceIsAboutToSendComes() throws {
    let plan = try plan(announced(by: Model.DeviceID(high: 7, low: 1)))
    #expect(plan.removals.isEmpty)
    #expect(plan.local.count == 1)
  }

  /// Somebody else's content is among its conflict versions: that is no reason to remove it.
  @Test func whatHasOtherContentsStays() throws {
    let version = VersionID(high: 3, low: 3)
    let other = ContentVersion(
      id: version, parent: nil, device: Model.DeviceID(high: 7, low: 1),
      modified: Timestamp(nanoseconds: 1), size: 1, manifest: SimulatedDevice.manifest(of: version))
    let plan = try plan(announced(by: me, conflicts: [other]))
    #expect(plan.removals.isEmpty)
  }
}
