internal import ControlProtocol
internal import Logging
internal import Model
internal import Platform

/// The containers that are set aside on this device, for clients.
extension DaemonService {
  func addSetAsideMethods(_ table: inout MethodTable) {
    table.add(Methods.ListSetAside.self) { _, _ throws(ControlError) in
      SetAsideReport(entries: try self.setAside.list())
    }
    table.add(Methods.RestoreSetAside.self) { request, _ throws(ControlError) in
      try self.restoreSetAside(request)
    }
    table.add(Methods.RemoveSetAside.self) { request, _ throws(ControlError) in
      try self.setAside.remove(request.id)
      self.logger.notice("removed the set-aside container \"\(request.id)\" on request")
      return Nothing()
    }
    table.add(Methods.AddSetAside.self) { request, _ throws(ControlError) in
      try self.addSetAside(request)
    }
  }

  private var setAside: SetAsideContainers { SetAsideContainers(state, logger: logger) }

  private func restoreSetAside(_ request: SetAsideRequest) throws(ControlError) -> RestoredSetAside
  {
    guard let bytes = request.directory?.bytes,
      let directory = String(validating: bytes, as: UTF8.self),
      Files.absolutePath(directory) == directory, !directory.utf8.contains(0)
    else { throw ControlError(.usage, "a directory must be an absolute path in UTF-8") }
    let result = try setAside.restore(
      request.id, to: directory, continues: request.continues ?? false)
    logger.notice("restored \(result.files) files of \"\(request.id)\" to \"\(directory)\"")
    if result.failed > 0 {
      let first = result.failures.first.map { "; the first: \"\($0.path)\": \($0.reason)" } ?? ""
      logger.warning("\(result.failed) items of \"\(request.id)\" were not restored\(first)")
    }
    return result
  }

  private func addSetAside(_ request: ContainerRequest) throws(ControlError) -> SetAsideEntry {
    let id = try containerID(request.id)
    let session = try requireAccount()
    return try turn.withLock { _ throws(ControlError) in
      try checkIsCurrent(session)
      if let mountpoint = session.session(id)?.mountpoint {
        throw ControlError(.busy, "\"\(id)\" is mounted at \"\(mountpoint)\"; unmount it first")
      }
      guard let name = try session.setAside(id, reason: "the user asked for it") else {
        throw ControlError(.notFound, "the container \"\(id)\" is not on this device")
      }
      guard let entry = try setAside.list().first(where: { $0.id == name }) else {
        throw ControlError(.failed, "\"\(name)\" was set aside but cannot be found")
      }
      return entry
    }
  }
}
