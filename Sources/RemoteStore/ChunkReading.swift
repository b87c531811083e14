internal import Backend
package import Model

/// A run of bytes of one pack that is fetched with one request.
private struct ChunkSpan: Sendable {
  let pack: PackID
  var range: Range<UInt64>
  /// Indices into what was asked for.
  var chunks: [Int]
}

extension RemoteContainer {
  private static var largestGap: UInt64 { 64 << 10 }
  private static var largestSpan: UInt64 { 8 << 20 }
  /// At most; the store lets through what is worth it.
  private static var parallelSpans: Int { 8 }

  /// The plain bytes of chunks, in the order asked for, each verified by its seal, its length and
  /// its name. Chunks that are near each other in a pack come with one request.
  ///
  /// All of them are in memory at once: the caller asks for as much as it wants to hold.
  package func read(_ chunks: [ChunkLocation]) async throws(RemoteError) -> [OpenedBytes] {
    let spans = Self.spans(chunks)
    let results = await withTaskGroup(
      of: Result<[(Int, OpenedBytes)], RemoteError>.self
    ) { group in
      var next = spans[...]
      func add() {
        guard let span = next.popFirst() else { return }
        group.addTask { await self.read(span, of: chunks) }
      }
      for _ in 0..<Self.parallelSpans { add() }
      var results: [Result<[(Int, OpenedBytes)], RemoteError>] = []
      for await result in group {
        results.append(result)
        if case .failure = result {
          group.cancelAll()
          break
        }
        add()
      }
      return results
    }
    var plain = [OpenedBytes?](repeating: nil, count: chunks.count)
    for result in results { for (index, bytes) in try result.get() { plain[index] = bytes } }
    return plain.map { bytes in
      guard let bytes else { preconditionFailure("each chunk is in a span") }
      return bytes
    }
  }

  private static func spans(_ chunks: [ChunkLocation]) -> [ChunkSpan] {
    let order = chunks.indices.sorted { left, right in
      (chunks[left].pack, chunks[left].offset) < (chunks[right].pack, chunks[right].offset)
    }
    var result: [ChunkSpan] = []
    for index in order {
      let chunk = chunks[index]
      let range = chunk.offset..<chunk.offset + UInt64(chunk.storedLength)
      if let last = result.last, last.pack == chunk.pack,
        range.lowerBound <= last.range.upperBound + largestGap,
        max(range.upperBound, last.range.upperBound) - last.range.lowerBound <= largestSpan
      {
        let end = max(range.upperBound, last.range.upperBound)
        result[result.count - 1].range = last.range.lowerBound..<end
        result[result.count - 1].chunks.append(index)
      } else {
        result.append(ChunkSpan(pack: chunk.pack, range: range, chunks: [index]))
      }
    }
    return result
  }

  private func read(_ span: ChunkSpan, of chunks: [ChunkLocation]) async
    -> Result<[(Int, OpenedBytes)], RemoteError>
  {
    let object = ObjectName.pack(incarnation, span.pack)
    let stored: [UInt8]
    do throws(StoreError) {
      stored = try await store.get(object, range: span.range)
    } catch .notFound {
      return .failure(.packMissing(object: object))
    } catch {
      return .failure(RemoteError(error))
    }
    var result: [(Int, OpenedBytes)] = []
    for index in span.chunks {
      guard !Task.isCancelled else { return .failure(.cancelled) }
      let location = chunks[index]
      let start = Int(location.offset - span.range.lowerBound)
      let end = start + Int(location.storedLength)
      guard end <= stored.count else {
        return .failure(.damaged(object: object, reason: "it is cut short"))
      }
      do throws(SealError) {
        result.append((index, try keys.opened(stored[start..<end], location.chunk)))
      } catch {
        let place = "the chunk at byte \(location.offset)"
        return .failure(.damaged(object: object, reason: "\(place): \(error.reason)"))
      }
    }
    return .success(result)
  }
}

/// A chunk does not say of which epoch its key is: the keys of all epochs are tried, the newest
/// first. There are few, and a key that does not fit costs no more than to read the bytes once.
extension AccountState {
  func seal(
    _ plain: UnsafeRawBufferPointer, as reference: ChunkReference, with compressor: Compressor
  ) -> SealedBytes {
    newest.keys.chunk.seal(plain, Self.associated(reference), with: compressor)
  }

  func opened(_ sealed: ArraySlice<UInt8>, _ reference: ChunkReference) throws(SealError)
    -> OpenedBytes
  {
    let plain = try trying { keys throws(SealError) in
      try keys.chunk.opened(sealed, Self.associated(reference), limit: Int(reference.length))
    }
    guard plain.count == Int(reference.length) else {
      throw SealError(reason: "its length is wrong")
    }
    guard plain.withUnsafeBytes({ chunkID($0) }) == reference.id else {
      throw SealError(reason: "it is another chunk")
    }
    return plain
  }

  /// Gives what the first of the epochs' keys that fits opens, else the newest one's error.
  func trying<Value>(_ open: (EpochKeys) throws(SealError) -> Value) throws(SealError) -> Value {
    var failure: SealError?
    for keys in allKeys {
      do throws(SealError) { return try open(keys) } catch { failure = failure ?? error }
    }
    throw failure ?? SealError(reason: "this device has no key for it")
  }

  private static func associated(_ reference: ChunkReference) -> AssociatedData {
    var result = AssociatedData("chunk")
    result.append(reference.id.bytes)
    result.append(reference.length)
    return result
  }
}
