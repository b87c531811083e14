import Catalog
import Model
import SyncEngine
import Testing

/// The decision alone: removals in, verdict out.
@Suite struct DeletionGuardTests {
  private static let minute = Int64(60) * 1_000_000_000
  private static let start = 1_000 * minute

  private func time(_ minutes: Int64) -> Timestamp {
    Timestamp(nanoseconds: Self.start + minutes * Self.minute)
  }

  /// Of items that were made long ago, unless said otherwise.
  private func removals(_ count: Int, from stamp: UInt64 = 1000, created: Int64 = -900)
    -> [DeletionGuard.Removal]
  {
    (0..<count).map {
      DeletionGuard.Removal(stamp: stamp + UInt64($0), created: time(created))
    }
  }

  private struct Asked: Error {}

  private func verdict(
    _ removals: [DeletionGuard.Removal], _ record: DeletionRecord, of items: Int, at minutes: Int64,
    by guarding: DeletionGuard
  ) -> DeletionGuard.Verdict {
    var count = DeletionGuard.Count(after: record, items: items, now: time(minutes))
    for removal in removals { count.add(removal) }
    return guarding.verdict(on: count)
  }

  /// The record after removals that may go.
  private func after(
    _ removals: [DeletionGuard.Removal], _ record: DeletionRecord = DeletionRecord(), of items: Int,
    at minutes: Int64 = 0, by guarding: DeletionGuard = DeletionGuard()
  ) throws -> DeletionRecord {
    switch verdict(removals, record, of: items, at: minutes, by: guarding) {
    case .goOn(let record): return record
    case .hold: throw Asked()
    }
  }

  @Test func moreThanTheShareAndMoreThanTheLeastNumberAsk() throws {
    let guarding = DeletionGuard()
    let record = DeletionRecord()
    #expect(
      verdict(removals(200), record, of: 302, at: 0, by: guarding)
        == .hold(removed: 200, of: 302))
    _ = try after(removals(149), of: 300)
    #expect(throws: Asked.self) { try after(removals(150), of: 300) }
    _ = try after(removals(100), of: 101)
    #expect(throws: Asked.self) { try after(removals(101), of: 101) }
    #expect(throws: Asked.self) {
      try after(removals(31), of: 300, by: DeletionGuard(share: 0.1, least: 20))
    }
    _ = try after(removals(300), of: 300, by: DeletionGuard(share: 1))
  }

  @Test func removalsOfAnHourAddUp() throws {
    var record = try after(removals(80), of: 300)
    record = try after(removals(60), record, of: 220, at: 30)
    #expect(throws: Asked.self) { try after(removals(11), record, of: 160, at: 59) }
    _ = try after(removals(11), record, of: 160, at: 61)
    // What was set back counts from now on, not for years.
    _ = try after(removals(11), record, of: 160, at: -600)
  }

  @Test func whatIsMadeAndRemovedWithinTheHourDoesNotAddUp() throws {
    var record = try after(removals(1), of: 200)
    for minute in Int64(1)..<60 {
      record = try after(removals(10, created: minute), record, of: 210, at: minute)
    }
    // In one go it is a mass all the same: somebody copied it here and then lost it.
    #expect(throws: Asked.self) { try after(removals(500, created: 1), record, of: 700, at: 30) }
  }

  @Test func aPauseDoesNotEndByWaiting() throws {
    var record = try after(removals(80), of: 300)
    #expect(throws: Asked.self) { try after(removals(90), record, of: 220, at: 1) }
    record.isHeld = true
    #expect(throws: Asked.self) { try after(removals(90), record, of: 220, at: 600) }
    // It does by putting things back.
    #expect(try after(removals(20), record, of: 220, at: 600).isHeld == false)
  }

  @Test func aConfirmationHoldsForWhatWasGoneThenAndWhatFollowsAtOnce() throws {
    var record = DeletionRecord()
    record.isHeld = true
    record.confirm(upTo: 5000, at: time(0))
    let old = removals(5000, from: 1)
    // However late: the backend may not have been there.
    _ = try after(old, record, of: 10_000, at: 500)
    // The same `rm`, still running.
    let going = try after(removals(3000, from: 5001), record, of: 5000, at: 1)
    // Another one.
    #expect(throws: Asked.self) { try after(removals(1500, from: 8001), going, of: 2000, at: 2) }
    // One that came while the confirmed one could not go yet.
    #expect(throws: Asked.self) {
      try after(old + removals(5001, from: 5001), record, of: 10_000, at: 500)
    }
  }

  @Test func whatIsConfirmedIsNotCountedAgain() throws {
    var record = try after(removals(80), of: 300)
    record.isHeld = true
    record.confirm(upTo: 2000, at: time(1))
    record = try after(removals(120), record, of: 220, at: 1)
    #expect(record.window == nil)
    _ = try after(removals(40, from: 3000), record, of: 100, at: 5)
  }

  @Test func confirmingWhatNobodyAskedForAllowsNothingAhead() throws {
    var record = DeletionRecord()
    record.confirm(upTo: 999, at: time(0))
    #expect(throws: Asked.self) { try after(removals(200), record, of: 300) }
  }

  // MARK: What is lost

  /// A device whose log has a directory with files in it.
  private func device(_ files: Int) -> (SimulatedDevice, directory: ItemID, files: [ItemID]) {
    var device = SimulatedDevice(device: Model.DeviceID(high: 7, low: 1))
    let directory = ItemID(high: 1, low: 1)
    func agree(_ id: ItemID) {
      device.base[id] = device.local[id]?.record
      device.remote[id] = device.local[id]?.record
      device.local[id]?.stamp = nil
    }
    _ = device.create(directory, .directory, at: link(.documents, "d"), content: nil, time: 1)
    agree(directory)
    let ids = (0..<files).map { ItemID(high: 2, low: UInt64($0)) }
    for (number, id) in ids.enumerated() {
      _ = device.create(id, .file, at: link(directory, "\(number)"), content: nil, time: 1)
      agree(id)
    }
    return (device, directory, ids)
  }

  private func link(_ parent: ItemID, _ name: String) -> Link {
    Link(parent: parent, name: try! ItemName(name))
  }

  private func lost(_ device: SimulatedDevice, _ ids: [ItemID]) throws -> [ItemID] {
    var items = LostItems(device: device.device, view: device)
    return try ids.filter { try items.lost($0) != nil }
  }

  @Test func aTreeThatIsUnpackedAnewIsNotLost() throws {
    var (device, directory, files) = device(3)
    device.remove(directory)
    #expect(try lost(device, [directory] + files) == [directory] + files)
    let successor = ItemID(high: 3, low: 0)
    _ = device.create(successor, .directory, at: link(.documents, "d"), content: nil, time: 2)
    #expect(try lost(device, [directory] + files) == files)
    for (number, kind) in [ItemKind.file, .directory].enumerated() {
      _ = device.create(
        ItemID(high: 3, low: UInt64(number + 1)), kind, at: link(successor, "\(number)"),
        content: nil, time: 2)
    }
    // Nothing has the third one's name, and a directory is no file.
    #expect(try lost(device, [directory] + files) == [files[1], files[2]])
  }

  @Test func aContentThatWasNeverSentIsNotLost() throws {
    var (device, _, files) = device(2)
    for (id, author) in zip(files, [device.device, Model.DeviceID(high: 7, low: 2)]) {
      device.remote[id]?.content = ContentVersion(
        id: .random(), parent: nil, device: author, modified: Timestamp(nanoseconds: 1), size: 1,
        manifest: nil)
      device.remove(id)
    }
    #expect(try lost(device, files) == [files[1]])
  }
}
