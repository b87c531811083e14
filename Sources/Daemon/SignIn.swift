internal import Backend
internal import ControlProtocol
internal import Glibc
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Signing in: finds or makes the account, then stores it. Until the last step nothing is stored.
struct SignIn {
  let state: StateDirectory
  let store: AccountStore
  let offline: OfflineSwitch
  let logger: Logger
  let stack: @Sendable (BackendAddress, [String: String]) -> BackendStack

  struct Done: Sendable {
    let stored: StoredAccount
    let device: StoredDevice
    let account: RemoteAccount
    let stack: BackendStack
    let isNew: Bool
  }

  func address(_ request: SignInRequest) throws(ControlError) -> BackendAddress {
    if let url = request.backend {
      return try BackendAddress(
        url, environment: ProcessEnvironment.all.merging(request.environment ?? [:]) { $1 })
    }
    return BackendAddress(besideState: state.path)
  }

  /// This state directory's device with its keys, or a new one. Nothing is stored.
  func candidate(_ request: SignInRequest) throws(ControlError) -> StoredDevice {
    if let name = request.deviceName, name.isEmpty || name.utf8.count > 255 {
      throw ControlError(.usage, "a device name must have 1 to 255 bytes")
    }
    guard var device = try store.device() else {
      return .new(name: request.deviceName ?? Self.hostName)
    }
    if let name = request.deviceName { device.name = name }
    device.makeKeys()
    return device
  }

  private func device(_ given: StoredDevice?, _ request: SignInRequest) throws(ControlError)
    -> StoredDevice
  {
    if let given { return given }
    return try candidate(request)
  }

  /// Blocks; for the thread of a connection. `device`: the one that another device handed the
  /// account to, by `grant`.
  func run(
    _ request: SignInRequest, _ connection: ClientConnection, device: StoredDevice? = nil,
    grant: PairingGrant? = nil
  ) throws(ControlError) -> Done {
    let address = try address(request)
    guard !offline.isOffline else {
      throw ControlError(
        .offline, "offline mode is on; turn it off with `ubiquityfs offline off` to sign in")
    }
    var device = try self.device(device, request)
    let secretGiven: AccountSecret?
    do throws(RemoteError) {
      secretGiven = try request.secret.map { text throws(RemoteError) in try AccountSecret(text) }
    } catch {
      throw ControlError(.usage, "\(error)")
    }
    let given = address.variables.selected(from: request.environment ?? [:])
    let stack = stack(address, given)
    let (account, secret, isNew) = try open(address, stack, secretGiven, &device, connection)
    if let grant {
      do throws(RemoteError) { try account.check(grant) } catch {
        throw ControlError(mapping: error)
      }
    }
    device.name = try name(request, account, device, connection)
    // Its keys are durable before others know it by them.
    try store.save(device)
    let name = device.name
    try connection.wait { try await account.join(as: name) }
    try register(device, account, connection)
    let stored = StoredAccount(
      backend: address.description, format: Hex.encode(account.format),
      environment: given.isEmpty ? nil : given, sentElsewhere: true)
    try store.save(stored, secret: secret)
    return Done(stored: stored, device: device, account: account, stack: stack, isNew: isNew)
  }

  private func open(
    _ address: BackendAddress, _ stack: BackendStack, _ given: AccountSecret?,
    _ device: inout StoredDevice, _ connection: ClientConnection
  ) throws(ControlError) -> (RemoteAccount, AccountSecret, Bool) {
    let made: Result<Void, StoreError> = try connection.wait {
      do throws(StoreError) { return .success(try await stack.late.make()) } catch {
        return .failure(error)
      }
    }
    if case .failure(let error) = made {
      throw ControlError(Self.status(error), "cannot use the backend \"\(address)\": \(error)")
    }
    let isThere = try connection.wait { try await RemoteAccount.exists(store: stack.store) }
    let keyFile = address.keyFile.map { KeyFile(path: $0) }
    var secret = given
    if secret == nil { secret = try keyFile?.secret() }
    if secret == nil {
      guard !isThere else {
        throw ControlError(
          .notPermitted,
          "the backend \"\(address)\" already holds an account; pass --secret-file with the output "
            + "of `ubiquityfs account secret` on a device that is signed in")
      }
      let new = AccountSecret.generate()
      secret = try keyFile?.keep(new) ?? new
    }
    guard let secret else { throw ControlError(.failed, "the account has no secret") }
    if let account = try open(stack, secret, device, connection) {
      return (account, secret, !isThere)
    }
    // It was removed from this account, and can only come back as another device.
    device = .new(name: device.name)
    guard let account = try open(stack, secret, device, connection) else {
      throw ControlError(.failed, "a new device was removed from the account")
    }
    return (account, secret, !isThere)
  }

  /// Nil: the device was removed from the account.
  private func open(
    _ stack: BackendStack, _ secret: AccountSecret, _ device: StoredDevice,
    _ connection: ClientConnection
  ) throws(ControlError) -> RemoteAccount? {
    guard let identity = device.identity else {
      throw ControlError(.failed, "\"\(state.device)\" is damaged; move it away and sign in again")
    }
    let memory = StateMemory(state: state, logger: logger)
    return try connection.wait { () async throws -> RemoteAccount? in
      do {
        return try await RemoteAccount.open(
          store: stack.store, secret: secret, createIfMissing: true, device: identity,
          memory: memory, joins: false)
      } catch RemoteError.removed {
        return nil
      }
    }
  }

  private static func status(_ error: StoreError) -> ExitStatus {
    switch error {
    case .notPermitted: .notPermitted
    default: .failed
    }
  }

  // MARK: The device

  /// The device's identity, and its name: the one asked for, else the one that it had, else the
  /// host's, with a number where another device of the account has that.
  private func name(
    _ request: SignInRequest, _ account: RemoteAccount, _ device: StoredDevice,
    _ connection: ClientConnection
  ) throws(ControlError) -> String {
    let others = try connection.wait { try await account.devices() }.filter { $0.id != device.id }
    var name = device.name
    if request.deviceName == nil {
      let base = name
      var number = 2
      while others.contains(where: { $0.name == name }) {
        name = "\(base) \(number)"
        number += 1
      }
    }
    return name
  }

  private func register(
    _ device: StoredDevice, _ account: RemoteAccount, _ connection: ClientConnection
  ) throws(ControlError) {
    guard let id = device.id else { return }
    let record = DeviceRecord(
      id: id, name: device.name, lastSeen: Timestamp(nanoseconds: SystemClock().nanoseconds()))
    try connection.wait { try await account.register(record) }
  }

  private static var hostName: String {
    var buffer = [CChar](repeating: 0, count: 256)
    guard gethostname(&buffer, 255) == 0 else { return "device" }
    let name = String(
      decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return name.isEmpty ? "device" : name
  }
}
