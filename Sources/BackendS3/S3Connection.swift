internal import Backend
internal import HTTPTransport
internal import Platform

typealias S3Answer = HTTPResponse

struct S3Request: Sendable {
  var method: HTTPMethod
  /// Nil: the request is about the bucket.
  var key: String?
  var query: [(name: String, value: String)] = []
  var headers: [(name: String, value: String)] = []
  var body: [UInt8] = []
  /// The maximum size of the answer's body.
  var limit = 1 << 20
}

/// Sends signed requests to one bucket.
///
/// Safe from any task. A request fails after 30 s without a byte, and when its bytes come too
/// slowly: neither a half-open connection nor a trickling one delays its caller for hours.
final class S3Connection: Sendable {
  let address: S3Address
  private let client: HTTPClient
  private let credentials: CredentialChain
  private let endpoint: S3Endpoint

  /// `patience`: the maximum time without a byte. Throws `.invalid` for a file of certificates that
  /// cannot be read.
  init(
    _ address: S3Address, environment: [String: String], patience: Duration = .seconds(30)
  ) throws(StoreError) {
    self.address = address
    endpoint = address.base
    var configuration = HTTPClient.Configuration()
    configuration.patience = patience
    ProxySettings(for: endpoint, environment).apply(to: &configuration)
    if let file = address.authorities {
      try Self.checkCertificates(file)
      configuration.authorities = file
    }
    client = HTTPClient(configuration)
    credentials = CredentialChain(
      environment: environment,
      client: MetadataClient(environment: environment, client: HTTPClient()))
  }

  private static func checkCertificates(_ file: String) throws(StoreError) {
    do {
      let text = String(decoding: try Files.read(file), as: UTF8.self)
      guard text.contains("-----BEGIN ") else {
        throw StoreError.invalid("\"\(file)\" has no certificate in PEM format")
      }
    } catch let error as StoreError {
      throw error
    } catch {
      throw .invalid("cannot read the certificates in \"\(file)\": \(error)")
    }
  }

  /// Returns any complete answer, whatever its status.
  func send(_ request: S3Request) async throws(StoreError) -> S3Answer {
    let answer = try await sendOnce(request)
    guard answer.status == 403 || answer.status == 400,
      let code = S3Failure(answer)?.code, S3Failure.hasOldKeys(code)
    else { return answer }
    // Temporary keys ended earlier than announced.
    credentials.forget()
    return try await sendOnce(request)
  }

  private func sendOnce(_ request: S3Request) async throws(StoreError) -> S3Answer {
    let signed = try await sign(request)
    do throws(HTTPFailure) {
      return try await client.send(signed)
    } catch {
      throw Task.isCancelled ? .cancelled : storeError(error)
    }
  }

  private func sign(_ request: S3Request) async throws(StoreError) -> HTTPRequest {
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
    var result = HTTPRequest(
      method: request.method,
      url: endpoint.origin + parts.path + (query.isEmpty ? "" : "?\(query)"))
    for header in parts.headers { result.headers.append(header.name, header.value) }
    result.headers.append("authorization", authorization)
    result.headers.append("user-agent", "ubiquityfs")
    result.body = request.body
    result.limit = max(request.limit, 1 << 16)
    return result
  }

  /// The name of the bucket in messages.
  var place: String { "the bucket \"\(address.bucket)\" at \"\(endpoint.authority)\"" }

  private func storeError(_ failure: HTTPFailure) -> StoreError {
    switch failure {
    case .cancelled: .cancelled
    case .timedOut(let text):
      .unavailable("\(place) does not answer (\(text)); the request is retried later")
    case .tooSlow: .unavailable("\(place) answers too slowly; the request is retried later")
    case .tooLong: .invalid("\(place) returned more than requested; check the endpoint")
    case .cutShort:
      .unavailable("\(place) closed the connection before its answer was complete")
    case .unknownAuthority(let text):
      .unavailable(
        "cannot reach \(place): its TLS certificate is not trusted (\(text)). If the authority is "
          + "your own, sign in again with ca=FILE in the URL")
    case .insecure(let text): .unavailable("cannot connect securely to \(place): \(text)")
    case .unreadableAuthorities(let text):
      .unavailable(
        "cannot read the trusted certificates (\(text)); install ca-certificates, or sign in again "
          + "with ca=FILE in the URL")
    case .unreachable(let text):
      .unavailable("cannot reach \(place): \(text); check the network and the endpoint")
    case .connectionFailed(let text): .unavailable("the connection to \(place) failed: \(text)")
    case .impossible(let text): .invalid("cannot send a request to \(place): \(text)")
    }
  }
}
