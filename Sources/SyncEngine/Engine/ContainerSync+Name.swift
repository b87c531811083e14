internal import Catalog
internal import Logging
internal import Model
internal import RemoteStore
internal import SystemPackage

/// The store may lose the object that names the container alone, while its log is whole. A new
/// device would then make another container of that name, and the two would never share a file.
extension ContainerSync {
  /// Puts the name again where it is missing. True: it did. Throws `.unsound` when another
  /// container has the name, or the log is not whole either; `condition` says so then. A name that
  /// is damaged is left alone.
  ///
  /// A deletion has a record, which is put before the name goes and also ends the log. So a name
  /// that is missing beside a whole log without an end is lost.
  func keepName(_ remote: RemoteContainer) async throws(CycleFailure) -> Bool {
    let position = try local { () throws(Errno) in try coordinator.catalog.position() }
    guard position.sequence > 0 else { return false }
    switch try await presence(of: remote) {
    case .there:
      setForeignName(false)
      return false
    case .deleted(let deletion): throw ended(by: deletion)
    case .missing(let object):
      do throws(CycleFailure) { try await confirmHead(remote) } catch {
        // A log that goes on without this device, or that it cannot read, is no lost container.
        guard case .unsound = error else { throw error }
        setCondition(.missing(object: object))
        signals.look()
        throw .unsound(storeProblem ?? object)
      }
      // Another device may have begun to delete it between the two requests for its presence.
      let deletion = try await remotely { () throws(RemoteError) in try await remote.deletion() }
      if let deletion { throw ended(by: deletion) }
      let origin = origin
      let isOurs = try await remotely { () throws(RemoteError) in
        try await remote.restoreName(from: origin)
      }
      setForeignName(!isOurs)
      guard isOurs else { throw .unsound(storeProblem ?? object) }
      logger.warning(
        "the backend had lost \"\(object)\", the name of the container; the name was restored")
      return true
    }
  }

  /// The same for a caller to whom the name matters less than what follows: a name that is damaged
  /// does not stop it.
  func keepNameIfReadable(_ remote: RemoteContainer) async throws(CycleFailure) {
    do throws(CycleFailure) { _ = try await keepName(remote) } catch {
      guard let damage = error.damage else { throw error }
      logger.warning("\(damage)")
    }
  }

  private func presence(of remote: RemoteContainer) async throws(CycleFailure) -> ContainerPresence
  {
    do throws(CycleFailure) {
      return try await remotely { () throws(RemoteError) in try await remote.presence() }
    } catch {
      // Nobody can tell any more whose name it is; it was another one's before.
      guard hasForeignName, error.damage != nil else { throw error }
      setCondition(.foreignName)
      throw .unsound(storeProblem ?? "")
    }
  }

  /// Durable where the disk has room: a daemon that starts anew must not take the name for its own.
  private func setForeignName(_ isForeign: Bool) {
    if isForeign { setCondition(.foreignName) }
    guard isForeign != hasForeignName else { return }
    hasForeignName = isForeign
    // Cycles look for the name from now on, at the pace of a store that is not sound.
    if isForeign { signals.look() }
    do throws(Errno) {
      try coordinator.catalog.setCompactionNote(Self.foreignNameNote, isForeign ? 1 : 0)
      try coordinator.catalog.commit(durable: true)
    } catch {
      logger.warning("cannot record which container has the name in the backend: \(error)")
    }
  }

  /// Takes the note of an earlier run of the daemon.
  func resumeForeignName() {
    guard let note = try? coordinator.catalog.compactionNote(Self.foreignNameNote), note == 1
    else { return }
    hasForeignName = true
    setCondition(.foreignName)
  }

  private static let foreignNameNote = "name.foreign"
}
