internal import Backend
internal import Glibc
internal import Platform

/// Keys, and until when they can be used.
struct FoundKeys: Sendable {
  var keys: S3Keys
  /// Seconds since 1970; nil for keys that do not end.
  var expires: Int64?
}

/// Finds keys where programs for S3 look for them, in the order of Amazon's own: the environment,
/// the shared files, a container's, the machine's. Keys that end are fetched anew five minutes
/// before.
///
/// Safe from any task; of many that ask at once one goes and looks.
final class CredentialChain: Sendable {
  private struct State {
    var found: FoundKeys?
    /// The machine gave keys before.
    var hasMachineKeys = false
    var search: Task<Result<FoundKeys, StoreError>, Never>?
  }

  private let environment: [String: String]
  private let client: MetadataClient
  private let state = Lock(State())

  /// So long before their end keys are replaced, in seconds.
  static let early: Int64 = 300

  init(environment: [String: String], client: MetadataClient) {
    self.environment = environment
    self.client = client
  }

  func keys() async throws(StoreError) -> S3Keys {
    let now = SystemClock().nanoseconds() / 1_000_000_000
    let search: Task<Result<FoundKeys, StoreError>, Never>? = state.withLock { state in
      if let found = state.found, found.expires.map({ $0 - Self.early > now }) ?? true {
        return nil
      }
      if let running = state.search { return running }
      let task = Task { () -> Result<FoundKeys, StoreError> in
        do throws(StoreError) { return .success(try await self.find()) } catch {
          return .failure(error)
        }
      }
      state.search = task
      return task
    }
    guard let search else {
      if let keys = state.withLock({ $0.found?.keys }) { return keys }
      return try await keys()
    }
    let result = await search.value
    state.withLock { state in
      guard state.search == search else { return }
      state.search = nil
      if case .success(let found) = result { state.found = found }
    }
    switch result {
    case .success(let found): return found.keys
    case .failure(let error):
      // What is left of the old ones may do.
      if let old = state.withLock({ $0.found }), old.expires.map({ $0 > now }) ?? true {
        return old.keys
      }
      throw error
    }
  }

  /// The store did not accept them: they are looked for anew.
  func forget() { state.withLock { $0.found = nil } }

  private func find() async throws(StoreError) -> FoundKeys {
    if let found = fromEnvironment() { return found }
    if let found = try SharedFiles(environment: environment).keys() { return found }
    if let found = try await client.containerKeys() { return found }
    let gaveKeys = state.withLock { $0.hasMachineKeys }
    if let found = try await client.machineKeys(gaveKeys: gaveKeys) {
      state.withLock { $0.hasMachineKeys = true }
      return found
    }
    throw .notPermitted(
      "found no access keys; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY and sign in again, or "
        + "put them into \"~/.aws/credentials\"")
  }

  private func fromEnvironment() -> FoundKeys? {
    guard let identifier = environment["AWS_ACCESS_KEY_ID"], !identifier.isEmpty,
      let secret = environment["AWS_SECRET_ACCESS_KEY"], !secret.isEmpty
    else { return nil }
    let token = environment["AWS_SESSION_TOKEN"].flatMap { $0.isEmpty ? nil : $0 }
    return FoundKeys(
      keys: S3Keys(identifier: identifier, secret: secret, token: token))
  }
}
