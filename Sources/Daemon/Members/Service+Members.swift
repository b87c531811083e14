internal import ControlProtocol
internal import Model
internal import RemoteStore

/// Devices that leave, and new keys.
extension DaemonService {
  func addMemberMethods(_ table: inout MethodTable) {
    table.add(Methods.RemoveDevices.self) { request, connection throws(ControlError) in
      try self.removeDevices(request, connection)
    }
    table.add(Methods.RotateKeys.self) { request, connection throws(ControlError) in
      try self.rotate(request, connection)
    }
    table.add(Methods.MoveBackend.self) { request, connection throws(ControlError) in
      try self.moveBackend(request, connection)
    }
    table.add(Methods.BeginPairing.self) { _, connection throws(ControlError) in
      try self.beginPairing(connection)
    }
    table.add(Methods.WaitForPairing.self) { _, connection throws(ControlError) in
      try self.waitForPairing(connection)
    }
    table.add(Methods.AnswerPairing.self) { request, connection throws(ControlError) in
      try self.answerPairing(request, connection)
    }
    table.add(Methods.RequestPairing.self) { request, connection throws(ControlError) in
      try self.requestPairing(request, connection)
    }
    table.add(Methods.FinishPairing.self) { _, connection throws(ControlError) in
      try self.finishPairing(connection)
    }
  }

  private func removeDevices(_ request: RemoveDevicesRequest, _ connection: ClientConnection)
    throws(ControlError) -> RotationAnswer
  {
    let session = try requireAccount()
    let members = try connection.wait { () async throws in
      try await session.keepUpWithMembers()
      return try await session.devices()
    }
    var removed: [DeviceRecord] = []
    for text in request.devices {
      let named = members.filter { $0.name == text || $0.id.description == text.lowercased() }
      guard let device = named.first else {
        throw ControlError(
          .notFound,
          "the account has no device \"\(text)\"; list the devices with `ubiquityfs account "
            + "devices`")
      }
      guard named.count == 1 else {
        throw ControlError(
          .usage,
          "\(named.count) devices have the name \"\(text)\"; use the identity of the device, the "
            + "last column of `ubiquityfs account devices`")
      }
      guard device.id != session.deviceID else {
        throw ControlError(
          .usage,
          "\"\(text)\" is this device; sign it out with `ubiquityfs account sign-out`, or remove "
            + "it on another device")
      }
      if !removed.contains(where: { $0.id == device.id }) { removed.append(device) }
    }
    guard !removed.isEmpty else { throw ControlError(.usage, "name a device to remove") }
    let ids = Set(removed.map(\.id))
    var answer = try rotate(session, removing: ids, request.secret, connection)
    answer.removed = removed.map { RemovedDevice(id: $0.id.description, name: $0.name) }
    for device in removed { logger.notice("removed device \"\(device.name)\" (\(device.id))") }
    return answer
  }

  private func rotate(_ request: RotateRequest, _ connection: ClientConnection)
    throws(ControlError) -> RotationAnswer
  {
    try rotate(try requireAccount(), removing: [], request.secret, connection)
  }

  private func rotate(
    _ session: AccountSession, removing devices: Set<Model.DeviceID>, _ text: String?,
    _ connection: ClientConnection
  ) throws(ControlError) -> RotationAnswer {
    guard !offline.isOffline else {
      throw ControlError(.offline, "offline mode is on; turn it off with `ubiquityfs offline off`")
    }
    let secret: AccountSecret
    do throws(RemoteError) {
      secret = try text.map { text throws(RemoteError) in try AccountSecret(text) } ?? .generate()
    } catch {
      throw ControlError(.usage, "\(error)")
    }
    guard secret != session.account.secret else {
      throw ControlError(
        .usage,
        "the new secret equals the current one, which removed devices know; choose another")
    }
    // The end of the command does not end it half done: another member would have to.
    let isOurs = try connection.wait { () async throws in
      let work = Task { try await session.account.rotate(removing: devices, secret: secret) }
      return try await work.value
    }
    session.keepSecretFile()
    for container in session.sessions { container.sync.trigger() }
    logger.notice("the account has new keys")
    return RotationAnswer(secret: session.account.secret.text, wasDone: !isOurs, removed: [])
  }
}
