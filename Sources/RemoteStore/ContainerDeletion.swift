internal import Backend
package import Model
internal import Platform
internal import RecordFormat

/// That a device of the account deleted a container, as it says so in the store, in two places.
///
/// **Invariant: only this says that a container was deleted.** Objects that a store does not show
/// prove nothing: it may have been set back, may be incomplete, or may answer wrongly. The record
/// `deleted/INCARNATION` is put before anything of the container goes. The same record then ends
/// the log, as the object after its last segment: all devices see it in its order, and nothing can
/// be put after it. Both stay for ever.
package struct ContainerDeletion: Equatable, Sendable {
  package let device: DeviceID
  package let time: Timestamp

  package init(device: DeviceID, time: Timestamp) {
    self.device = device
    self.time = time
  }
}

/// The answer of the store about a container that a device knows.
package enum ContainerPresence: Equatable, Sendable {
  case there
  case deleted(ContainerDeletion)
  /// Its name object is not there, or names another container, and no record says that it was
  /// deleted.
  case missing(object: String)
}

extension RemoteContainer {
  var records: AccountRecords { AccountRecords(store: store, state: keys) }

  /// Nil: no device says so that may, and none ever said so to this device.
  package func deletion() async throws(RemoteError) -> ContainerDeletion? {
    let place = AccountRecords.Place.deletion(incarnation)
    let body: [UInt8]?
    do throws(RemoteError) {
      body = try await records.read(place)
    } catch .unsigned {
      return nil
    }
    guard let body else {
      // It is never removed. A backend that does not show it any more is not believed.
      guard let known = try await records.remembered(place) else { return nil }
      return try decodeDeletion(known, place.object)
    }
    return try decodeDeletion(body, place.object)
  }

  /// Two requests; for a device that does not find in the store what it knows.
  package func presence() async throws(RemoteError) -> ContainerPresence {
    if let deletion = try await deletion() { return .deleted(deletion) }
    let place = AccountRecords.Place.name(keys.objectName(of: id))
    let info = try await records.containerInfo(place)
    return info?.incarnation == incarnation ? .there : .missing(object: place.object)
  }

  /// The deletion that ends a log; nil for any other object, and for one that does not count after
  /// a position.
  func endOfLog(_ stored: [UInt8], name: String, after position: LogPosition)
    async throws(RemoteError) -> ContainerDeletion?
  {
    guard ObjectHeader.deletion.isMagic(of: stored) else { return nil }
    let opened = try await openDeletion(stored, name)
    guard keys.isInForce(opened, after: position.members) else { return nil }
    return try decodeDeletion(opened.body, name)
  }

  private func openDeletion(_ stored: [UInt8], _ object: String) async throws(RemoteError)
    -> SignedObject
  {
    let place = AccountRecords.Place.deletion(incarnation)
    return try await records.open(
      stored,
      AccountRecords.Place(
        object: object, header: place.header, associated: place.associated))
  }

  private func decodeDeletion(_ plain: [UInt8], _ object: String) throws(RemoteError)
    -> ContainerDeletion
  {
    do throws(RecordError) {
      let info = try ContainerInfo(decoding: plain)
      guard info.incarnation == incarnation, info.id == id else {
        throw RecordError("it belongs to another container")
      }
      return ContainerDeletion(device: info.creator, time: info.created)
    } catch {
      throw .damaged(object: object, reason: error.description)
    }
  }

  private func body(of deletion: ContainerDeletion) -> [UInt8] {
    ContainerInfo(
      id: id, created: deletion.time, creator: deletion.device, incarnation: incarnation
    ).encoded()
  }

  /// Says in the store that the container is deleted. Done again by any device, the first one's
  /// word stays. A record that does not count, such as a removed device's, is replaced.
  func noteDeletion(_ deletion: ContainerDeletion) async throws(RemoteError) {
    let place = AccountRecords.Place.deletion(incarnation)
    try await records.put(body(of: deletion), place)
    if try await self.deletion() != nil { return }
    if try await RemoteAccount.small(place.object, in: store) != nil {
      try await records.replace(body(of: deletion), place)
    }
    guard try await self.deletion() != nil else {
      throw .store(
        .unavailable(
          "the backend does not return \"\(place.object)\", which was just stored there"))
    }
  }

  private static var mostAttempts: Int { 50 }

  /// Ends the log. Gives the name of the object that does.
  func endLog(_ deletion: ContainerDeletion) async throws(RemoteError) -> String {
    let place = AccountRecords.Place.deletion(incarnation)
    try await memberLog.join()
    let bytes = try keys.sealSigned(
      body(of: deletion), place.header, place.associated, counter: 1
    ).bytes
    for _ in 0..<Self.mostAttempts {
      var last: UInt64 = 0
      while let next = try await segmentNumbers(after: last, limit: 1000).last { last = next }
      if last > 0 {
        let name = ObjectName.segment(incarnation, last)
        if let stored = try await segmentBytes(name), ObjectHeader.deletion.isMagic(of: stored),
          keys.isValid(try await openDeletion(stored, name).signature)
        {
          return name
        }
      }
      let (sequence, overflow) = last.addingReportingOverflow(1)
      guard !overflow else { throw .tooLarge("the log") }
      let name = ObjectName.segment(incarnation, sequence)
      if try await putOnce(name, bytes, readBack: RemoteLimits.smallObject) { return name }
      // Another device put a segment there first.
      try? await Task.sleep(for: .milliseconds(Int.random(in: 1...50)))
    }
    throw .store(.unavailable("other devices keep changing the container; try again"))
  }
}

extension RemoteAccount {
  /// Deletes a container and all that it holds but the records of that. The first of them is put
  /// before anything goes, and the name goes next: what of the rest a failure leaves behind belongs
  /// to no container, and goes when this is done again. Deleting what is not there is no error.
  ///
  /// `known`: as which this device knows it. It is deleted too, whatever the store shows of it.
  package func deleteContainer(
    _ id: ContainerID, known: IncarnationID? = nil, by deletion: ContainerDeletion
  ) async throws(RemoteError) {
    let place = AccountRecords.Place.name(keys.objectName(of: id))
    let object = place.object
    let named = try await records.containerInfo(place)?.incarnation
    let store = store
    for incarnation in Set([named, known].compactMap(\.self)).sorted() {
      let container = container(id, incarnation: incarnation)
      try await container.noteDeletion(deletion)
      FaultPoint.reach("delete.noted")
      if incarnation == named {
        try await storing { () async throws(StoreError) in try await store.delete(object) }
        FaultPoint.reach("delete.unnamed")
      }
      let end = try await container.endLog(deletion)
      FaultPoint.reach("delete.ended")
      let prefix = ObjectName.container(incarnation)
      for key in try await store.allKeys(prefix, limit: 2 * RemoteLimits.objects) where key != end {
        try await storing { () async throws(StoreError) in try await store.delete(key) }
        FaultPoint.reach("delete.object-removed")
      }
    }
  }

  /// Which of these containers the store says were deleted.
  func deletedIncarnations(
    among containers: [(id: ContainerID, incarnation: IncarnationID)]
  ) async throws(RemoteError) -> Set<IncarnationID> {
    // One list for all. A record that it does not show may be known here.
    let listed = Set(try await store.ownKeys(ObjectName.deletions).map(\.name))
    var result: Set<IncarnationID> = []
    for (id, incarnation) in containers {
      let object = ObjectName.deletion(incarnation)
      guard listed.contains(object) || keys.seen[object] != nil else { continue }
      do throws(RemoteError) {
        if try await container(id, incarnation: incarnation).deletion() != nil {
          result.insert(incarnation)
        }
      } catch .damaged {
        // What does not open says nothing.
      }
    }
    return result
  }
}

extension AccountRecords {
  /// The content of a name object; nil where there is none.
  func containerInfo(_ place: Place) async throws(RemoteError) -> ContainerInfo? {
    guard let plain = try await read(place) else { return nil }
    let info: ContainerInfo
    do throws(RecordError) {
      info = try ContainerInfo(decoding: plain)
    } catch {
      throw .damaged(object: place.object, reason: error.description)
    }
    guard place.object == ObjectName.name(state.objectName(of: info.id)) else {
      throw .damaged(object: place.object, reason: "it describes another container")
    }
    return info
  }
}
