@preconcurrency internal import Crypto
internal import RecordFormat
internal import _CryptoExtras

/// The way from a secret to the master keys, as an account's `format` object says it.
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
    try wrap([], account: Random.bytes(16), secret: secret)
  }

  /// Makes the master key of the epoch after those whose keys are given, in their order, and the
  /// object that wraps it under a secret.
  static func wrap(_ older: [SymmetricKey], account: [UInt8], secret: AccountSecret)
    throws(RemoteError) -> (SymmetricKey, AccountFormat)
  {
    let master = SymmetricKey(size: .bits256)
    var format = AccountFormat(
      version: AccountFormat.currentVersion, account: account, salt: Random.bytes(16),
      costExponent: costExponent(secret), blockSize: blockSize, parallelism: parallelism,
      wrappedKey: [], epoch: UInt32(older.count + 1))
    let key = try derive(secret, format)
    format.wrappedKey = seal(master.bytes, key, associated(format))
    if !older.isEmpty {
      format.olderKeys = seal(
        older.flatMap(\.bytes), master.forOlderKeys(account: account), olderData(format))
    }
    return (master, format)
  }

  private static func seal(_ bytes: [UInt8], _ key: SymmetricKey, _ associated: [UInt8])
    -> [UInt8]
  {
    do {
      let box = try AES.GCM.seal(bytes, using: key, authenticating: associated)
      return Array(box.nonce) + Array(box.ciphertext) + Array(box.tag)
    } catch {
      preconditionFailure("AES-GCM refuses a key and nonce of its own making: \(error)")
    }
  }

  /// The master keys of all epochs up to the object's own, by epoch. Fails with `.wrongSecret` when
  /// the secret, or any byte of the object, is another one.
  static func open(_ format: AccountFormat, secret: AccountSecret) throws(RemoteError)
    -> [UInt32: SymmetricKey]
  {
    let key = try derive(secret, format)
    do {
      let box = try AES.GCM.SealedBox(combined: format.wrappedKey)
      let master = SymmetricKey(
        data: try AES.GCM.open(box, using: key, authenticating: associated(format)))
      var result = [format.epoch: master]
      guard format.epoch > 1 else { return result }
      let older = [UInt8](
        try AES.GCM.open(
          AES.GCM.SealedBox(combined: format.olderKeys),
          using: master.forOlderKeys(account: format.account),
          authenticating: olderData(format)))
      for epoch in 1..<format.epoch {
        let start = Int(epoch - 1) * 32
        result[epoch] = SymmetricKey(data: older[start..<start + 32])
      }
      return result
    } catch {
      throw .wrongSecret
    }
  }

  private static func derive(_ secret: AccountSecret, _ format: AccountFormat)
    throws(RemoteError) -> SymmetricKey
  {
    do {
      return try secret.bytes.withArray { passphrase throws(any Error) in
        try KDF.Scrypt.deriveKey(
          from: passphrase, salt: format.salt, outputByteCount: 32,
          rounds: 1 << Int(format.costExponent), blockSize: Int(format.blockSize),
          parallelism: Int(format.parallelism), maxMemory: 1 << 31)
      }
    } catch {
      throw .damaged(object: ObjectName.format, reason: "its key derivation failed")
    }
  }

  private static func associated(_ format: AccountFormat) -> [UInt8] {
    var result = AssociatedData("format")
    result.append(format.account)
    result.append(format.salt)
    result.append(format.costExponent)
    result.append(format.blockSize)
    result.append(format.parallelism)
    // The first epoch has the bytes of version 1, so that such an object can be raised to version
    // 2.
    if format.epoch > 1 { result.append(format.epoch) }
    return result.bytes
  }

  private static func olderData(_ format: AccountFormat) -> [UInt8] {
    var result = AssociatedData("older keys")
    result.append(format.account)
    result.append(format.epoch)
    return result.bytes
  }
}
