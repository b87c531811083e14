import Backend
import BackendS3
import TestWaiting
import Testing

/// What stores, and what stands between, may answer.
@Suite struct S3AnswerTests {
  private func store(_ server: CannedServer, _ more: [String: String] = [:]) throws -> S3Store {
    let environment = [
      "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "no_proxy": "*",
    ]
    return try S3Store(
      S3Address("s3://bucket/prefix?endpoint=http://127.0.0.1:\(server.port)"),
      environment: environment.merging(more) { $1 })
  }

  private func failure(
    _ answers: [String], _ call: (S3Store) async throws -> Void
  ) async throws -> StoreError? {
    let server = CannedServer(answers)
    let store = try store(server)
    do { try await call(store) } catch let error as StoreError { return error }
    return nil
  }

  private func isUnavailable(_ error: StoreError?) -> Bool {
    if case .unavailable = error { true } else { false }
  }

  private func isInvalid(_ error: StoreError?) -> Bool {
    if case .invalid = error { true } else { false }
  }

  private static func page(_ keys: some Sequence<String>) -> String {
    let contents = keys.map { "<Contents><Key>prefix/\($0)</Key><Size>1</Size></Contents>" }
    return CannedServer.answer(
      200,
      "<ListBucketResult><IsTruncated>true</IsTruncated>\(contents.joined())</ListBucketResult>")
  }

  @Test("a list without an end, or with longer pages than were asked for, is given up")
  func endlessLists() async throws {
    let long = Self.page((10_000...11_001).map { "key\($0)" })
    #expect(
      isInvalid(
        try await failure([long]) { _ = try await $0.list(prefix: "", after: nil, limit: 5000) }))
    // No key of ours has a space.
    let pages = (10_000...11_100).map { Self.page(["foreign \($0)"]) }
    #expect(
      isInvalid(
        try await failure(pages) { _ = try await $0.list(prefix: "", after: nil, limit: 5000) }))
  }

  @Test func aRequestIsSignedAndOfItsKey() async throws {
    let server = CannedServer([CannedServer.answer(200, "hello")])
    #expect(try await store(server).get("a/b") == Array("hello".utf8))
    let head = try #require(server.requests.first)
    #expect(head.hasPrefix("GET /bucket/prefix/a/b HTTP/1.1"))
    #expect(head.lowercased().contains("authorization: aws4-hmac-sha256 credential=key/"))
    #expect(head.lowercased().contains("x-amz-content-sha256: e3b0c442"))
  }

  @Test func temporaryKeysBringTheirToken() async throws {
    let server = CannedServer([CannedServer.answer(200, "")])
    _ = try await store(server, ["AWS_SESSION_TOKEN": "the-token"]).get("a")
    let head = try #require(server.requests.first)
    #expect(head.contains("the-token") && head.contains("x-amz-security-token"))
  }

  @Test func connectionsAreUsedAgain() async throws {
    let server = CannedServer([CannedServer.answer(200, "x")])
    let store = try store(server)
    for _ in 0..<5 { _ = try await store.get("a") }
    #expect(server.requests.count == 5 && server.connections == 1)
  }

  @Test func whatIsCutShortIsNoAnswer() async throws {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nonly this"
    #expect(isUnavailable(try await failure([cut]) { _ = try await $0.get("a") }))
    let none = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
    #expect(isUnavailable(try await failure([none]) { _ = try await $0.get("a") }))
    let garbage = "220 mail.example.org ESMTP\r\nConnection: close\r\n\r\n"
    #expect(isUnavailable(try await failure([garbage]) { _ = try await $0.get("a") }))
  }

  @Test("an answer that trickles in fails long before it is whole")
  func trickle() async throws {
    // At 50 KB/s and with the length that it announces it would be granted five minutes.
    let body = String(repeating: "x", count: 16_000_000)
    let server = CannedServer([CannedServer.answer(200, body)], pause: 5_000)
    let store = try S3Store(
      S3Address("s3://bucket?endpoint=http://127.0.0.1:\(server.port)"),
      environment: [
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "no_proxy": "*",
      ], patience: .milliseconds(500))
    for range in [nil, 0..<UInt64(16_000_000)] as [Range<UInt64>?] {
      let start = ContinuousClock.now
      var failure: StoreError?
      do throws(StoreError) { _ = try await store.get("a", range: range) } catch {
        failure = error
      }
      #expect(isUnavailable(failure), "\(String(describing: failure))")
      #expect(ContinuousClock.now - start < .seconds(120))
    }
  }

  @Test func anotherRangeIsNoAnswer() async throws {
    for range in ["bytes 0-3/100", "bytes 4-8/100", "bytes 4-5/100", "nonsense"] {
      let answer = CannedServer.answer(206, "abcd", headers: ["Content-Range: \(range)"])
      let error = try await failure([answer]) { _ = try await $0.get("a", range: 4..<8) }
      #expect(isUnavailable(error), "\(range)")
    }
    let right = CannedServer.answer(206, "abcd", headers: ["Content-Range: bytes 4-7/100"])
    #expect(try await failure([right]) { _ = try await $0.get("a", range: 4..<8) } == nil)
    // The object ends before the range does.
    let end = CannedServer.answer(206, "abcd", headers: ["Content-Range: bytes 4-7/8"])
    #expect(try await failure([end]) { _ = try await $0.get("a", range: 4..<100) } == nil)
  }

  @Test func aStoreWithoutRangesIsReadAllTheSame() async throws {
    let server = CannedServer([CannedServer.answer(200, "0123456789")])
    let store = try store(server)
    #expect(try await store.get("a", range: 0..<100) == Array("0123456789".utf8))
  }

  @Test func aPageForPeopleIsNoList() async throws {
    for page in ["<!DOCTYPE html><html>Sign in</html>", "<html></html>", "", "{}"] {
      let error = try await failure([CannedServer.answer(200, page)]) {
        _ = try await $0.list(prefix: "", after: nil, limit: 10)
      }
      #expect(isInvalid(error), "\(page)")
    }
  }

  private func list(_ keys: [String], truncated: Bool = false) -> String {
    let contents = keys.map { "<Contents><Key>\($0)</Key></Contents>" }.joined()
    return CannedServer.answer(
      200,
      "<ListBucketResult><IsTruncated>\(truncated)</IsTruncated>\(contents)</ListBucketResult>")
  }

  @Test func listsThatAreNoneOfOursAreRefused() async throws {
    for keys in [["other/a"], ["prefix/b", "prefix/a"], ["prefix/a", "prefix/a"]] {
      let error = try await failure([list(keys)]) {
        _ = try await $0.list(prefix: "", after: nil, limit: 10)
      }
      #expect(isInvalid(error), "\(keys)")
    }
    let server = CannedServer([
      list(["prefix/a"], truncated: true), list(["prefix/b", "prefix/b c"]),
    ])
    #expect(try await store(server).list(prefix: "", after: nil, limit: 10) == ["a", "b"])
    #expect(server.requests.last?.contains("start-after=prefix%2Fa") == true)
  }

  @Test("stored names include those that are no keys")
  func storedNames() async throws {
    let below = CannedServer([list(["prefix/names/", "prefix/names/a", "prefix/names/b c"])])
    #expect(
      try await store(below).storedNames(prefix: "names/", after: nil, limit: 10)
        == ["names/", "names/a", "names/b c"])
    // Some programs put an object with the name of the prefix.
    let first = CannedServer.answer(
      200,
      "<ListBucketResult><IsTruncated>true</IsTruncated><Prefix>prefix/</Prefix>"
        + "<NextContinuationToken>t/1</NextContinuationToken>"
        + "<Contents><Key>prefix/</Key></Contents><Contents><Key>prefix/~x</Key></Contents>"
        + "<CommonPrefixes><Prefix>prefix/names/</Prefix></CommonPrefixes></ListBucketResult>")
    let top = CannedServer([first, list(["prefix/format"])])
    #expect(
      try await store(top).storedNames(prefix: "", after: nil, limit: 10)
        == ["format", "names/", "~x"])
    #expect(top.requests.count == 2)
    #expect(top.requests.first?.contains("delimiter=%2F") == true)
    #expect(top.requests.last?.contains("continuation-token=t%2F1") == true)
  }

  /// As a store gives them that has many removed names to pass over.
  @Test func listsGoOnAfterEmptyPages() async throws {
    let empty = CannedServer.answer(
      200,
      "<ListBucketResult><IsTruncated>true</IsTruncated>"
        + "<NextContinuationToken>t/1</NextContinuationToken></ListBucketResult>")
    let server = CannedServer([empty, empty, list(["prefix/a", "prefix/b"])])
    #expect(try await store(server).list(prefix: "", after: nil, limit: 1) == ["a"])
    #expect(server.requests.last?.contains("continuation-token=t%2F1") == true)
    // One that has no end is no list.
    let endless = CannedServer([empty])
    let store = try store(endless)
    await #expect(throws: StoreError.self) {
      _ = try await store.list(prefix: "", after: nil, limit: 10)
    }
  }

  @Test func redirectsAreNotFollowed() async throws {
    let server = CannedServer([
      CannedServer.answer(
        307, "", headers: ["Location: http://127.0.0.1:1/", "x-amz-bucket-region: eu-9"])
    ])
    let store = try store(server)
    await #expect(throws: StoreError.self) { try await store.get("a") }
    #expect(server.requests.count == 1)
  }

  /// Of those that lose nobody says that it won; a store that lets all win is refused.
  @Test func aStoreThatForgetsConditionsIsRefused() async throws {
    let server = CannedServer([CannedServer.answer(200, "\0")])
    let store = try store(server)
    do throws(StoreError) {
      try await store.checkConditions()
      Issue.record("it was taken")
    } catch {
      #expect(isInvalid(error) && error.description.contains("conditional"))
    }
  }

  @Test func oldKeysAreLookedForOnceMore() async throws {
    let old = CannedServer.answer(400, "<Error><Code>ExpiredToken</Code></Error>")
    let server = CannedServer([old, CannedServer.answer(200, "x")])
    #expect(try await store(server).get("a") == Array("x".utf8))
    let gone = CannedServer([old])
    await #expect(throws: StoreError.self) { try await store(gone).get("a") }
    #expect(gone.requests.count == 2)
  }

  @Test func aServerThatIsNotThereIsUnavailable() async throws {
    let port = CannedServer([""]).port
    let store = try S3Store(
      S3Address("s3://bucket?endpoint=http://127.0.0.1:\(port)"),
      environment: ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "no_proxy": "*"])
    do throws(StoreError) {
      _ = try await store.get("a")
      Issue.record("something answered")
    } catch {
      #expect(isUnavailable(error))
    }
  }

  @Test func aCallEndsWithItsTask() async throws {
    let server = CannedServer([""])
    let store = try store(server)
    let call = Task { () -> StoreError? in
      do throws(StoreError) { _ = try await store.get("a") } catch { return error }
      return nil
    }
    try await eventually("the server has a request") { !server.requests.isEmpty }
    call.cancel()
    #expect(await call.value == .cancelled)
  }
}
