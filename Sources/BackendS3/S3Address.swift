package import Backend

/// A bucket, what stands before all keys in it, and how it is reached:
/// `s3://BUCKET/PREFIX?endpoint=URL&region=R&style=path|virtual&ca=FILE`.
///
/// Without `endpoint` it is Amazon's of the region; without `region` the environment's, else
/// `us-east-1`, which is what other stores take for their own. `style` is where the bucket's name
/// stands: in the path, as every store of one's own has it, or in the host's name, as Amazon wants
/// it.
package struct S3Address: Equatable, Sendable, CustomStringConvertible {
  package enum Style: String, Sendable { case path, virtual }

  package var bucket: String
  /// Without slashes at its ends; empty for none.
  package var prefix: String
  package var region: String
  /// As given; nil for Amazon's.
  package var endpoint: String?
  package var style: Style
  /// A file with certificates, in PEM, that alone are trusted.
  package var authorities: String?
  private var givenStyle: Style?

  /// Throws `.invalid` for what is none.
  package init(_ url: String, environment: [String: String] = [:]) throws(StoreError) {
    func wrong(_ what: String) -> StoreError {
      .invalid(
        "\"\(url)\" \(what); use one like "
          + "\"s3://bucket/prefix?endpoint=https://s3.example.org&region=eu-1\"")
    }
    let scheme = "s3://"
    guard url.lowercased().hasPrefix(scheme) else { throw wrong("is not the URL of a bucket") }
    let parts = url.dropFirst(scheme.count).split(
      separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    let place = parts[0].split(separator: "/", omittingEmptySubsequences: true).map(String.init)
    guard let bucket = place.first, !parts[0].hasPrefix("/") else {
      throw wrong("does not name a bucket")
    }
    guard (3...63).contains(bucket.utf8.count), bucket.utf8.allSatisfy(Self.isOfBucket) else {
      throw wrong("does not name a bucket: a name has 3 to 63 of a-z, 0-9, \".\" and \"-\"")
    }
    self.bucket = bucket
    prefix = place.dropFirst().joined(separator: "/")
    do throws(StoreError) {
      if !prefix.isEmpty { try StoreKey.check(prefix) }
    } catch {
      throw wrong("has a prefix with other characters than letters, digits, \".\", \"_\" and \"-\"")
    }
    guard prefix.utf8.count <= 100 else { throw wrong("has a prefix of more than 100 bytes") }
    var givenRegion: String?
    for item in parts.count > 1 ? parts[1].split(separator: "&") : [] {
      let pair = item.split(separator: "=", maxSplits: 1).map(String.init)
      guard pair.count == 2, let value = PercentText.decode(pair[1]), !value.isEmpty else {
        throw wrong("has \"\(item)\", which is not of the form NAME=VALUE")
      }
      switch pair[0] {
      case "endpoint": endpoint = value
      case "region": givenRegion = value
      case "style":
        guard let style = Style(rawValue: value) else {
          throw wrong("has a style that is neither \"path\" nor \"virtual\"")
        }
        givenStyle = style
      case "ca":
        guard value.hasPrefix("/") else {
          throw wrong("has a file of certificates that is not an absolute path")
        }
        authorities = value
      default: throw wrong("has unknown \"\(pair[0])\"; known are endpoint, region, style and ca")
      }
    }
    if endpoint == nil {
      endpoint = environment["AWS_ENDPOINT_URL_S3"] ?? environment["AWS_ENDPOINT_URL"]
      if endpoint?.isEmpty == true { endpoint = nil }
    }
    if var given = endpoint {
      while given.hasSuffix("/") { given.removeLast() }
      guard let found = S3Endpoint(given), found.path.isEmpty else {
        throw wrong("has an endpoint that is not http:// or https:// with a host")
      }
      endpoint = given
    }
    let region =
      givenRegion ?? environment["AWS_REGION"] ?? environment["AWS_DEFAULT_REGION"] ?? "us-east-1"
    guard !region.isEmpty, region.utf8.allSatisfy({ Self.isOfBucket($0) }) else {
      throw wrong("has a region that is not a name")
    }
    self.region = region
    style = givenStyle ?? (endpoint == nil && !bucket.contains(".") ? .virtual : .path)
    if authorities == nil, let file = environment["AWS_CA_BUNDLE"], file.hasPrefix("/") {
      authorities = file
    }
  }

  /// All that it takes to come to the same place without the environment.
  package var description: String {
    var items: [String] = []
    if let endpoint { items.append("endpoint=\(Self.escape(endpoint))") }
    items.append("region=\(region)")
    if let givenStyle { items.append("style=\(givenStyle.rawValue)") }
    if let authorities { items.append("ca=\(Self.escape(authorities))") }
    return "s3://\(bucket)\(prefix.isEmpty ? "" : "/\(prefix)")?" + items.joined(separator: "&")
  }

  /// Where requests go.
  package var base: S3Endpoint {
    let known =
      endpoint.flatMap(S3Endpoint.init)
      ?? S3Endpoint(
        "https://s3.\(region).amazonaws.com\(region.hasPrefix("cn-") ? ".cn" : "")")!
    var result = known
    switch style {
    case .path: result.path = "/\(bucket)"
    case .virtual: result.host = "\(bucket).\(known.host)"
    }
    return result
  }

  private static func isOfBucket(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
      UInt8(ascii: "."), UInt8(ascii: "-"):
      true
    default: false
    }
  }

  private static func escape(_ text: String) -> String {
    var result = ""
    for character in text {
      switch character {
      case "%", "&", "=", "?", "#", " ", "+": result += Signature.encode(String(character))
      default: result.append(character)
      }
    }
    return result
  }
}

/// A server: scheme, host and port, and what all paths begin with.
package struct S3Endpoint: Equatable, Sendable {
  package var isSecure: Bool
  package var host: String
  /// Nil for the scheme's own.
  package var port: Int?
  package var path: String

  package init?(_ url: String) {
    let lower = url.lowercased()
    if lower.hasPrefix("https://") {
      isSecure = true
    } else if lower.hasPrefix("http://") {
      isSecure = false
    } else {
      return nil
    }
    let rest = url.dropFirst(isSecure ? 8 : 7)
    let authority = rest.prefix { $0 != "/" }
    path = String(rest.dropFirst(authority.count))
    guard !authority.isEmpty, !authority.contains("@"), !path.contains("?") else { return nil }
    if authority.hasPrefix("[") {
      guard let end = authority.firstIndex(of: "]") else { return nil }
      host = String(authority[...end])
      let after = authority[authority.index(after: end)...]
      guard Self.take(after, &port) else { return nil }
    } else {
      let name = authority.prefix { $0 != ":" }
      host = String(name)
      guard !name.isEmpty, name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
        Self.take(authority.dropFirst(name.count), &port)
      else { return nil }
    }
    if port == (isSecure ? 443 : 80) { port = nil }
  }

  private static func take(_ text: Substring, _ port: inout Int?) -> Bool {
    if text.isEmpty { return true }
    guard text.hasPrefix(":"), let number = Int(text.dropFirst()), (1...65_535).contains(number)
    else { return false }
    port = number
    return true
  }

  package var authority: String { port.map { "\(host):\($0)" } ?? host }
  package var scheme: String { isSecure ? "https" : "http" }
  /// Whether others can read and change what goes there on its way: a network is between, and the
  /// connection is not encrypted.
  package var isExposed: Bool {
    let isLocal =
      host == "localhost" || host.hasSuffix(".localhost") || host == "[::1]"
      || host.hasPrefix("127.") && host.allSatisfy { $0 == "." || $0.isNumber }
    return !isSecure && !isLocal
  }
  /// Without the path.
  package var origin: String { "\(scheme)://\(authority)" }
}
