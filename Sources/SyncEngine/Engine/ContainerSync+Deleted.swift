internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// The end of a container that a device of the account deleted. This device keeps what it has,
/// readable, and asks the store for nothing more. Only a record in the store says that it was
/// deleted: absence alone never ends a container.
extension ContainerSync {
  /// Another device deleted the container.
  package nonisolated var isDeleted: Bool { link.isDeleted }

  /// Ends the sync of the container, durably, and gives what the cycle ends with.
  func ended(by deletion: ContainerDeletion) -> CycleFailure {
    let notice = DeletionNotice(device: deletion.device, time: deletion.time)
    let text = notice.text(of: coordinator.container)
    guard link.end(.containerDeleted(text)) else { return .deleted(text) }
    // Nothing is lost if this fails: the store says it again.
    try? notice.save(in: coordinator.catalog)
    setCondition(.deleted(text))
    uploads.cancelAll()
    dropArrivals()
    coordinator.tellDeleted(by: deletion.device)
    stopWatching()
    return .deleted(text)
  }

  /// The store shows another log than this device has read: asks why.
  func unsound(_ reason: String, _ remote: RemoteContainer) async -> CycleFailure {
    await explain(remote) { rolledBack(reason) }
  }

  /// The store does not show what this device has read there, or does not take what it puts: asks
  /// why. `otherwise`: what it is while the container has its name.
  func explain(_ remote: RemoteContainer, otherwise: () -> CycleFailure) async -> CycleFailure {
    // Packs that no segment names may be gone with the rest: each is asked for before one does.
    uploads.packTimes.forget()
    do throws(RemoteError) {
      switch try await remote.presence() {
      case .deleted(let deletion): return ended(by: deletion)
      case .missing where PlantedMistake.takesAbsenceForDeletion.isPlanted:
        return ended(by: ContainerDeletion(device: device, time: coordinator.catalog.now))
      case .missing(let object):
        setCondition(.missing(object: object))
        return .unsound(storeProblem ?? object)
      case .there: return otherwise()
      }
    } catch {
      return error.isTransient ? .remote(error) : otherwise()
    }
  }

  /// The deletion that an earlier run of the daemon learned of.
  func resumeEnd() -> String? {
    guard let notice = DeletionNotice(coordinator.catalog) else { return nil }
    let text = notice.text(of: coordinator.container)
    _ = link.end(.containerDeleted(text))
    setCondition(.deleted(text))
    return text
  }
}

/// That the container was deleted, as this device keeps it.
struct DeletionNotice {
  let device: Model.DeviceID
  let time: Timestamp

  init(device: Model.DeviceID, time: Timestamp) {
    self.device = device
    self.time = time
  }

  init?(_ catalog: ContainerCatalog) {
    guard let time = (try? catalog.compactionNote("deleted.time")) ?? nil,
      let high = (try? catalog.compactionNote("deleted.high")) ?? nil,
      let low = (try? catalog.compactionNote("deleted.low")) ?? nil
    else { return nil }
    self.time = Timestamp(nanoseconds: time)
    device = Model.DeviceID(
      high: UInt64(bitPattern: high), low: UInt64(bitPattern: low))
  }

  /// The time goes last: without it there is no notice.
  func save(in catalog: ContainerCatalog) throws(Errno) {
    try catalog.setCompactionNote("deleted.high", Int64(bitPattern: device.high))
    try catalog.setCompactionNote("deleted.low", Int64(bitPattern: device.low))
    try catalog.setCompactionNote("deleted.time", time.nanoseconds)
    try catalog.commit(durable: true)
  }

  func text(of container: ContainerID) -> String {
    "\"\(container)\" was deleted on device \(device). Its local files stay readable, and nothing "
      + "is uploaded any more. Unmount it; the next mount sets it aside, see `ubiquityfs container "
      + "set-aside`"
  }
}
