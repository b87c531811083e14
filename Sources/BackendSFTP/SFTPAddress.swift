package import Backend

/// A directory on a server that `ssh` reaches: `sftp://[USER@]HOST[:PORT]/DIRECTORY`, with `%XX`
/// for any byte. `/~/DIRECTORY` is below the user's home directory there.
///
/// `ssh` reads its own configuration, so HOST may be an alias in `~/.ssh/config`.
package struct SFTPAddress: BackendLocation, Equatable {
  package static let scheme = "sftp"
  package static let form = "sftp://USER@HOST/DIRECTORY"

  /// The agent's socket belongs to the session that signs in.
  package static var variables: BackendVariables {
    BackendVariables([BackendVariables.Group("SSH_AUTH_SOCK")])
  }

  package let user: String?
  package let host: String
  package let port: Int?
  /// As the server takes it: absolute, or relative to the home directory.
  package let path: String

  package init(url: String, environment: [String: String]) throws(StoreError) {
    func wrong(_ reason: String) -> StoreError {
      .invalid("\"\(url)\" \(reason); use one like \"sftp://me@nas.example.org/srv/ubiquityfs\"")
    }
    let rest = url.dropFirst(Self.scheme.count + "://".count)
    let authority = rest.prefix { $0 != "/" }
    var server = authority
    if let at = server.lastIndex(of: "@") {
      let user = String(server[..<at])
      guard Self.isName(user, more: "._-") else { throw wrong("has a user that is not a name") }
      self.user = user
      server = server[server.index(after: at)...]
    } else {
      user = nil
    }
    if let colon = server.lastIndex(of: ":"), !server.hasSuffix("]") {
      guard let port = Int(server[server.index(after: colon)...]), (1...65_535).contains(port)
      else { throw wrong("has a port that is not a number from 1 to 65535") }
      self.port = port == 22 ? nil : port
      server = server[..<colon]
    } else {
      port = nil
    }
    if server.hasPrefix("["), server.hasSuffix("]") { server = server.dropFirst().dropLast() }
    host = String(server)
    guard Self.isName(host, more: "._-:%") else { throw wrong("does not name a host") }
    guard let decoded = PercentText.decode(rest.dropFirst(authority.count)) else {
      throw wrong("has a directory that is not valid UTF-8 text")
    }
    var names = decoded.split(separator: "/").map(String.init).filter { $0 != "." }
    guard !names.contains("..") else { throw wrong("has \"..\" in its directory") }
    let isBelowHome = names.first == "~"
    if isBelowHome { names.removeFirst() }
    guard !names.isEmpty else { throw wrong("does not name a directory") }
    path = (isBelowHome ? "" : "/") + names.joined(separator: "/")
    guard path.utf8.count <= 1024 else { throw wrong("has a directory of more than 1,024 bytes") }
  }

  /// `ssh` must not take the text for an option.
  private static func isName(_ text: String, more: String) -> Bool {
    guard let first = text.utf8.first, first != UInt8(ascii: "-"), text.utf8.count <= 255 else {
      return false
    }
    return text.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        true
      default: more.utf8.contains(byte)
      }
    }
  }

  /// The server in URLs and messages.
  var server: String {
    let name = host.contains(":") ? "[\(host)]" : host
    return (user.map { "\($0)@" } ?? "") + name + (port.map { ":\($0)" } ?? "")
  }

  package var description: String {
    var escaped = ""
    for character in path {
      switch character {
      case "%": escaped += "%25"
      case "?": escaped += "%3F"
      case "#": escaped += "%23"
      default: escaped.append(character)
      }
    }
    return "sftp://\(server)\(path.hasPrefix("/") ? "" : "/~/")\(escaped)"
  }

  /// SFTP has no notifications.
  package var looksForNews: Bool { true }

  package func open(_ environment: [String: String]) throws(StoreError) -> any ObjectStore {
    SFTPStore(self, environment: environment)
  }

  package func make(_ environment: [String: String]) async throws(StoreError) -> any ObjectStore {
    let store = SFTPStore(self, environment: environment)
    try await store.makeDirectory()
    return store
  }
}
