internal import AsyncHTTPClient
internal import Backend
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL
internal import Platform

/// What a store answered.
struct S3Answer: Sendable {
  var status: Int
  var headers: HTTPHeaders
  var body: [UInt8]
}

/// One request, by the key it is about.
struct S3Request: Sendable {
  var method: HTTPMethod
  /// Nil: about the bucket.
  var key: String?
  var query: [(name: String, value: String)] = []
  var headers: [(name: String, value: String)] = []
  var body: [UInt8] = []
  /// Of the answer's bytes; more is no answer.
  var limit = 1 << 20
}

/// Signed requests to one bucket, over connections that are kept and used again.
///
/// Safe from any task. A request fails after 30 s without a byte, and when its bytes come too
/// slowly (`AnswerDeadline`): neither a half-open connection nor a trickling one holds up its
/// caller for hours.
final class S3Connection: Sendable {
  let address: S3Address
  private let client: HTTPClient
  private let metadata: HTTPClient
  private let credentials: CredentialChain
  private let endpoint: S3Endpoint

  private let patience: Duration
  private static let connections = 32
  /// An answer that is none of what was asked for.
  private static let failureLimit = 1 << 20
  /// The most that one call reads of a connection: each piece goes from thread to thread. A
  /// connection keeps a few buffers of that size.
  private static let largestRead = 256 << 10
  /// Room for an answer that is made at once.
  private static let reservation = 16 << 20

  /// `patience`: how long no byte may come.
  init(
    _ address: S3Address, environment: [String: String], patience: Duration = .seconds(30)
  ) throws(StoreError) {
    self.address = address
    self.patience = patience
    endpoint = address.base
    var tls = TLSConfiguration.makeClientConfiguration()
    if let file = address.authorities {
      do {
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(file))
      } catch {
        throw .invalid("the certificates in \(file) cannot be read: \(error)")
      }
    }
    let idle = TimeAmount.nanoseconds(patience.inNanoseconds)
    var configuration = HTTPClient.Configuration(
      tlsConfiguration: tls, redirectConfiguration: .disallow,
      timeout: .init(connect: .seconds(10), read: idle, write: idle),
      proxy: ProxySettings.proxy(for: endpoint, environment))
    configuration.httpVersion = .http1Only
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Self.connections
    // Who asks again is `RetryingStore`, which knows when to stop.
    configuration.connectionPool.retryConnectionEstablishment = false
    configuration.http1_1ConnectionDebugInitializer = { channel in
      channel.setOption(
        .recvAllocator,
        value: AdaptiveRecvByteBufferAllocator(
          minimum: 1 << 10, initial: 16 << 10, maximum: Self.largestRead))
    }
    client = HTTPClient(
      eventLoopGroupProvider: .shared(HTTPClient.defaultEventLoopGroup),
      configuration: configuration)
    metadata = HTTPClient(eventLoopGroupProvider: .shared(HTTPClient.defaultEventLoopGroup))
    credentials = CredentialChain(
      environment: environment,
      client: MetadataClient(environment: environment, client: metadata))
  }

  deinit {
    let clients = [client, metadata]
    Task.detached { for client in clients { try? await client.shutdown() } }
  }

  /// What the store answered, whatever it is; fails where it did not answer whole.
  func send(_ request: S3Request) async throws(StoreError) -> S3Answer {
    let answer = try await sendOnce(request)
    guard answer.status == 403 || answer.status == 400,
      let code = S3Failure(answer)?.code, S3Failure.hasOldKeys(code)
    else { return answer }
    // Temporary keys ended earlier than was said.
    credentials.forget()
    return try await sendOnce(request)
  }

  private func sendOnce(_ request: S3Request) async throws(StoreError) -> S3Answer {
    let signed = try await sign(request)
    var deadline = AnswerDeadline(
      began: monotonicNanoseconds(), patience: patience, sent: request.body.count)
    do {
      // The client's own limit is over when the head has come.
      let response = try await client.execute(
        signed, timeout: .nanoseconds(deadline.forHead.inNanoseconds))
      let length = response.headers.first(name: "content-length").map { Int($0) ?? -1 }
      let isAnswer = (200..<300).contains(response.status.code)
      let limit = isAnswer ? max(request.limit, 1 << 16) : Self.failureLimit
      deadline.mostBytes = min(max(0, length ?? limit), limit)
      let body = try await collect(response.body, length: length, before: deadline, limit: limit)
      if request.method != .HEAD, let length, length != body.count {
        throw StoreError.unavailable("\(place) answered with less than it said")
      }
      return S3Answer(
        status: Int(response.status.code), headers: response.headers, body: body)
    } catch let error as StoreError {
      throw error
    } catch {
      throw failure(error)
    }
  }

  /// Megabytes, so each is copied once. Little is reserved on the word of the store alone.
  private func collect(
    _ body: HTTPClientResponse.Body, length: Int?, before deadline: AnswerDeadline, limit: Int
  ) async throws -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(max(0, min(length ?? 0, limit, Self.reservation)))
    for try await part in body {
      guard deadline.allows(received: bytes.count, at: monotonicNanoseconds()) else {
        throw StoreError.unavailable("\(place) answers too slowly")
      }
      guard bytes.count + part.readableBytes <= limit else {
        throw NIOTooManyBytesError(maxBytes: limit)
      }
      part.withUnsafeReadableBytes { bytes.append(contentsOf: $0) }
    }
    return bytes
  }

  private func sign(_ request: S3Request) async throws(StoreError) -> HTTPClientRequest {
    let keys = try await credentials.keys()
    let time = S3Time.text(SystemClock().nanoseconds() / 1_000_000_000)
    let payload = Signature.hash(request.body)
    var path = endpoint.path
    if let key = request.key {
      path += "/" + (address.prefix.isEmpty ? key : "\(address.prefix)/\(key)")
    } else {
      path += "/"
    }
    var parts = SignedParts(
      method: request.method.rawValue, path: Signature.encode(path, keepsSlash: true),
      query: request.query,
      headers: request.headers + [
        ("host", endpoint.authority), ("x-amz-content-sha256", payload), ("x-amz-date", time),
      ])
    if let token = keys.token { parts.headers.append(("x-amz-security-token", token)) }
    let authorization = Signature(region: address.region).authorization(
      for: parts, payload: payload, time: time, keys: keys)
    let query = parts.queryText
    var result = HTTPClientRequest(
      url: endpoint.origin + parts.path + (query.isEmpty ? "" : "?\(query)"))
    result.method = request.method
    for header in parts.headers { result.headers.add(name: header.name, value: header.value) }
    result.headers.add(name: "authorization", value: authorization)
    result.headers.add(name: "user-agent", value: "ubiquityfs")
    if request.method == .PUT || request.method == .POST {
      result.body = .bytes(ByteBuffer(bytes: request.body))
    }
    return result
  }

  /// For people.
  var place: String { "\(address.bucket) at \(endpoint.authority)" }

  private func failure(_ error: any Error) -> StoreError {
    if error is CancellationError || Task.isCancelled { return .cancelled }
    if let error = error as? HTTPClientError {
      switch error {
      case .cancelled: return .cancelled
      case .connectTimeout, .readTimeout, .writeTimeout, .deadlineExceeded,
        .getConnectionFromPoolTimeout, .tlsHandshakeTimeout, .httpProxyHandshakeTimeout:
        return .unavailable(
          "\(place) does not answer (\(error.shortDescription)); it is tried again later")
      default: return .unavailable("the connection to \(place) failed: \(error.shortDescription)")
      }
    }
    if error is NIOTooManyBytesError {
      return .invalid("\(place) answered with more than was asked for")
    }
    if error is NIOSSLError || error is NIOSSLExtraError || error is BoringSSLError {
      let isUntrusted = "\(error)".contains("CERTIFICATE_VERIFY_FAILED")
      let why =
        isUntrusted ? "its certificate is of no authority that this machine trusts" : "\(error)"
      return .unavailable(
        "no secure connection to \(place): \(why); if the authority is your own, sign in with ca=FILE in the URL"
      )
    }
    return .unavailable("\(place) cannot be reached: \(error); check the network and the endpoint")
  }
}
