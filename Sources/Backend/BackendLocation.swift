/// A backend as its URL names it, such as a directory or a bucket.
///
/// Each kind of backend is one target with a type that conforms. `Daemon/BackendKinds.swift` lists
/// these types; nothing else in the program depends on the kind.
package protocol BackendLocation: Sendable, CustomStringConvertible {
  /// The scheme of its URLs in lower case, such as `file`.
  static var scheme: String { get }
  /// The form of its URLs in help texts and messages, such as `file:///DIRECTORY`.
  static var form: String { get }
  /// The environment variables that a sign-in stores with the account.
  static var variables: BackendVariables { get }

  /// Reads a URL of this scheme. `environment` may complete it. Throws `.invalid` with a text that
  /// says what is wrong with the URL.
  init(url: String, environment: [String: String]) throws(StoreError)

  /// The complete URL. Reading it without an environment gives an equal location.
  var description: String { get }

  /// A risk that the user should know of, without a full stop. Nil: there is none.
  var warning: String? { get }

  /// See `ObjectStore.looksForNews`. Known before the store can be opened.
  var looksForNews: Bool { get }

  /// Opens the store, which must exist. `environment` has the stored variables and those of this
  /// process. May block for a few system calls, and does not wait for a network.
  func open(_ environment: [String: String]) throws(StoreError) -> any ObjectStore

  /// Makes the store if there is none, and checks that it keeps the promises of `ObjectStore` as
  /// far as that can be tried. Throws `.invalid` if it does not.
  func make(_ environment: [String: String]) async throws(StoreError) -> any ObjectStore
}

extension BackendLocation {
  package static var variables: BackendVariables { BackendVariables([]) }
  package var warning: String? { nil }
}

/// Environment variables that a sign-in stores with the account, since the daemon may have been
/// started with others.
package struct BackendVariables: Sendable {
  /// Variables that are replaced together: half of one pair of keys with half of another is no
  /// pair.
  package struct Group: Sendable {
    package let names: Set<String>
    /// Whether an environment has enough of the group to replace a stored one.
    package let isGiven: @Sendable ([String: String]) -> Bool

    package init(_ names: Set<String>, isGiven: @escaping @Sendable ([String: String]) -> Bool) {
      self.names = names
      self.isGiven = isGiven
    }

    /// A variable that depends on no other.
    package init(_ name: String) { self.init([name]) { $0[name] != nil } }
  }

  private let groups: [Group]

  package init(_ groups: [Group]) { self.groups = groups }

  package var names: Set<String> { groups.reduce(into: []) { $0.formUnion($1.names) } }

  /// The variables of an environment that may be stored.
  package func selected(from environment: [String: String]) -> [String: String] {
    let names = names
    return environment.filter { names.contains($0.key) }
  }

  /// The stored variables after a further sign-in with another environment.
  package func updated(_ stored: [String: String], by given: [String: String]) -> [String: String] {
    var result = stored
    for group in groups where group.isGiven(given) {
      for name in group.names { result[name] = given[name] }
    }
    return result
  }
}
