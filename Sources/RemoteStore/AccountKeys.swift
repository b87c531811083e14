@preconcurrency internal import Crypto
internal import Model
internal import _CryptoExtras

/// The keys of one epoch, each for one purpose, all derived from the epoch's master key.
struct EpochKeys: Sendable {
  let master: SymmetricKey
  let log: SealingKey
  let chunk: SealingKey
  /// Names of containers, devices, and indices of packs.
  let record: SealingKey

  init(master: SymmetricKey, account: [UInt8]) {
    self.master = master
    log = SealingKey(master.derived("log", account: account))
    chunk = SealingKey(master.derived("chunk", account: account))
    record = SealingKey(master.derived("record", account: account))
  }
}

/// What an account calls its contents and containers by. These keys are the first epoch's for ever:
/// with others every content would have to be uploaded again.
struct NameKeys: Sendable {
  private let chunkName: SymmetricKey
  private let containerName: SymmetricKey
  /// What tells this account from others, to programs: of no use for anything else.
  let identity: [UInt8]
  let chunker: Chunker

  init(master: SymmetricKey, account: [UInt8]) {
    func derive(_ purpose: String, count: Int = 32) -> SymmetricKey {
      master.derived(purpose, account: account, count: count)
    }
    chunkName = derive("chunk-name")
    containerName = derive("container-name")
    identity = derive("identity", count: 16).withUnsafeBytes { Array($0) }
    chunker = derive("gear", count: Chunker.gearBytes).withUnsafeBytes { Chunker(seed: $0) }
  }

  func chunkID(_ bytes: UnsafeRawBufferPointer) -> ChunkID {
    var code = HMAC<SHA256>(key: chunkName)
    code.update(data: bytes)
    guard let id = ChunkID(Array(code.finalize())) else {
      preconditionFailure("SHA-256 has 32 bytes")
    }
    return id
  }

  /// What the backend calls a container: it learns no names.
  func objectName(of container: ContainerID) -> [UInt8] {
    Array(
      HMAC<SHA256>.authenticationCode(
        for: Array(container.description.utf8), using: containerName))
  }
}

extension SymmetricKey {
  fileprivate func derived(_ purpose: String, account: [UInt8], count: Int = 32) -> SymmetricKey {
    HKDF<SHA256>.deriveKey(
      inputKeyMaterial: self, salt: account, info: Array("ubiquityfs/v1/\(purpose)".utf8),
      outputByteCount: count)
  }

  /// For what seals the master keys of earlier epochs.
  func forOlderKeys(account: [UInt8]) -> SymmetricKey { derived("older-keys", account: account) }

  var bytes: [UInt8] { withUnsafeBytes { Array($0) } }
}
