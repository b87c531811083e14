internal import AsyncHTTPClient

/// The proxy that the environment names for an endpoint, by curl's rules: `https_proxy` or `http_proxy` by
/// the endpoint's scheme, else `all_proxy`; not for the hosts in `no_proxy`. Small letters go before
/// capitals. It is asked with CONNECT, or by SOCKS 5 where its scheme is socks5 or socks5h.
enum ProxySettings {
  static func proxy(for endpoint: S3Endpoint, _ environment: [String: String])
    -> HTTPClient.Configuration.Proxy?
  {
    func value(_ name: String) -> String? {
      for name in [name, name.uppercased()] {
        if let value = environment[name], !value.isEmpty { return value }
      }
      return nil
    }
    guard !isExempt(endpoint.host, value("no_proxy") ?? ""),
      let text = value(endpoint.isSecure ? "https_proxy" : "http_proxy") ?? value("all_proxy")
    else { return nil }
    return parse(text)
  }

  static func parse(_ text: String) -> HTTPClient.Configuration.Proxy? {
    var rest = text[...]
    var scheme = "http"
    if let found = text.firstRange(of: "://") {
      scheme = text[..<found.lowerBound].lowercased()
      rest = text[found.upperBound...]
    }
    rest = rest.prefix { $0 != "/" }
    var user: String?
    if let at = rest.lastIndex(of: "@") {
      user = String(rest[..<at])
      rest = rest[rest.index(after: at)...]
    }
    guard let place = S3Endpoint("http://\(rest)") else { return nil }
    let host = place.host.hasPrefix("[") ? String(place.host.dropFirst().dropLast()) : place.host
    switch scheme {
    case "socks5", "socks5h", "socks": return .socksServer(host: host, port: place.port ?? 1080)
    case "http":
      let port = rest.hasSuffix(":80") ? 80 : place.port ?? 1080
      guard let user else { return .server(host: host, port: port) }
      let parts = user.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        .map(String.init)
      return .server(
        host: host, port: port,
        authorization: .basic(username: parts[0], password: parts.count > 1 ? parts[1] : ""))
    default: return nil
    }
  }

  /// An element of `no_proxy` is a host, or the end of one, `*` is all.
  static func isExempt(_ host: String, _ list: String) -> Bool {
    let host = host.lowercased()
    return list.split(whereSeparator: { $0 == "," || $0 == " " }).contains { item in
      var name = item.lowercased()[...]
      if name == "*" { return true }
      if name.hasPrefix(".") { name = name.dropFirst() }
      return host == name || host.hasSuffix(".\(name)")
    }
  }
}
