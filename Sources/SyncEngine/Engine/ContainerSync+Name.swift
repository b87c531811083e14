internal import Catalog
internal import Logging
internal import Model
internal import RemoteStore
internal import SystemPackage

/// The store may lose the object that names the container alone, while its log is whole. A new
/// device would then make another container of that name, and the two would never share a file.
extension ContainerSync {
  /// Puts the name again where it is missing. True: it did. Throws when another container has the
  /// name; `condition` says so then, until the name is this one's again.
  ///
  /// A deletion has a record, which is put before the name goes and also ends the log. So a name
  /// that is missing beside a whole log without an end is lost.
  func keepName(_ remote: RemoteContainer) async throws(CycleFailure) -> Bool {
    let position = try local { () throws(Errno) in try coordinator.catalog.position() }
    guard position.sequence > 0 else { return false }
    let presence = try await remotely { () throws(RemoteError) in try await remote.presence() }
    switch presence {
    case .there:
      hasForeignName = false
      return false
    case .deleted(let deletion): throw ended(by: deletion)
    case .missing(let object):
      try await confirmHead(remote)
      // Another device may have begun to delete it between the two requests for its presence.
      let deletion = try await remotely { () throws(RemoteError) in try await remote.deletion() }
      if let deletion { throw ended(by: deletion) }
      let origin = origin
      let isOurs = try await remotely { () throws(RemoteError) in
        try await remote.restoreName(from: origin)
      }
      guard isOurs else {
        hasForeignName = true
        setCondition(.foreignName(object: object))
        throw .unsound(storeProblem ?? object)
      }
      hasForeignName = false
      logger.warning("the backend had lost \(object), the name of the container; it is there again")
      return true
    }
  }
}
