import Backend
import BackendS3
import HTTPTransport
import Platform
import Subprocess
import TestWaiting
import Testing

@Suite struct HTTPClientTests {
  private func client(_ change: (inout HTTPClient.Configuration) -> Void = { _ in }) -> HTTPClient {
    var configuration = HTTPClient.Configuration()
    change(&configuration)
    return HTTPClient(configuration)
  }

  private func request(_ server: CannedServer, _ body: [UInt8]? = nil) -> HTTPRequest {
    var request = HTTPRequest(
      method: body == nil ? .get : .put, url: "http://127.0.0.1:\(server.port)/a/./b%20c")
    request.body = body ?? []
    return request
  }

  @Test("a request has its path, its fields and its body as given, and asks for no interim answer")
  func requests() async throws {
    let server = CannedServer([CannedServer.answer(200, "ok", headers: ["X-One:  two "])])
    var put = request(server, [UInt8](repeating: 7, count: 3_000_000))
    put.headers = ["x-empty": "", "X-Full": "value"]
    let response = try await client().send(put)
    #expect(response.status == 200 && response.body == Array("ok".utf8))
    #expect(response.headers["x-one"] == "two" && response.headers["missing"] == nil)
    let head = try #require(server.requests.first)
    #expect(head.hasPrefix("PUT /a/./b%20c HTTP/1.1"))
    #expect(head.contains("X-Full: value") && head.contains("x-empty:"))
    #expect(head.contains("Content-Length: 3000000"))
    #expect(!head.lowercased().contains("expect:") && !head.lowercased().contains("content-type"))
  }

  @Test("an interim answer is not the answer")
  func interimAnswers() async throws {
    let interim = "HTTP/1.1 103 Early Hints\r\nX-One: early\r\n\r\n"
    let server = CannedServer([interim + CannedServer.answer(200, "ok", headers: ["X-One: late"])])
    let response = try await client().send(request(server))
    #expect(response.status == 200 && response.headers["x-one"] == "late")
  }

  @Test("more requests than connections wait for their turn, and all are answered")
  func manyRequests() async throws {
    let server = CannedServer([CannedServer.answer(200, "ok")])
    let client = client { $0.connections = 3 }
    let answered = try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<40 { group.addTask { try await client.send(request(server)).status } }
      return try await group.reduce(0) { $1 == 200 ? $0 + 1 : $0 }
    }
    #expect(answered == 40 && server.connections <= 3)
  }

  @Test("a cancelled request ends while it runs and while it waits for its turn")
  func cancellation() async throws {
    let server = CannedServer([""])
    let client = client { $0.connections = 1 }
    let tasks = (0..<2).map { _ in
      Task { () -> HTTPFailure? in
        do throws(HTTPFailure) { _ = try await client.send(request(server)) } catch { return error }
        return nil
      }
    }
    try await eventually("the server has a request") { !server.requests.isEmpty }
    for task in tasks { task.cancel() }
    for task in tasks { #expect(await task.value == .cancelled) }
  }

  @Test(
    "bodies and heads beyond their limits fail",
    arguments: [
      CannedServer.answer(200, String(repeating: "x", count: 5000)),
      CannedServer.answer(200, "", headers: ["X: " + String(repeating: "y", count: 70_000)]),
      CannedServer.answer(500, String(repeating: "z", count: 5000)),
    ])
  func limits(_ answer: String) async throws {
    let server = CannedServer([answer])
    var get = request(server)
    (get.limit, get.failureLimit) = (4999, 4999)
    await #expect(throws: HTTPFailure.tooLong) { try await client().send(get) }
  }

  @Test("a timeout, a header with a line feed and an unknown proxy scheme fail")
  func refusals() async throws {
    let server = CannedServer([""])
    var get = request(server)
    get.timeout = .milliseconds(50)
    await #expect { try await client().send(get) } throws: { error in
      if case HTTPFailure.timedOut = error { true } else { false }
    }
    get.headers = ["x": "a\nb"]
    await #expect(throws: HTTPFailure.impossible("the header \"x\" has a control character")) {
      try await client().send(get)
    }
    await #expect(throws: HTTPFailure.self) {
      try await client { $0.proxy = "gopher://127.0.0.1" }.send(request(server))
    }
  }

  @Test("a proxy gets the request, except for the hosts that are excepted")
  func proxies() async throws {
    let proxy = CannedServer([CannedServer.answer(200, "from the proxy")])
    let server = CannedServer([CannedServer.answer(200, "direct")])
    func body(_ url: String) async throws -> String {
      let client = client {
        $0.proxy = "http://me:secret@127.0.0.1:\(proxy.port)"
        $0.proxyExceptions = "localhost,127.0.0.1"
      }
      let response = try await client.send(HTTPRequest(method: .get, url: url))
      return String(decoding: response.body, as: UTF8.self)
    }
    #expect(try await body("http://store.invalid/a") == "from the proxy")
    let head = try #require(proxy.requests.first)
    #expect(head.hasPrefix("GET http://store.invalid/a HTTP/1.1"))
    #expect(head.contains("Proxy-Authorization: Basic bWU6c2VjcmV0"))
    #expect(try await body("http://127.0.0.1:\(server.port)/a") == "direct")
  }

  @Test("a certificate is trusted only if the file of authorities has it")
  func certificates() async throws {
    let place = try TemporaryDirectory()
    let (key, certificate) = (place.path + "/key", place.path + "/certificate")
    let made = try await Subprocess.run(
      .name("openssl"),
      arguments: [
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2",
      ], output: .discarded, error: .discarded)
    try #require(made.terminationStatus == .exited(0))
    try await withTLSServer(key, certificate, log: place.path + "/log") { port in
      func store(_ more: String) throws -> S3Store {
        try S3Store(
          S3Address("s3://bucket?endpoint=https://localhost:\(port)\(more)"),
          environment: [
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "no_proxy": "*",
          ])
      }
      // The page that it answers with is no object, but it came through TLS.
      #expect(try await !store("&ca=\(certificate)").get("a", range: nil).isEmpty)
      let untrusting = try store("")
      do throws(StoreError) {
        _ = try await untrusting.get("a", range: nil)
        Issue.record("the certificate was trusted")
      } catch {
        guard case .unavailable(let text) = error else {
          Issue.record("\(error)")
          return
        }
        #expect(text.contains("not trusted") && text.contains("ca=FILE"))
      }
    }
    #expect(throws: StoreError.self) {
      try S3Store(
        S3Address("s3://bucket?endpoint=https://localhost&ca=\(key)x"), environment: [:])
    }
  }

  /// Runs `body` with the port of a server that answers each request with a page. The server ends
  /// with the call.
  private func withTLSServer(
    _ key: String, _ certificate: String, log: String, _ body: (Int) async throws -> Void
  ) async throws {
    let script =
      "exec timeout 60 openssl s_server -accept 0 -www -key '\(key)' -cert '\(certificate)' >'\(log)'"
    let server = Task {
      _ = try await Subprocess.run(
        .path("/bin/sh"), arguments: ["-c", script], output: .discarded, error: .discarded)
    }
    defer { server.cancel() }
    var port: Int?
    try await eventually("openssl s_server says its port") {
      let text = (try? Files.read(log)).map { String(decoding: $0, as: UTF8.self) } ?? ""
      // `ACCEPT [::]:37209`
      let line = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("ACCEPT") }
      port = line?.split(separator: ":").last.flatMap { Int($0) }
      return port != nil
    }
    try await body(try #require(port))
  }
}
