internal import HTTPTransport

/// The proxy that the environment names for an endpoint, by curl's rules: `https_proxy` or
/// `http_proxy` by the endpoint's scheme, else `all_proxy`, except for hosts in `no_proxy`. Names
/// in lower case go before those in capitals. Source: curl(1), "Environment".
struct ProxySettings: Equatable {
  var proxy: String?
  var exceptions: String

  init(for endpoint: S3Endpoint, _ environment: [String: String]) {
    func value(_ name: String) -> String? {
      for name in [name, name.uppercased()] {
        if let value = environment[name], !value.isEmpty { return value }
      }
      return nil
    }
    proxy = value(endpoint.isSecure ? "https_proxy" : "http_proxy") ?? value("all_proxy")
    exceptions = value("no_proxy") ?? ""
  }

  func apply(to configuration: inout HTTPClient.Configuration) {
    configuration.proxy = proxy
    configuration.proxyExceptions = exceptions
  }
}
