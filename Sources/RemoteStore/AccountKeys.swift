@preconcurrency internal import Crypto
internal import Model
internal import RecordFormat
internal import _CryptoExtras

/// The keys of an account, each for one purpose, all derived from its master key.
struct AccountKeys: Sendable {
  let log: SealingKey
  let chunk: SealingKey
  /// Names of containers, devices, and indices of packs.
  let record: SealingKey
  private let chunkName: SymmetricKey
  private let containerName: SymmetricKey
  /// What tells this account from others, to programs: of no use for anything else.
  let identity: [UInt8]
  let chunker: Chunker

  init(master: SymmetricKey, account: [UInt8]) {
    func derive(_ purpose: String, count: Int = 32) -> SymmetricKey {
      HKDF<SHA256>.deriveKey(
        inputKeyMaterial: master, salt: account, info: Array("ubiquityfs/v1/\(purpose)".utf8),
        outputByteCount: count)
    }
    log = SealingKey(derive("log"))
    chunk = SealingKey(derive("chunk"))
    record = SealingKey(derive("record"))
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

/// The way from a secret to the master key, as an account's `format` object says it.
enum MasterKey {
  /// Guessing a passphrase must be dear. 160 random bits cannot be guessed at any price, so that a
  /// generated secret need not cost its owner anything either.
  private static func costExponent(_ secret: AccountSecret) -> UInt32 {
    secret.isGenerated ? 10 : 17
  }

  private static let blockSize: UInt32 = 8
  private static let parallelism: UInt32 = 1

  /// Makes a new account's master key and the object that wraps it.
  static func make(secret: AccountSecret) throws(RemoteError) -> (SymmetricKey, AccountFormat) {
    let master = SymmetricKey(size: .bits256)
    var format = AccountFormat(
      version: AccountFormat.currentVersion, account: Random.bytes(16), salt: Random.bytes(16),
      costExponent: costExponent(secret), blockSize: blockSize, parallelism: parallelism,
      wrappedKey: [])
    let key = try derive(secret, format)
    do {
      let bytes = master.withUnsafeBytes { Array($0) }
      let box = try AES.GCM.seal(bytes, using: key, authenticating: associated(format))
      format.wrappedKey = Array(box.nonce) + Array(box.ciphertext) + Array(box.tag)
    } catch {
      preconditionFailure("AES-GCM refuses a key and nonce of its own making: \(error)")
    }
    return (master, format)
  }

  /// Fails with `.wrongSecret` when the secret, or any byte of the object, is another one.
  static func open(_ format: AccountFormat, secret: AccountSecret) throws(RemoteError)
    -> SymmetricKey
  {
    let key = try derive(secret, format)
    do {
      let box = try AES.GCM.SealedBox(combined: format.wrappedKey)
      return SymmetricKey(
        data: try AES.GCM.open(box, using: key, authenticating: associated(format)))
    } catch {
      throw .wrongSecret
    }
  }

  private static func derive(_ secret: AccountSecret, _ format: AccountFormat)
    throws(RemoteError) -> SymmetricKey
  {
    do {
      return try KDF.Scrypt.deriveKey(
        from: Array(secret.text.utf8), salt: format.salt, outputByteCount: 32,
        rounds: 1 << Int(format.costExponent), blockSize: Int(format.blockSize),
        parallelism: Int(format.parallelism), maxMemory: 1 << 31)
    } catch {
      throw .damaged(object: ObjectName.format, reason: "its key derivation cannot be done")
    }
  }

  private static func associated(_ format: AccountFormat) -> [UInt8] {
    var result = AssociatedData("format")
    result.append(format.account)
    result.append(format.salt)
    result.append(format.costExponent)
    result.append(format.blockSize)
    result.append(format.parallelism)
    return result.bytes
  }
}
