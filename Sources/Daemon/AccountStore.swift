package import Backend
package import ControlProtocol
internal import FoundationEssentials
internal import Glibc
package import Model
internal import Platform
package import RemoteStore
internal import SystemPackage

/// The account that is signed in, as the state directory keeps it.
package struct StoredAccount: Codable, Equatable, Sendable {
  package var backend: String
  /// Only in the file of an earlier release; else it is in a file of its own.
  fileprivate var secret: String?
  /// The account's `format` object in hexadecimal: with it the account opens without its backend.
  package var format: String
  /// Of a bucket: the access keys, and what else the environment said of it at the sign-in.
  package var environment: [String: String]?
  /// The containers may have been open with another backend last. This backend may lack packs that
  /// they uploaded and did not announce.
  package var sentElsewhere: Bool?

  package init(
    backend: String, format: String, environment: [String: String]? = nil,
    sentElsewhere: Bool? = nil
  ) {
    self.backend = backend
    self.format = format
    self.environment = environment
    self.sentElsewhere = sentElsewhere
  }

  /// By which earlier releases named the account's containers while it was signed out. It is no
  /// proof: a store can choose bytes of `format` that make another account's identifier.
  package var formerIdentifier: String {
    // FNV-1a.
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in format.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    let digits = String(hash, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}

extension StoredAccount {
  /// Updates the stored variables by those of a further sign-in. Returns whether anything changed.
  package mutating func take(
    _ given: [String: String], _ variables: BackendVariables
  ) -> Bool {
    let result = variables.updated(environment ?? [:], by: given)
    guard result != environment ?? [:] else { return false }
    environment = result.isEmpty ? nil : result
    return true
  }
}

/// This state directory's identity, which outlives the account.
package struct StoredDevice: Codable, Equatable, Sendable {
  package var identifier: String
  package var name: String
  /// Its private keys in hexadecimal; nil in the state directory of a release that had none.
  package var keys: String?

  package init(identifier: String, name: String, keys: String? = nil) {
    self.identifier = identifier
    self.name = name
    self.keys = keys
  }

  /// A device that never was before.
  package static func new(name: String) -> StoredDevice {
    var device = StoredDevice(identifier: Model.DeviceID.random().description, name: name)
    device.makeKeys()
    return device
  }

  /// False: it has keys.
  @discardableResult
  package mutating func makeKeys() -> Bool {
    guard keys == nil, let id else { return false }
    keys = Hex.encode(DeviceIdentity(device: id, name: name).privateKeys)
    return true
  }

  /// Nil for a damaged one, and for one without keys.
  package var identity: DeviceIdentity? {
    guard let id, let keys, let bytes = Hex.decode(Array(keys.utf8)) else { return nil }
    return DeviceIdentity(device: id, name: name, privateKeys: bytes)
  }

  /// Nil for a damaged identity.
  package var id: Model.DeviceID? { Model.DeviceID(hex: identifier) }
}

/// `account.json` and `device.json`: replaced whole, durable, `0600`.
package struct AccountStore: Sendable {
  private let state: StateDirectory

  package init(_ state: StateDirectory) { self.state = state }

  /// Nil when nobody is signed in. Throws for a file that others can read or that is damaged.
  package func account() throws(ControlError) -> StoredAccount? {
    guard var account = try read(StoredAccount.self, state.account) else { return nil }
    if let text = account.secret {
      account.secret = nil
      let secret: AccountSecret
      do throws(RemoteError) { secret = try AccountSecret(text) } catch {
        throw ControlError(.failed, "\"\(state.account)\" has no valid account secret: \(error)")
      }
      try save(account, secret: secret)
    }
    return account
  }

  /// The account's passphrase or generated secret. Fails as `account` does, and if the file is
  /// missing.
  package func secret() throws(ControlError) -> AccountSecret {
    do {
      return try AccountSecret(SecretBytes(firstLineOf: try opened(state.secret)))
    } catch let error as ControlError {
      throw error
    } catch Errno.noSuchFileOrDirectory {
      throw ControlError(
        .failed, "\"\(state.secret)\" is missing; sign out and sign in again (no data is lost)")
    } catch let error as Errno {
      throw ControlError(.failed, "cannot read \"\(state.secret)\": \(error)")
    } catch {
      throw ControlError(.failed, "cannot use \"\(state.secret)\": \(error)")
    }
  }

  package func save(_ account: StoredAccount) throws(ControlError) {
    try write(account, state.account)
  }

  /// The secret is durable before there is an account that needs it.
  package func save(_ account: StoredAccount, secret: AccountSecret) throws(ControlError) {
    do throws(Errno) {
      try secret.bytes.withLine { line throws(Errno) in try Files.replace(state.secret, with: line)
      }
    } catch {
      throw ControlError(.failed, "cannot write \"\(state.secret)\": \(error)")
    }
    try save(account)
  }

  package func forgetAccount() throws(ControlError) {
    do throws(Errno) {
      for path in [state.secret, state.account] {
        do { try Files.remove(path) } catch .noSuchFileOrDirectory {}
        try Files.synchronizeDirectory(state.path)
      }
    } catch {
      throw ControlError(.failed, "cannot remove \"\(state.account)\": \(error)")
    }
  }

  /// Nil before the first sign-in.
  package func device() throws(ControlError) -> StoredDevice? {
    try read(StoredDevice.self, state.device)
  }

  package func save(_ device: StoredDevice) throws(ControlError) {
    try write(device, state.device)
  }

  private func read<Value: Decodable>(_: Value.Type, _ path: String) throws(ControlError) -> Value?
  {
    do {
      let file = try opened(path)
      let bytes = try file.read(count: min(Int(try file.length()), 1 << 20), at: 0)
      return try BoundedJSON.decode(Value.self, from: bytes)
    } catch Errno.noSuchFileOrDirectory {
      return nil
    } catch let error as ControlError {
      throw error
    } catch let error as Errno {
      throw ControlError(.failed, "cannot read \"\(path)\": \(error)")
    } catch {
      throw ControlError(
        .failed, "\"\(path)\" is damaged; move it away and sign in again (no data is lost)")
    }
  }

  /// One that nobody else can read or change.
  private func opened(_ path: String) throws -> OpenFile {
    let file = try OpenFile.open(path, flags: O_RDONLY | O_NOFOLLOW)
    let status = try file.status()
    guard status.st_mode & 0o077 == 0, status.st_uid == geteuid() else {
      throw ControlError(
        .notPermitted,
        "other users can read or change \"\(path)\"; check its contents, then set its mode to 600")
    }
    return file
  }

  private func write(_ value: some Encodable, _ path: String) throws(ControlError) {
    do {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
      try Files.replace(path, with: Array(try encoder.encode(value)) + [0x0A])
    } catch {
      throw ControlError(.failed, "cannot write \"\(path)\": \(error)")
    }
  }
}
