package import Backend
internal import HTTPTransport
internal import Platform

/// A bucket of S3, Ceph or another store with that interface, as the backend.
///
/// The log's one order stands on `If-None-Match: *`: a store that forgets it would let two devices
/// write over each other, so `checkConditions` tries it before an account is made there. Objects
/// are atomic and listed right after they are put on all stores that are known to honour it.
/// Sources: Amazon S3 API Reference; "Amazon S3 data consistency model", S3 User Guide.
package final class S3Store: ObjectStore {
  let connection: S3Connection
  let parts: MultipartSupport

  /// Reaches out only when it is first used. Throws `.invalid` for certificates that cannot be
  /// read. `patience`: how long the store may send nothing.
  package init(
    _ address: S3Address, environment: [String: String], patience: Duration = .seconds(30)
  ) throws(StoreError) {
    connection = try S3Connection(address, environment: environment, patience: patience)
    parts = MultipartSupport()
  }

  package var description: String { connection.address.description }

  /// Checks the store's answers to `If-None-Match: *`. See `checkConditionalPuts`.
  package func checkConditions() async throws(StoreError) {
    try await checkConditionalPuts(
      place: connection.place,
      advice: "Use a store that honours them, such as Amazon S3, Ceph or MinIO")
  }

  // MARK: Reading

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try StoreKey.check(key)
    var request = S3Request(method: .get, key: key)
    request.limit = 1 << 30
    if let range {
      guard !range.isEmpty else { return [] }
      // No store has longer objects, and some read no larger numbers.
      let last = min(range.upperBound - 1, 1 << 50)
      guard range.lowerBound <= last else { return [] }
      request.headers = [("range", "bytes=\(range.lowerBound)-\(last)")]
      request.limit = Int(min(UInt64(1 << 30), last - range.lowerBound + 1))
    }
    let answer = try await connection.send(request)
    if answer.status == 416, range != nil { return [] }
    try check(answer, key)
    guard let range else { return answer.body }
    return try part(range, of: answer, key)
  }

  /// What of the answer is the range, by what the answer says that it is.
  private func part(_ range: Range<UInt64>, of answer: S3Answer, _ key: String)
    throws(StoreError) -> [UInt8]
  {
    guard answer.status == 206 else {
      // It knows no ranges, and gave all.
      let from = min(range.lowerBound, UInt64(answer.body.count))
      let to = min(range.upperBound, UInt64(answer.body.count))
      return Array(answer.body[Int(from)..<Int(to)])
    }
    // `bytes 0-9/443`
    let numbers = (answer.headers["content-range"] ?? "")
      .split { !$0.isNumber && $0 != "*" }.map { UInt64($0) }
    guard numbers.count >= 2, numbers[0] == range.lowerBound, let last = numbers[1],
      last >= range.lowerBound, last < range.upperBound,
      UInt64(answer.body.count) == last - range.lowerBound + 1
    else {
      throw .unavailable("\(connection.place) returned another range of \"\(key)\" than requested")
    }
    if numbers.count > 2, let total = numbers[2], last + 1 < min(range.upperBound, total) {
      throw .unavailable("\(connection.place) returned less of \"\(key)\" than requested")
    }
    return answer.body
  }

  private static let mostEmptyPages = 100
  /// Pages one after the other without a name that was asked for: a list need not have an end.
  private static let mostForeignPages = 1000
  /// Source: Amazon S3 API Reference, ListObjectsV2, max-keys.
  private static let longestPage = 1000

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await listObjects(prefix: prefix, after: after, limit: limit).map(\.key)
  }

  package func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]
  {
    try StoreKey.checkPrefix(prefix)
    // Objects of other programs are none of ours.
    return try await objects(prefix: prefix, after: after, limit: limit) {
      (try? StoreKey.check($0)) != nil
    }
  }

  /// With those of other programs, as far as `isWanted` says so of their names.
  private func objects(
    prefix: String, after: String?, limit: Int, isWanted: @Sendable (String) -> Bool
  ) async throws(StoreError) -> [ListedObject] {
    var result: [ListedObject] = []
    var start = after
    // Pages with nothing in them, as of names that were removed, go on where the store says.
    var token: String?
    var emptyPages = 0
    var foreignPages = 0
    while result.count < limit {
      let wanted = min(Self.longestPage, limit - result.count)
      var request = listRequest(prefix: prefix, limit: wanted)
      if let token {
        request.query.append(("continuation-token", token))
      } else if let start {
        request.query.append(("start-after", place + start))
      }
      let xml = try await page(request)
      let keys = xml.all("ListBucketResult/Contents/Key")
      guard keys.count <= Self.longestPage else {
        throw .invalid("\(connection.place) lists more than requested; check the endpoint")
      }
      let known = result.count
      let sizes = xml.all("ListBucketResult/Contents/Size")
      for (index, key) in keys.enumerated() {
        guard key.hasPrefix(place + prefix) else {
          throw .invalid(
            "\(connection.place) lists objects outside of the requested prefix; check the endpoint")
        }
        let name = String(key.dropFirst(place.count))
        guard start.map({ keyPrecedes($0, name) }) ?? true else {
          throw .invalid(
            "\(connection.place) does not list objects in the order of their keys; use another "
              + "store")
        }
        if isWanted(name) {
          let size = sizes.count == keys.count ? UInt64(sizes[index]) : nil
          result.append(ListedObject(key: name, size: size))
        }
        start = name
      }
      guard xml.first("ListBucketResult/IsTruncated") == "true" else { break }
      foreignPages = result.count > known ? 0 : foreignPages + 1
      guard foreignPages <= Self.mostForeignPages else {
        throw .invalid(
          "\(connection.place) lists \(foreignPages) pages of objects of other programs under "
            + "\"\(place)\(prefix)\"; use a prefix for ubiquityfs alone")
      }
      token = keys.isEmpty ? xml.first("ListBucketResult/NextContinuationToken") : nil
      guard keys.isEmpty else { continue }
      emptyPages += 1
      guard token != nil, emptyPages <= Self.mostEmptyPages else {
        throw .unavailable("\(connection.place) truncated a list and gave no token to continue it")
      }
    }
    return Array(result.prefix(limit))
  }

  package func storedNames(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try StoreKey.checkPrefix(prefix)
    guard prefix.isEmpty else {
      return try await objects(prefix: prefix, after: after, limit: limit) { _ in true }.map(\.key)
    }
    return try await topNames(limit: limit)
  }

  /// The names right below the store's own prefix, with `/` behind those that others begin with.
  private func topNames(limit: Int) async throws(StoreError) -> [String] {
    var names: [String] = []
    var token: String?
    for _ in 0..<Self.mostEmptyPages {
      var request = listRequest(prefix: "", limit: min(1000, limit))
      request.query.append(("delimiter", "/"))
      if let token { request.query.append(("continuation-token", token)) }
      let xml = try await page(request)
      let found =
        xml.all("ListBucketResult/Contents/Key") + xml.all("ListBucketResult/CommonPrefixes/Prefix")
      // Some programs make an object whose name is the prefix itself.
      for key in found where key.hasPrefix(place) && key != place {
        names.append(String(key.dropFirst(place.count)))
      }
      token = xml.first("ListBucketResult/NextContinuationToken")
      guard names.count < limit, xml.first("ListBucketResult/IsTruncated") == "true", token != nil
      else { break }
    }
    return Array(names.sorted(by: keyPrecedes).prefix(limit))
  }

  /// The part of each name in the bucket that stands before the key.
  private var place: String {
    connection.address.prefix.isEmpty ? "" : connection.address.prefix + "/"
  }

  private func listRequest(prefix: String, limit: Int) -> S3Request {
    var request = S3Request(
      method: .get,
      query: [("list-type", "2"), ("max-keys", "\(limit)"), ("prefix", place + prefix)])
    request.limit = 1 << 24
    return request
  }

  /// One page of a list.
  private func page(_ request: S3Request) async throws(StoreError) -> XMLElements {
    let answer = try await connection.send(request)
    try check(answer, nil)
    guard let xml = XMLElements(answer.body), xml.root == "ListBucketResult" else {
      throw .invalid(
        "\(connection.place) did not answer like an S3 store; check the endpoint, and whether the "
          + "network requires a login first")
    }
    return xml
  }

  // MARK: Writing

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try StoreKey.check(key)
    if bytes.count > MultipartSupport.threshold, try await completesConditionally() {
      return try await putParts(key, bytes, ifAbsent: true)
    }
    var request = S3Request(method: .put, key: key)
    request.headers = [("if-none-match", "*")]
    request.body = bytes
    let answer = try await connection.send(request)
    if answer.status == 412 { return false }
    try check(answer, key)
    return true
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try StoreKey.check(key)
    if bytes.count > MultipartSupport.threshold {
      _ = try await putParts(key, bytes, ifAbsent: false)
      return
    }
    var request = S3Request(method: .put, key: key)
    request.body = bytes
    try check(try await connection.send(request), key)
  }

  package func delete(_ key: String) async throws(StoreError) {
    try StoreKey.check(key)
    do throws(StoreError) {
      try check(try await connection.send(S3Request(method: .delete, key: key)), key)
    } catch .notFound {}
  }

  /// A bucket tells nobody of anything.
  package func news(prefix: String) -> AsyncStream<Void> { AsyncStream { $0.finish() } }

  package var looksForNews: Bool { true }

  func check(_ answer: S3Answer, _ key: String?) throws(StoreError) {
    let now = SystemClock().nanoseconds() / 1_000_000_000
    guard let failure = S3Failure(answer, now: now) else { return }
    throw failure.storeError(key, connection.place)
  }
}
