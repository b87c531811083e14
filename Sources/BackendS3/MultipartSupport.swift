internal import Backend
internal import HTTPTransport
internal import Model
internal import Platform

/// Whether the store takes a condition with the last request of an upload in parts: not all that
/// take it with a plain put do. Found out when it first matters.
final class MultipartSupport: Sendable {
  let isConditional = Lock<Bool?>(nil)

  /// Longer objects go up in parts, side by side; each is sent again alone.
  static let threshold = 32 << 20
  static let part = 8 << 20
  static let parallel = 4
}

/// Source: "Uploading and copying objects using multipart upload", Amazon S3 User Guide.
extension S3Store {
  /// Without it a plain put does what is long, up to 5 GiB.
  func completesConditionally() async throws(StoreError) -> Bool {
    if let known = parts.isConditional.withLock({ $0 }) { return known }
    let key = "probe/\(Self.randomName())"
    try check(try await connection.send(S3Request(method: .put, key: key)), key)
    let isConditional: Bool
    do throws(StoreError) {
      // There is one, so a store that listens refuses.
      isConditional = try await !putParts(key, [0], ifAbsent: true)
    } catch {
      try? await delete(key)
      throw error
    }
    try await delete(key)
    parts.isConditional.withLock { $0 = isConditional }
    return isConditional
  }

  /// False: there is one already. What was sent of it is given up when it fails.
  func putParts(_ key: String, _ bytes: [UInt8], ifAbsent: Bool) async throws(StoreError) -> Bool {
    let begin = S3Request(method: .post, key: key, query: [("uploads", "")])
    let answer = try await connection.send(begin)
    try check(answer, key)
    guard
      let upload = XMLElements(answer.body)?.first("InitiateMultipartUploadResult/UploadId"),
      !upload.isEmpty
    else { throw .unavailable("\(connection.place) did not begin a multipart upload") }
    do throws(StoreError) {
      let tags = try await sendParts(key, bytes, upload)
      var end = S3Request(method: .post, key: key, query: [("uploadId", upload)])
      if ifAbsent { end.headers = [("if-none-match", "*")] }
      let list = tags.enumerated().map { index, tag in
        "<Part><PartNumber>\(index + 1)</PartNumber><ETag>\(tag)</ETag></Part>"
      }
      end.body = Array(
        "<CompleteMultipartUpload>\(list.joined())</CompleteMultipartUpload>".utf8)
      let answer = try await connection.send(end)
      if answer.status == 412 {
        await giveUp(key, upload)
        return false
      }
      try check(answer, key)
      // It may begin to answer before it knows that it fails.
      guard XMLElements(answer.body)?.root.hasPrefix("CompleteMultipartUploadRes") == true else {
        throw .unavailable(
          "\(connection.place) did not complete the multipart upload of \"\(key)\"")
      }
      return true
    } catch {
      await giveUp(key, upload)
      throw error
    }
  }

  private func giveUp(_ key: String, _ upload: String) async {
    // Also when the caller was cancelled: parts that are left cost money.
    let request = S3Request(method: .delete, key: key, query: [("uploadId", upload)])
    let connection = connection
    _ = await Task.detached { try? await connection.send(request) }.value
  }

  private func sendParts(_ key: String, _ bytes: [UInt8], _ upload: String)
    async throws(StoreError) -> [String]
  {
    let count = max(1, (bytes.count + MultipartSupport.part - 1) / MultipartSupport.part)
    let results = await withTaskGroup(of: (Int, Result<String, StoreError>).self) { group in
      var next = 0
      func add() {
        guard next < count else { return }
        let index = next
        next += 1
        group.addTask { (index, await self.sendPart(index, key, bytes, upload)) }
      }
      for _ in 0..<MultipartSupport.parallel { add() }
      var results = [Result<String, StoreError>](repeating: .failure(.cancelled), count: count)
      for await (index, result) in group {
        results[index] = result
        if case .failure = result {
          group.cancelAll()
          break
        }
        add()
      }
      return results
    }
    var tags: [String] = []
    // The first that failed by itself, not for the sake of another.
    for case .failure(let error) in results where error != .cancelled { throw error }
    for result in results { tags.append(try result.get()) }
    return tags
  }

  private func sendPart(_ index: Int, _ key: String, _ bytes: [UInt8], _ upload: String) async
    -> Result<String, StoreError>
  {
    let start = index * MultipartSupport.part
    var request = S3Request(
      method: .put, key: key, query: [("partNumber", "\(index + 1)"), ("uploadId", upload)])
    request.body = Array(bytes[start..<min(start + MultipartSupport.part, bytes.count)])
    var left = 3
    while true {
      do throws(StoreError) {
        let answer = try await connection.send(request)
        try check(answer, key)
        guard let tag = answer.headers["etag"] else {
          throw .unavailable(
            "\(connection.place) returned no ETag for a part of a multipart upload")
        }
        return .success(tag)
      } catch {
        left -= 1
        guard left > 0, let pause = error.pauseBeforeRetry else { return .failure(error) }
        try? await Task.sleep(for: pause + .milliseconds(Int.random(in: 100...600)))
      }
    }
  }

  static func randomName() -> String {
    Hex.encode((0..<16).map { _ in UInt8.random(in: 0...255) })
  }
}
