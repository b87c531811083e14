internal import FoundationEssentials
internal import Model
internal import SwiftProtobuf

/// The way between a message and bytes. Deterministic: lists are sorted before they come here, and
/// no message has a map.
enum Wire {
  static func encode(_ message: some Message) -> [UInt8] {
    do {
      return try message.serializedBytes()
    } catch {
      // Only a message above 2 GiB or with a missing proto2 field fails; the limits exclude both.
      preconditionFailure("a record cannot be encoded: \(error)")
    }
  }

  static func decode<M: Message>(_ type: M.Type, _ bytes: [UInt8]) throws(RecordError) -> M {
    var options = BinaryDecodingOptions()
    // The deepest message is segment, record, version, manifest.
    options.messageDepthLimit = 8
    options.discardUnknownFields = true
    do {
      return try M(serializedBytes: bytes, options: options)
    } catch {
      throw RecordError("it is not a \(M.protoMessageName) message")
    }
  }

  static func identifier<Kind>(_ data: Data, _ what: String) throws(RecordError)
    -> Identifier<Kind>
  {
    guard data.count == 16 else {
      throw RecordError("\(what) has \(data.count) bytes, not 16")
    }
    // Each record has several of these, and a generic collection is read byte by byte.
    return data.withUnsafeBytes { bytes in
      Identifier(
        high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
        low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }
  }

  /// An integer of a message that later code computes with. `Tests/check-decoding` fails on one
  /// that is read in another way.
  static func number(
    _ value: UInt64, _ what: String, limit: UInt64 = RecordLimits.number
  ) throws(RecordError) -> UInt64 {
    guard value <= limit else { throw RecordError("\(what) is \(value), more than \(limit)") }
    return value
  }

  /// Cuts identities that stand one after another.
  static func chunkIDs(_ data: Data, count: Int, _ what: String) throws(RecordError) -> [ChunkID] {
    guard data.count == count * 32 else {
      throw RecordError("\(what) has \(data.count) bytes of identities for \(count) chunks")
    }
    let bytes = [UInt8](data)
    var result: [ChunkID] = []
    result.reserveCapacity(count)
    for start in stride(from: 0, to: bytes.count, by: 32) {
      guard let id = ChunkID(Array(bytes[start..<start + 32])) else {
        throw RecordError("\(what) has a chunk identity that is not valid")
      }
      result.append(id)
    }
    return result
  }

  static func data(_ ids: [ChunkID]) -> Data {
    var result = Data(capacity: ids.count * 32)
    for id in ids { result.append(contentsOf: id.bytes) }
    return result
  }

  static func chunk(_ id: ChunkID, _ length: UInt32) throws(RecordError) -> ChunkReference {
    guard length > 0, length <= RecordLimits.chunkLength else {
      throw RecordError("a chunk of \(length) bytes is outside the limits")
    }
    return ChunkReference(id: id, length: length)
  }
}

/// `String` compares by Unicode equivalence; the formats are ordered by bytes.
func precedes(_ left: String, _ right: String) -> Bool {
  left.utf8.lexicographicallyPrecedes(right.utf8)
}
