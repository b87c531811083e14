internal import Backend
internal import Platform
internal import SystemPackage

/// `~/.aws/credentials` and `~/.aws/config`. Source: "Configuration and credential file settings",
/// AWS CLI User Guide.
struct SharedFiles {
  let environment: [String: String]

  /// Those of `AWS_PROFILE`, or of `default`; nil where there are none. Fails where a profile is
  /// named that is in neither file.
  func keys() throws(StoreError) -> FoundKeys? {
    let named = environment["AWS_PROFILE"].flatMap { $0.isEmpty ? nil : $0 }
    let profile = named ?? "default"
    let home = environment["HOME"] ?? ""
    let files = [
      (environment["AWS_SHARED_CREDENTIALS_FILE"] ?? home + "/.aws/credentials", profile),
      (
        environment["AWS_CONFIG_FILE"] ?? home + "/.aws/config",
        profile == "default" ? profile : "profile \(profile)"
      ),
    ]
    var isThere = false
    for (path, section) in files where path.hasPrefix("/") {
      guard let bytes = try? Files.read(path),
        let values = Self.sections(String(decoding: bytes, as: UTF8.self))[section]
      else { continue }
      isThere = true
      guard let identifier = values["aws_access_key_id"],
        let secret = values["aws_secret_access_key"]
      else { continue }
      return FoundKeys(
        keys: S3Keys(identifier: identifier, secret: secret, token: values["aws_session_token"]))
    }
    if let named, !isThere {
      throw .notPermitted(
        "AWS_PROFILE is \"\(named)\", but neither \"\(files[0].0)\" nor \"\(files[1].0)\" has this "
          + "profile")
    }
    return nil
  }

  /// By name; a later value of a key wins, as in Amazon's own readers.
  static func sections(_ text: String) -> [String: [String: String]] {
    var result: [String: [String: String]] = [:]
    var section: String?
    for line in text.split(whereSeparator: \.isNewline) {
      let line = Self.trimmed(line)
      if line.isEmpty || line.hasPrefix("#") || line.hasPrefix(";") { continue }
      if line.hasPrefix("["), let end = line.firstIndex(of: "]") {
        let name = line[line.index(after: line.startIndex)..<end]
        let words = name.split(separator: " ").joined(separator: " ")
        section = words
        result[words] = result[words] ?? [:]
        continue
      }
      guard let section, let equals = line.firstIndex(of: "=") else { continue }
      let value = Self.trimmed(line[line.index(after: equals)...])
      result[section, default: [:]][Self.trimmed(line[..<equals])] = value
    }
    return result
  }

  private static func trimmed(_ text: Substring) -> String {
    let isSpace: (Character) -> Bool = { $0 == " " || $0 == "\t" || $0 == "\r" }
    return String(text.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
  }
}
