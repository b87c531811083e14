import CZstd
import Crypto
import Foundation
import Model

@testable import RemoteStore

/// Decoders of objects that another device sealed, and of their keys in the store.
extension FuzzTarget {
  static let sealedTargets: [FuzzTarget] = [
    // A limit, then the payload, which the target seals correctly.
    FuzzTarget(
      "sealed",
      seeds: {
        let plain = Array(repeating: [UInt8]("ubiquity"), count: 40).flatMap(\.self)
        return [
          [1, 64, 0] + plain, [16, 0, 1] + compressed(plain), [16, 0, 1] + compressed([]),
          [0, 9, 1] + compressed(plain), [16, 0, 2] + plain,
        ]
      },
      run: { bytes in
        var input = InputReader(bytes)
        let limit = input.word16()
        let key = SymmetricKey(data: [UInt8](repeating: 7, count: 32))
        var associated = AssociatedData("fuzz")
        associated.append(UInt64(9))
        let box = try AES.GCM.seal(input.all(), using: key, authenticating: associated.bytes)
        guard let sealed = box.combined else { return }
        guard
          let opened = try? SealingKey(key).opened(Array(sealed)[...], associated, limit: limit)
        else { return }
        try expect(opened.count <= limit, "opened to \(opened.count) bytes, more than \(limit)")
        let plain = opened.array
        try expect(plain.count == opened.count, "the count of opened bytes is wrong")
        let again = try SealingKey(key).open(
          SealingKey(key).seal(plain, associated)[...], associated, limit: limit)
        try expect(again == plain, "sealed again it is something else")
      }),
    // The bytes themselves, which a store may change as it likes.
    FuzzTarget(
      "sealed-bytes",
      seeds: {
        let key = SealingKey(SymmetricKey(data: [UInt8](repeating: 7, count: 32)))
        return [key.seal([UInt8]("text"), AssociatedData("fuzz")), []]
      },
      run: { bytes in
        let key = SealingKey(SymmetricKey(data: [UInt8](repeating: 7, count: 32)))
        _ = try? key.opened(bytes[...], AssociatedData("fuzz"), limit: 4096)
        for header in [ObjectHeader.segment, .pack, .snapshotIndex, .recoveredIndex, .format] {
          _ = try? header.sealed(of: bytes, object: "object")
        }
      }),
    FuzzTarget(
      "object-key", limit: 300,
      seeds: {
        let id = IncarnationID(high: 1, low: 2)
        let keys = [
          ObjectName.format, ObjectName.quota, ObjectName.name([UInt8](repeating: 5, count: 32)),
          ObjectName.device(DeviceID(high: 3, low: 4)), ObjectName.deletion(id),
          ObjectName.segment(id, 12), ObjectName.pack(id, PackID(high: 5, low: 6)),
          ObjectName.snapshotIndex(id, 9), ObjectName.cursor(id, DeviceID(high: 3, low: 4)),
          ObjectName.member(3), ObjectName.offer(PairingID(high: 7, low: 8)),
          ObjectName.pairing(PairingID(high: 7, low: 8), PairingID(high: 9, low: 9), .grant),
          ObjectName.snapshotPart(id, 9, writer: PackID(high: 5, low: 6), 2),
        ]
        return keys.map { [UInt8]($0) }
      },
      run: { bytes in
        let text = bytes.text
        guard let key = ObjectKey(text) else { return }
        let name =
          switch key {
          case .format: ObjectName.format
          case .name(let code): ObjectName.name(code)
          case .device(let id): ObjectName.device(id)
          case .quota: ObjectName.quota
          case .member(let number): ObjectName.member(number)
          // It does not tell which of the objects of an offer it is.
          case .pairing(let id):
            ObjectName.pairing(id) + text.dropFirst(ObjectName.pairing(id).count)
          case .deletion(let id): ObjectName.deletion(id)
          case .segment(let id, let sequence): ObjectName.segment(id, sequence)
          case .pack(let id, let pack): ObjectName.pack(id, pack)
          case .snapshotIndex(let id, let sequence): ObjectName.snapshotIndex(id, sequence)
          case .snapshotPart(let id, let sequence, let writer, let number):
            ObjectName.snapshotPart(id, sequence, writer: writer, number)
          case .cursor(let id, let device): ObjectName.cursor(id, device)
          }
        try expect(Array(name.utf8) == Array(text.utf8), "“\(text)” is taken for “\(name)”")
        try expect(text.utf8.allSatisfy { $0 < 0x80 }, "“\(text)” is taken for an object's key")
      }),
    FuzzTarget(
      "secret", limit: 5000,
      seeds: {
        [
          [UInt8](AccountSecret.generate().text), [UInt8]("  correct horse battery staple\n"),
          [UInt8](AccountSecret.generate().text.uppercased()),
        ]
      },
      run: { bytes in
        guard let secret = try? AccountSecret(bytes.text) else { return }
        let again = try? AccountSecret(secret.text)
        try expect(again == secret, "a secret is another one when it is read again")
      }),
  ]

  private static func compressed(_ plain: [UInt8]) -> [UInt8] {
    var result = [UInt8](repeating: 0, count: ZSTD_compressBound(plain.count))
    let count = ZSTD_compress(&result, result.count, plain, plain.count, 1)
    return Array(result.prefix(count))
  }
}
