internal import FoundationEssentials
package import Model

extension Manifest {
  package func encoded() -> [UInt8] { Wire.encode(wire) }

  package init(decoding bytes: [UInt8]) throws(RecordError) {
    try self.init(wire: Wire.decode(WireManifest.self, bytes))
  }

  var wire: WireManifest {
    var result = WireManifest()
    result.chunkIds = Wire.data(chunks.map(\.id))
    result.lengths = chunks.map(\.length)
    return result
  }

  init(wire: WireManifest) throws(RecordError) {
    guard wire.lengths.count <= RecordLimits.chunks else {
      throw RecordError("a content has \(wire.lengths.count) chunks")
    }
    let ids = try Wire.chunkIDs(wire.chunkIds, count: wire.lengths.count, "a manifest")
    var chunks: [ChunkReference] = []
    chunks.reserveCapacity(ids.count)
    for (id, length) in zip(ids, wire.lengths) { chunks.append(try Wire.chunk(id, length)) }
    self.init(chunks: chunks)
  }
}

extension ContentVersion {
  var wire: WireContentVersion {
    var result = WireContentVersion()
    result.id = Data(id.bytes)
    if let parent { result.parent = Data(parent.bytes) }
    result.device = Data(device.bytes)
    result.modified = modified.nanoseconds
    result.size = size
    if let manifest { result.manifest = manifest.wire }
    result.isResolved = isResolved
    return result
  }

  init(wire: WireContentVersion) throws(RecordError) {
    let id: VersionID = try Wire.identifier(wire.id, "a version")
    var parent: VersionID?
    if wire.hasParent { parent = try Wire.identifier(wire.parent, "a parent version") }
    guard parent != id else { throw RecordError("a version is its own parent") }
    guard wire.size <= UInt64(Int64.max) else {
      throw RecordError("a content of \(wire.size) bytes is outside the limits")
    }
    var manifest: Manifest?
    if wire.hasManifest {
      let chunks = try Manifest(wire: wire.manifest)
      guard chunks.size == wire.size else {
        throw RecordError(
          "a content of \(wire.size) bytes has chunks that make \(chunks.size) bytes")
      }
      manifest = chunks
    }
    self.init(
      id: id, parent: parent, device: try Wire.identifier(wire.device, "a version's device"),
      modified: Timestamp(nanoseconds: wire.modified), size: wire.size, manifest: manifest,
      isResolved: wire.isResolved)
  }
}
