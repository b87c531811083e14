internal import Backend
internal import ControlProtocol
internal import Glibc
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Signing in: finds or makes the account, then stores it. Until the last step nothing is stored.
struct SignIn {
  let state: StateDirectory
  let store: AccountStore
  let offline: OfflineSwitch
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

  /// Blocks; for the thread of a connection.
  func run(_ request: SignInRequest, _ connection: ClientConnection) throws(ControlError) -> Done {
    let address = try address(request)
    guard !offline.isOffline else {
      throw ControlError(
        .offline, "offline mode is on; turn it off with `ubiquityfs offline off` to sign in")
    }
    if let name = request.deviceName, name.isEmpty || name.utf8.count > 255 {
      throw ControlError(.usage, "a device's name has 1 to 255 bytes")
    }
    let secretGiven: AccountSecret?
    do throws(RemoteError) {
      secretGiven = try request.secret.map { text throws(RemoteError) in try AccountSecret(text) }
    } catch {
      throw ControlError(.usage, "\(error)")
    }
    let given = address.path == nil ? request.environment ?? [:] : [:]
    let stack = stack(address, given)
    let (account, secret, isNew) = try open(address, stack, secretGiven, connection)
    let device = try name(request, account, connection)
    let stored = StoredAccount(
      backend: address.description, secret: secret.text, format: Hex.encode(account.format),
      environment: given.isEmpty ? nil : given)
    try store.save(device)
    try store.save(stored)
    return Done(stored: stored, device: device, account: account, stack: stack, isNew: isNew)
  }

  private func open(
    _ address: BackendAddress, _ stack: BackendStack, _ given: AccountSecret?,
    _ connection: ClientConnection
  ) throws(ControlError) -> (RemoteAccount, AccountSecret, Bool) {
    let made: Result<Void, StoreError> = try connection.wait {
      do throws(StoreError) { return .success(try await stack.late.make()) } catch {
        return .failure(error)
      }
    }
    if case .failure(let error) = made {
      throw ControlError(Self.status(error), "the backend \(address) cannot be used: \(error)")
    }
    let isThere = try connection.wait { try await RemoteAccount.exists(store: stack.store) }
    let keyFile = address.keyFile.map { KeyFile(path: $0) }
    var secret = given
    if secret == nil { secret = try keyFile?.secret() }
    if secret == nil {
      guard !isThere else {
        throw ControlError(
          .notPermitted,
          "the backend \(address) holds an account already: pass --secret-file with what "
            + "`ubiquityfs account secret` prints on a device that is signed in")
      }
      let new = AccountSecret.generate()
      secret = try keyFile?.keep(new) ?? new
    }
    guard let secret else { throw ControlError(.failed, "there is no secret") }
    let account = try connection.wait {
      try await RemoteAccount.open(store: stack.store, secret: secret, createIfMissing: true)
    }
    return (account, secret, !isThere)
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
    _ request: SignInRequest, _ account: RemoteAccount, _ connection: ClientConnection
  ) throws(ControlError) -> StoredDevice {
    let former = try store.device()
    let id = former?.id ?? .random()
    let others = try connection.wait { try await account.devices() }.filter { $0.id != id }
    var name = request.deviceName ?? former?.name ?? Self.hostName
    if request.deviceName == nil {
      let base = name
      var number = 2
      while others.contains(where: { $0.name == name }) {
        name = "\(base) \(number)"
        number += 1
      }
    }
    let record = DeviceRecord(
      id: id, name: name, lastSeen: Timestamp(nanoseconds: SystemClock().nanoseconds()))
    try connection.wait { try await account.register(record) }
    return StoredDevice(identifier: id.description, name: name)
  }

  private static var hostName: String {
    var buffer = [CChar](repeating: 0, count: 256)
    guard gethostname(&buffer, 255) == 0 else { return "device" }
    let name = String(
      decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return name.isEmpty ? "device" : name
  }
}
