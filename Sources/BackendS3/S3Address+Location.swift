package import Backend

extension S3Address: BackendLocation {
  package static let scheme = "s3"
  package static let form = "s3://BUCKET/PREFIX?endpoint=URL"

  package static var variables: BackendVariables {
    let single = [
      "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
      "AWS_CA_BUNDLE", "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    ]
    return BackendVariables([accessKeys, proxies] + single.map { BackendVariables.Group($0) })
  }

  /// Every variable that names a source of access keys.
  private static let accessKeys = BackendVariables.Group([
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
  ]) { given in
    func has(_ name: String) -> Bool { given[name]?.isEmpty == false }
    return has("AWS_ACCESS_KEY_ID") && has("AWS_SECRET_ACCESS_KEY")
      || [
        "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
      ].contains(where: has)
  }

  private static let proxyNames = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"]
  private static let proxies: BackendVariables.Group = {
    let names = Set(proxyNames + proxyNames.map { $0.uppercased() })
    return BackendVariables.Group(names) { given in given.keys.contains(where: names.contains) }
  }()

  package init(url: String, environment: [String: String]) throws(StoreError) {
    try self.init(url, environment: environment)
  }

  package var warning: String? {
    guard base.isExposed else { return nil }
    return
      "the connection to \"\(base.authority)\" is not encrypted: others on the network can see "
      + "when and how much you store, and can delete or withhold objects. Your files and their "
      + "names stay encrypted. Use an endpoint with https://"
  }

  /// A bucket sends no notifications.
  package var looksForNews: Bool { true }

  package func open(_ environment: [String: String]) throws(StoreError) -> any ObjectStore {
    try S3Store(self, environment: environment)
  }

  package func make(_ environment: [String: String]) async throws(StoreError) -> any ObjectStore {
    let store = try S3Store(self, environment: environment)
    try await store.checkConditions()
    return store
  }
}
