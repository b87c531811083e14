internal import Backend
internal import FoundationEssentials
internal import HTTPTransport
internal import Platform
internal import SystemPackage

/// Keys that a container's host or the machine gives out.
///
/// Sources: "Container credential provider", AWS SDKs and Tools Reference Guide; "Use the Instance
/// Metadata Service", version 2 only, Amazon EC2 User Guide.
struct MetadataClient: Sendable {
  let environment: [String: String]
  /// Uses no proxy.
  let client: HTTPClient

  private static let limit = 65_536
  private static let container = "http://169.254.170.2"

  /// What both answer with.
  private struct Answer: Decodable {
    var identifier: String
    var secret: String
    var token: String?
    var expires: String?

    enum CodingKeys: String, CodingKey {
      case identifier = "AccessKeyId"
      case secret = "SecretAccessKey"
      case token = "Token"
      case expires = "Expiration"
    }
  }

  /// Nil outside a container that gives any.
  func containerKeys() async throws(StoreError) -> FoundKeys? {
    let url: String
    if let path = environment["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"], path.hasPrefix("/") {
      url = Self.container + path
    } else if let full = environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"], !full.isEmpty {
      // In the clear only to the machine itself: the answer is keys.
      guard let place = S3Endpoint(full),
        place.isSecure
          || ["127.0.0.1", "[::1]", "localhost", "169.254.170.23", "169.254.170.2"]
            .contains(place.host)
      else {
        throw .notPermitted(
          "AWS_CONTAINER_CREDENTIALS_FULL_URI neither uses https:// nor names this machine")
      }
      url = full
    } else {
      return nil
    }
    var headers = HTTPHeaders()
    if let token = authorization { headers.append("authorization", token) }
    let bytes = try await get(url, headers)
    return try Self.parse(bytes, source: url)
  }

  private var authorization: String? {
    if let file = environment["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"],
      let bytes = try? Files.read(file)
    {
      return String(decoding: bytes.prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
    }
    return environment["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
  }

  /// Nil on a machine that has none to give. It is asked quickly: elsewhere nobody answers.
  /// `gaveKeys`: it did before, so that no answer is a failure that passes.
  func machineKeys(gaveKeys: Bool) async throws(StoreError) -> FoundKeys? {
    if environment["AWS_EC2_METADATA_DISABLED"]?.lowercased() == "true" { return nil }
    let base = environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] ?? "http://169.254.169.254"
    let roles = "\(base)/latest/meta-data/iam/security-credentials/"
    do throws(StoreError) {
      let token = try await get(
        "\(base)/latest/api/token", ["x-aws-ec2-metadata-token-ttl-seconds": "21600"],
        method: .put, seconds: 1)
      let headers: HTTPHeaders = [
        "x-aws-ec2-metadata-token": String(decoding: token, as: UTF8.self)
      ]
      let names = String(decoding: try await get(roles, headers), as: UTF8.self)
      guard let role = names.split(whereSeparator: \.isNewline).first else { return nil }
      return try Self.parse(
        try await get(roles + role, headers), source: "the machine's role \"\(role)\"")
    } catch {
      switch error {
      case .unavailable where gaveKeys: throw error
      case .unavailable, .notFound, .notPermitted: return nil
      default: throw error
      }
    }
  }

  private func get(
    _ url: String, _ headers: HTTPHeaders, method: HTTPMethod = .get, seconds: Int64 = 5
  ) async throws(StoreError) -> [UInt8] {
    var request = HTTPRequest(method: method, url: url, headers: headers)
    request.timeout = .seconds(seconds)
    request.limit = Self.limit
    let response: HTTPResponse
    do throws(HTTPFailure) {
      response = try await client.send(request)
    } catch {
      throw Task.isCancelled ? .cancelled : .unavailable("\"\(url)\" gives no keys: \(error)")
    }
    switch response.status {
    case 200: return response.body
    case 429, 500...:
      throw .unavailable("\"\(url)\" gives no keys now: it answered \(response.status)")
    default: throw .notPermitted("\"\(url)\" gives no keys: it answered \(response.status)")
    }
  }

  static func parse(_ bytes: [UInt8], source: String) throws(StoreError) -> FoundKeys {
    guard let answer = try? BoundedJSON.decode(Answer.self, from: bytes) else {
      throw .unavailable("the answer of \(source) has no access keys")
    }
    return FoundKeys(
      keys: S3Keys(
        identifier: answer.identifier, secret: answer.secret, token: answer.token),
      expires: answer.expires.flatMap(S3Time.seconds))
  }
}
