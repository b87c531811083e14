package import Model
package import SystemPackage

/// Chunks that this device stored in the backend and that no segment names yet. They outlive a
/// crash here, so that an upload goes on where it stopped.
extension ContainerCatalog {
  package func noteSent(_ chunks: [ChunkLocation]) throws(Errno) {
    guard !chunks.isEmpty else { return }
    try changeLazily { engine in
      let time = engine.now.nanoseconds
      try engine.write { db in
        for chunk in chunks {
          try engine.queries.setSent.run(
            db, chunk.chunk.id.bytes, chunk.pack, chunk.offset.column, Int64(chunk.storedLength),
            Int64(chunk.chunk.length), time)
        }
      }
    }
  }

  /// Those that are younger than `time`, and forgets the others: what nobody names is removed from
  /// the backend some day.
  package func sentChunks(since time: Timestamp) throws(Errno) -> [ChunkLocation] {
    try run { engine in
      try engine.write { db in try engine.queries.dropSent.run(db, time.nanoseconds) }
      return try engine.database { db in
        try engine.queries.allSent.all(db) { row in
          guard let id = ChunkID(row.blob(0)) else {
            throw CatalogDamage("a chunk's name does not have 32 bytes")
          }
          return ChunkLocation(
            chunk: ChunkReference(id: id, length: row.small(4)),
            pack: try row.identifier(1), offset: row.unsigned(2), storedLength: row.small(3))
        }
      }
    }
  }

  /// Those in packs that have been condemned are to be sent again.
  package func forgetSent(_ chunks: [ChunkLocation]) throws(Errno) {
    try changeLazily { engine in
      try engine.write { db in
        for chunk in chunks { try engine.queries.deleteSent.run(db, chunk.chunk.id.bytes) }
      }
    }
  }

  package func forgetSent() throws(Errno) {
    try changeLazily { engine in
      try engine.write { db in try engine.queries.dropSent.run(db, Int64.max) }
    }
  }
}
