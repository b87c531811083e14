package import Backend
internal import Model
internal import Platform

/// Copies the sealed objects of an account from one store to another, as they are.
///
/// **Invariant: the target has no `format` before it has every other object.** Without `format` no
/// device takes a store for an account's. So a copy may stop anywhere, and is done again from the
/// start: objects that the target has already are not sent again.
///
/// Segments, packs, parts of snapshots and entries of the member log never change. If the target
/// has another one of the same name, it holds another history of the account. Then the copy fails
/// and changes nothing there.
package struct StoreCopy: Sendable {
  /// Counts of a copy so far.
  package struct Progress: Sendable, Hashable {
    /// Objects that the source listed.
    package var objects = 0
    /// How many it listed before the copy began.
    package var total = 0
    /// Those that were sent.
    package var copied = 0
    package var bytes: UInt64 = 0
  }

  let source: any ObjectStore
  let target: any ObjectStore

  package init(from source: any ObjectStore, to target: any ObjectStore) {
    self.source = source
    self.target = target
  }

  /// Objects that are moved at the same time. A pack has 16 MiB as a rule.
  private static let width = 4
  private static let page = 1000

  /// Copies all objects but `format`. `progress` is called from one task.
  package func copyObjects(
    progress: @Sendable (Progress) -> Void = { _ in }
  ) async throws(RemoteError) -> Progress {
    var result = Progress()
    for prefix in ObjectName.directories {
      result.total += try await source.ownKeys(prefix, limit: 2 * RemoteLimits.objects).count
    }
    for prefix in ObjectName.directories {
      var after: String?
      while true {
        let start = after
        let (source, target) = (source, target)
        let found = try await storing { () async throws(StoreError) in
          try await source.listObjects(prefix: prefix, after: start, limit: Self.page)
        }
        guard let last = found.last else { break }
        // The target's keys of the same stretch.
        let there = try await listed(in: target, prefix: prefix, after: start, upTo: last.key)
        let own = found.filter { Self.belongs($0.key) }
        result.objects += own.count
        try await copy(own, there, &result)
        progress(result)
        guard found.count == Self.page else { break }
        after = last.key
      }
    }
    return result
  }

  /// Says whether the target lists every object that the source lists; gives the first that it
  /// lacks.
  package func firstMissing() async throws(RemoteError) -> String? {
    for prefix in ObjectName.directories {
      var after: String?
      while true {
        let start = after
        let source = source
        let found = try await storing { () async throws(StoreError) in
          try await source.listObjects(prefix: prefix, after: start, limit: Self.page)
        }
        guard let last = found.last else { break }
        let there = try await listed(in: target, prefix: prefix, after: start, upTo: last.key)
        for object in found where Self.belongs(object.key) {
          guard let size = there[object.key] else { return object.key }
          if let size, let expected = object.size, size != expected, Self.isFinal(object.key) {
            return object.key
          }
        }
        guard found.count == Self.page else { break }
        after = last.key
      }
    }
    return nil
  }

  /// Puts `format` into the target, which makes it the account's store.
  package func complete(with format: [UInt8]) async throws(RemoteError) {
    let target = target
    _ = try await storing { () async throws(StoreError) in
      try await target.putIfAbsent(ObjectName.format, format)
    }
    guard try await RemoteAccount.storedFormat(target) == format else {
      throw .damaged(
        object: ObjectName.format, reason: "the new backend has the object of another account")
    }
    FaultPoint.reach("move.format-put")
  }

  // MARK: One page

  private func listed(
    in store: any ObjectStore, prefix: String, after: String?, upTo end: String
  ) async throws(RemoteError) -> [String: UInt64?] {
    var result: [String: UInt64?] = [:]
    var after = after
    while true {
      let start = after
      let found = try await storing { () async throws(StoreError) in
        try await store.listObjects(prefix: prefix, after: start, limit: Self.page)
      }
      for object in found where !keyPrecedes(end, object.key) { result[object.key] = object.size }
      guard found.count == Self.page, let last = found.last?.key, keyPrecedes(last, end) else {
        return result
      }
      after = last
    }
  }

  private func copy(
    _ objects: [ListedObject], _ there: [String: UInt64?], _ result: inout Progress
  ) async throws(RemoteError) {
    var failure: RemoteError?
    var next = objects[...]
    let sent = await withTaskGroup(
      of: Result<UInt64?, RemoteError>.self
    ) { group -> (count: Int, bytes: UInt64) in
      var sum = (count: 0, bytes: UInt64(0))
      func begin() {
        guard failure == nil, let object = next.popFirst() else { return }
        let known = there[object.key]
        group.addTask {
          do throws(RemoteError) {
            return .success(try await self.copyOne(object, known: known))
          } catch {
            return .failure(error)
          }
        }
      }
      for _ in 0..<Self.width { begin() }
      for await done in group {
        switch done {
        case .success(let bytes?): sum = (sum.count + 1, sum.bytes + bytes)
        case .success(nil): break
        case .failure(let error): failure = failure ?? error
        }
        begin()
      }
      return sum
    }
    result.copied += sent.count
    result.bytes += sent.bytes
    if let failure { throw failure }
  }

  /// `known` is the object's size in the target, or nil if the target does not list it. Returns the
  /// bytes that were copied, or nil if the target had the object or the source has lost it.
  private func copyOne(
    _ object: ListedObject, known: UInt64??
  ) async throws(RemoteError) -> UInt64? {
    let (source, target, key) = (source, target, object.key)
    // The name of a pack is random and is never given to two: its size is enough.
    if case .pack? = ObjectKey(key), let known, let size = known, size == object.size { return nil }
    let bytes: [UInt8]
    do throws(StoreError) {
      bytes = try await source.get(key, range: 0..<UInt64(RemoteLimits.segment) + 1)
    } catch .notFound {
      return nil
    } catch {
      throw RemoteError(error)
    }
    guard bytes.count <= RemoteLimits.segment else {
      throw .damaged(object: key, reason: "it is too long")
    }
    if known != nil, let there = try await self.object(key, in: target) {
      if there == bytes { return nil }
      guard !Self.isFinal(key) else {
        throw .damaged(
          object: key,
          reason: "the new backend has another object of that name; use an empty place")
      }
    }
    try await storing { () async throws(StoreError) in
      if Self.isFinal(key) {
        _ = try await target.putIfAbsent(key, bytes)
      } else {
        try await target.replace(key, bytes)
      }
    }
    FaultPoint.reach("move.copied")
    return UInt64(bytes.count)
  }

  private func object(
    _ key: String, in store: any ObjectStore
  ) async throws(RemoteError) -> [UInt8]? {
    do throws(StoreError) {
      return try await store.get(key, range: 0..<UInt64(RemoteLimits.segment) + 1)
    } catch .notFound {
      return nil
    } catch {
      throw RemoteError(error)
    }
  }

  private static func belongs(_ key: String) -> Bool {
    ObjectKey(key).map { $0 != .format } ?? false
  }

  /// Whether an object of that name never changes once it is there.
  private static func isFinal(_ key: String) -> Bool {
    switch ObjectKey(key) {
    case .segment, .pack, .snapshotPart, .member: true
    default: false
    }
  }
}
