package import Backend
internal import Platform

/// `file:///DIRECTORY`, with `%XX` for any byte.
package struct DirectoryLocation: BackendLocation, Equatable {
  package static let scheme = "file"
  package static let form = "file:///DIRECTORY"

  /// Absolute, without `.`, `..` and a slash at its end.
  package let path: String

  package init(path: String) { self.path = Files.absolutePath(path) }

  package init(url: String, environment: [String: String]) throws(StoreError) {
    let rest = url.dropFirst(Self.scheme.count + "://".count)
    guard rest.hasPrefix("/"), let path = PercentText.decode(rest) else {
      throw .invalid(
        "\"\(url)\" does not name an absolute directory; use one like \"file:///srv/ubiquityfs\"")
    }
    self.init(path: path)
  }

  package var description: String {
    "file://"
      + path.split(separator: "%", omittingEmptySubsequences: false).joined(separator: "%25")
  }

  /// A directory is watched.
  package var looksForNews: Bool { false }

  package func open(_ environment: [String: String]) throws(StoreError) -> any ObjectStore {
    try DirectoryStore(path: path, createIfMissing: false)
  }

  package func make(_ environment: [String: String]) async throws(StoreError) -> any ObjectStore {
    try DirectoryStore(path: path, createIfMissing: true)
  }
}
