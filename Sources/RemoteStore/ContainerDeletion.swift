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
  /// Nil: no device says so.
  package func deletion() async throws(RemoteError) -> ContainerDeletion? {
    let object = ObjectName.deletion(incarnation)
    guard let stored = try await RemoteAccount.small(object, in: store) else { return nil }
    return try openDeletion(stored, object)
  }

  /// Two requests; for a device that does not find in the store what it knows.
  package func presence() async throws(RemoteError) -> ContainerPresence {
    if let deletion = try await deletion() { return .deleted(deletion) }
    let object = ObjectName.name(keys.objectName(of: id))
    let info = try await keys.containerInfo(object, in: store)
    return info?.incarnation == incarnation ? .there : .missing(object: object)
  }

  /// The deletion that ends a log; nil for any other object.
  func endOfLog(_ stored: [UInt8], name: String) throws(RemoteError) -> ContainerDeletion? {
    guard stored.starts(with: ObjectHeader.deletion.bytes.prefix(4)) else { return nil }
    return try openDeletion(stored, name)
  }

  private var deletionData: AssociatedData {
    RemoteAccount.associated("deletion", incarnation.bytes)
  }

  private func openDeletion(_ stored: [UInt8], _ object: String) throws(RemoteError)
    -> ContainerDeletion
  {
    let plain = try keys.open(stored, .deletion, deletionData, object)
    do throws(RecordError) {
      let info = try ContainerInfo(decoding: plain)
      guard info.incarnation == incarnation, info.id == id else {
        throw RecordError("it is of another container")
      }
      return ContainerDeletion(device: info.creator, time: info.created)
    } catch {
      throw .damaged(object: object, reason: error.description)
    }
  }

  private func sealed(_ deletion: ContainerDeletion) -> [UInt8] {
    let record = ContainerInfo(
      id: id, created: deletion.time, creator: deletion.device, incarnation: incarnation)
    return ObjectHeader.deletion.bytes + keys.record.seal(record.encoded(), deletionData)
  }

  /// Says in the store that the container is deleted. Done again by any device, the first one's
  /// word stays.
  func noteDeletion(_ deletion: ContainerDeletion) async throws(RemoteError) {
    let object = ObjectName.deletion(incarnation)
    let (store, bytes) = (store, sealed(deletion))
    _ = try await storing { () async throws(StoreError) in
      try await store.putIfAbsent(object, bytes)
    }
    guard try await self.deletion() != nil else {
      throw .store(.unavailable("the backend does not show \(object), which was just put there"))
    }
  }

  private static var mostAttempts: Int { 50 }

  /// Ends the log. Gives the name of the object that does.
  func endLog(_ deletion: ContainerDeletion) async throws(RemoteError) -> String {
    let bytes = sealed(deletion)
    for _ in 0..<Self.mostAttempts {
      var last: UInt64 = 0
      while let next = try await segmentNumbers(after: last, limit: 1000).last { last = next }
      if last > 0 {
        let name = ObjectName.segment(incarnation, last)
        if let stored = try await segmentBytes(name), try endOfLog(stored, name: name) != nil {
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
    throw .store(.unavailable("other devices change the container all the time; try again"))
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
    let object = ObjectName.name(keys.objectName(of: id))
    let named = try await keys.containerInfo(object, in: store)?.incarnation
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

  /// Of which containers the store says that they were deleted.
  func deletedIncarnations() async throws(RemoteError) -> Set<IncarnationID> {
    Set(
      try await store.ownKeys(ObjectName.deletions).compactMap { found in
        if case .deletion(let incarnation) = found.key { incarnation } else { nil }
      })
  }
}

extension AccountKeys {
  /// The content of a name object; nil where there is none.
  func containerInfo(_ object: String, in store: any ObjectStore) async throws(RemoteError)
    -> ContainerInfo?
  {
    guard let stored = try await RemoteAccount.small(object, in: store) else { return nil }
    guard case .name(let code)? = ObjectKey(object) else {
      throw .damaged(object: object, reason: "its name is none of a container")
    }
    let plain = try open(stored, .name, RemoteAccount.associated("name", code), object)
    let info: ContainerInfo
    do throws(RecordError) {
      info = try ContainerInfo(decoding: plain)
    } catch {
      throw .damaged(object: object, reason: error.description)
    }
    guard objectName(of: info.id) == code else {
      throw .damaged(object: object, reason: "it describes another container")
    }
    return info
  }

  func open(
    _ stored: [UInt8], _ header: ObjectHeader, _ associated: AssociatedData, _ object: String
  ) throws(RemoteError) -> [UInt8] {
    let body = try header.body(of: stored, object: object)
    do throws(SealError) {
      return try record.open(body, associated, limit: RemoteLimits.smallObject)
    } catch {
      throw .damaged(object: object, reason: error.reason)
    }
  }
}
