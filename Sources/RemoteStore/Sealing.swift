internal import CZstd
@preconcurrency internal import Crypto
internal import FoundationEssentials

/// What a sealed thing is, where it belongs, and in which format: it opens nowhere else.
struct AssociatedData {
  private let label: String
  private var identity: [UInt8] = []

  init(_ label: String) { self.label = label }

  /// Of an object without an epoch.
  var bytes: [UInt8] {
    Array("ubiquityfs \(label)".utf8) + [0] + ObjectHeader.version.bigEndianBytes + identity
  }

  /// Of an object that names the epoch of its key.
  func bytes(epoch: UInt32) -> [UInt8] {
    Array("ubiquityfs \(label)".utf8) + [0] + ObjectHeader.epochVersion.bigEndianBytes
      + epoch.bigEndianBytes + identity
  }

  mutating func append(_ part: [UInt8]) { identity += part }

  mutating func append(_ number: some FixedWidthInteger) { identity += number.bigEndianBytes }
}

extension FixedWidthInteger {
  var bigEndianBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }

  /// From as many bytes as the type has.
  init(bigEndianBytes bytes: ArraySlice<UInt8>) {
    self = bytes.reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) }
  }
}

/// Why sealed bytes did not open.
struct SealError: Error {
  let reason: String
}

/// What is sealed, as the library that seals gives it.
struct SealedBytes: Sendable {
  private let bytes: Data

  fileprivate init(_ bytes: Data) { self.bytes = bytes }

  var count: Int { bytes.count }

  func append(to array: inout [UInt8]) { bytes.withUnsafeBytes { array.append(contentsOf: $0) } }
}

/// What was sealed, where it was deciphered or decompressed: megabytes that need no copy on their
/// way to a file.
package struct OpenedBytes: Sendable {
  private enum Storage {
    case deciphered(Data)
    case unpacked([UInt8])
  }

  private let storage: Storage

  fileprivate init(_ data: Data) { storage = .deciphered(data) }
  fileprivate init(_ array: [UInt8]) { storage = .unpacked(array) }

  package var count: Int {
    switch storage {
    case .deciphered(let data): data.count
    case .unpacked(let array): array.count
    }
  }

  /// A copy, where it was not decompressed.
  package var array: [UInt8] {
    switch storage {
    case .deciphered(let data): Array(data)
    case .unpacked(let array): array
    }
  }

  package func withUnsafeBytes<Value, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Value
  ) throws(Failure) -> Value {
    func run(_ bytes: UnsafeRawBufferPointer) -> Result<Value, Failure> {
      Result { () throws(Failure) in try body(bytes) }
    }
    return switch storage {
    case .deciphered(let data): try data.withUnsafeBytes(run).get()
    case .unpacked(let array): try array.withUnsafeBytes(run).get()
    }
  }
}

/// Compresses and encrypts: AES-256-GCM with a random nonce over one byte that says how the rest is
/// stored, and the rest. Stored as nonce (12), ciphertext, tag (16).
struct SealingKey: Sendable {
  private let key: SymmetricKey

  static let overhead = 29

  init(_ key: SymmetricKey) { self.key = key }

  /// `epoch`: of an object that names it.
  func seal(
    _ plain: UnsafeRawBufferPointer, _ associated: AssociatedData, epoch: UInt32? = nil,
    with compressor: Compressor
  ) -> SealedBytes {
    do {
      let data = epoch.map { associated.bytes(epoch: $0) } ?? associated.bytes
      let box = try AES.GCM.seal(compressor.pack(plain), using: key, authenticating: data)
      guard let combined = box.combined else { preconditionFailure("the nonce has 12 bytes") }
      return SealedBytes(combined)
    } catch {
      preconditionFailure("AES-GCM refuses a key and nonce of its own making: \(error)")
    }
  }

  func seal(_ plain: [UInt8], _ associated: AssociatedData, epoch: UInt32? = nil) -> [UInt8] {
    var result: [UInt8] = []
    plain.withUnsafeBytes { plain in
      seal(plain, associated, epoch: epoch, with: Compressor(capacity: plain.count))
        .append(to: &result)
    }
    return result
  }

  func open(
    _ sealed: ArraySlice<UInt8>, _ associated: AssociatedData, epoch: UInt32? = nil, limit: Int
  ) throws(SealError) -> [UInt8] {
    try opened(sealed, associated, epoch: epoch, limit: limit).array
  }

  /// Opens what `seal` made, to at most `limit` bytes: what is damaged must not fill the memory.
  func opened(
    _ sealed: ArraySlice<UInt8>, _ associated: AssociatedData, epoch: UInt32? = nil, limit: Int
  ) throws(SealError) -> OpenedBytes {
    guard sealed.count >= Self.overhead else { throw SealError(reason: "it is cut short") }
    let payload: Data
    do {
      payload = try AES.GCM.open(
        AES.GCM.SealedBox(combined: sealed), using: key,
        authenticating: epoch.map { associated.bytes(epoch: $0) } ?? associated.bytes)
    } catch {
      throw SealError(reason: "its authentication failed")
    }
    switch payload.first {
    case Compressor.raw:
      guard payload.count - 1 <= limit else { throw SealError(reason: "it is too long") }
      return OpenedBytes(payload.dropFirst())
    case Compressor.compressed:
      return OpenedBytes(try Self.unpack(payload, limit: limit))
    default:
      throw SealError(reason: "its compression method is unknown")
    }
  }

  private static func unpack(_ payload: Data, limit: Int) throws(SealError) -> [UInt8] {
    let result: [UInt8]? = payload.withUnsafeBytes { bytes in
      let frame = UnsafeRawBufferPointer(rebasing: bytes[1...])
      // "Unknown" and "error" are the two greatest numbers, and so above every limit.
      let size = ZSTD_getFrameContentSize(frame.baseAddress, frame.count)
      guard size <= UInt64(limit) else { return nil }
      var isWhole = false
      let plain = [UInt8](unsafeUninitializedCapacity: Int(size)) { buffer, filled in
        let count = ZSTD_decompress(buffer.baseAddress, Int(size), frame.baseAddress, frame.count)
        guard ZSTD_isError(count) == 0, count == Int(size) else { return }
        filled = count
        isWhole = true
      }
      return isWhole ? plain : nil
    }
    guard let result else { throw SealError(reason: "it cannot be decompressed") }
    return result
  }
}
