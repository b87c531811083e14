import Backend
import Catalog
import Coordination
import Model
import RemoteStore
import SyncEngine
import SystemPackage

/// A container that a device of the account deletes while the others work on it.
extension World {
  /// In place of coming to rest: whatever was under way, all devices learn of the deletion, keep
  /// what they have, and put nothing more into the cloud.
  func deleteAndSettle() throws {
    let account = accounts[0]
    let devices = devices.filter { $0.account === account }
    scheduler.note("the container is deleted")
    count("container deleted")
    let (opened, deleter) = (account.opened, Model.DeviceID(high: 1, low: 1))
    try scheduler.wait {
      try await opened.deleteContainer(
        DeviceLife.container,
        by: ContainerDeletion(device: deleter, time: Timestamp(nanoseconds: 2)))
    }
    try endFaults()
    guard problems.isEmpty else { return }
    var kept: [Int: Set<InodeNumber>] = [:]
    for device in devices {
      let failure = synchronizing(device)
      guard case .deleted? = failure else {
        return report(
          "\(device.name) does not learn of the deletion: \(failure.map { "\($0)" } ?? "-")")
      }
      kept[device.index] = try localFiles(device)
    }
    // A repeated call comes within a minute.
    scheduler.run(for: 90 * Self.second)
    let before = objects(of: account)
    for device in devices {
      guard let life = device.life else { continue }
      // Nothing could be downloaded again.
      scheduler.perform(life.owner) {
        do { try life.coordinator.evict(.root) } catch {}
      }
      for _ in 0..<5 { device.act(.save) }
    }
    scheduler.run(for: 3600 * Self.second)
    for device in devices {
      let now = try localFiles(device)
      for number in (kept[device.index] ?? []).sorted() where !now.contains(number) {
        if try isThere(number, device) {
          report("\(device.name) lost the content of inode \(number)")
        }
      }
      try checkFiles(of: device)
      for problem in try device.life?.problems() ?? [] { report("\(device.name): \(problem)") }
    }
    // An interrupted snapshot may still take its parts away.
    if objects(of: account) > before { report("something was put after the deletion") }
  }

  /// How many objects there are without those of other accounts.
  private func objects(of account: SimulatedAccount) -> Int {
    let others = accounts.filter { $0 !== account }.map(\.prefix)
    return cloud.objects.keys.count { key in !others.contains { key.hasPrefix($0) } }
  }

  private func localFiles(_ device: SimulatedDevice) throws -> Set<InodeNumber> {
    guard let life = device.life else { return [] }
    var result: Set<InodeNumber> = []
    for item in try life.items() where item.inode.kind == .file && item.inode.content == .local {
      if item.inode.size > 0 { result.insert(item.inode.number) }
    }
    return result
  }

  private func isThere(_ number: InodeNumber, _ device: SimulatedDevice) throws -> Bool {
    guard let life = device.life else { return false }
    for item in try life.items() where item.inode.number == number { return item.inode.size > 0 }
    return false
  }

  /// The failure of a device's sync; nil: it ends without one.
  func synchronizing(_ device: SimulatedDevice) -> SyncFailure? {
    guard let life = device.life else { return .stopped }
    nonisolated(unsafe) var result: Result<Void, SyncFailure>?
    scheduler.perform(life.owner) {
      _ = Task {
        do throws(SyncFailure) {
          try await life.sync.sync(timeout: .seconds(300))
          result = .success(())
        } catch {
          result = .failure(error)
        }
      }
    }
    guard scheduler.run(within: 900 * Self.second, until: { result != nil }) else {
      return .timedOut("it does not come to an end")
    }
    if case .failure(let error)? = result { return error }
    return nil
  }

  /// A cloud that shows nothing of the containers for a while, and no name: no device takes that
  /// for a deletion.
  func hideContainers() {
    scheduler.note("the containers are hidden")
    count("containers hidden")
    let hidden = cloud.hide { key in key.contains("containers/") || key.contains("names/") }
    for device in devices { device.act(.save) }
    scheduler.run(for: 120 * Self.second)
    for device in devices {
      guard let failure = synchronizing(device) else {
        report("\(device.name) is in sync with a container that is not there")
        continue
      }
      if case .deleted = failure { report("\(device.name) takes absence for a deletion") }
    }
    cloud.show(hidden)
    scheduler.note("the containers are there again")
  }
}
