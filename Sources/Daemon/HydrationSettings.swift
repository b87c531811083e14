package import Coordination
package import SyncEngine
internal import SystemPackage
internal import Yams

/// `hydration` of the configuration: which programs may cause downloads, and how long they wait.
package struct HydrationSettings: Equatable, Sendable {
  package struct Invalid: Error {
    package let reason: String
  }

  package var rules: [DownloadRule] = []
  /// Whether those that are known to read everything are limited without a rule.
  package var usesDefaults = true
  /// Of contents that their devices have not uploaded.
  package var unsent = UnsentContent()

  package init() {}

  /// The first that matches counts.
  package var allRules: [DownloadRule] { rules + (usesDefaults ? DownloadRule.defaults : []) }

  init(_ node: Node) throws(Invalid) {
    guard let mapping = node.mapping else {
      throw Invalid(reason: "`hydration` has no keys")
    }
    for (key, value) in mapping {
      switch key.string {
      case "defaults":
        guard let flag = value.bool else {
          throw Invalid(reason: "`hydration.defaults` is neither true nor false")
        }
        usesDefaults = flag
      case "rules":
        guard let list = value.sequence else {
          throw Invalid(reason: "`hydration.rules` is not a list of rules")
        }
        for (index, node) in list.enumerated() { rules.append(try Self.rule(node, index + 1)) }
      case "unsent": unsent = try Self.unsent(value)
      default:
        throw Invalid(
          reason: "unknown key `hydration.\(key.string ?? "?")`; known are `defaults`, `rules` and "
            + "`unsent`")
      }
    }
  }

  private static func unsent(_ node: Node) throws(Invalid) -> UnsentContent {
    guard let mapping = node.mapping else {
      throw Invalid(reason: "`hydration.unsent` has no keys")
    }
    var result = UnsentContent()
    for (key, value) in mapping {
      switch key.string {
      case "wait":
        guard let seconds = value.float, seconds >= 0, seconds <= 3600 else {
          throw Invalid(
            reason: "`hydration.unsent.wait` is not a number of seconds from 0 to 3600")
        }
        result.wait = .milliseconds(Int64(seconds * 1000))
      case "error":
        switch value.string {
        case "ETIMEDOUT": result.error = .timedOut
        case "EIO": result.error = .ioError
        default: throw Invalid(reason: "`hydration.unsent.error` is neither ETIMEDOUT nor EIO")
        }
      default:
        throw Invalid(
          reason:
            "unknown key `hydration.unsent.\(key.string ?? "?")`; known are `wait` and `error`")
      }
    }
    return result
  }

  private static func rule(_ node: Node, _ number: Int) throws(Invalid) -> DownloadRule {
    func wrong(_ what: String) -> Invalid {
      Invalid(reason: "rule \(number) of `hydration.rules` \(what)")
    }
    guard let mapping = node.mapping else { throw wrong("is not a list of `key: value`") }
    var values: [String: String] = [:]
    for (key, value) in mapping {
      let name = key.string ?? "?"
      guard ["executable", "cgroup", "action", "error"].contains(name) else {
        throw wrong(
          "has the unknown key `\(name)`; known are `executable`, `cgroup`, `action` and `error`")
      }
      guard let text = value.string, !text.isEmpty else { throw wrong("has no text as `\(name)`") }
      values[name] = text
    }
    guard values["executable"] != nil || values["cgroup"] != nil else {
      throw wrong("has neither `executable` nor `cgroup`; `executable: \"*\"` matches all programs")
    }
    if let pattern = values["executable"], pattern.contains("/"), !pattern.hasPrefix("/"),
      !pattern.hasPrefix("*")
    {
      throw wrong(
        "has an `executable` that matches no program: a path must begin with `/` or `*`, not "
          + "\"\(pattern)\"")
    }
    if let pattern = values["cgroup"], !pattern.hasPrefix("/"), !pattern.hasPrefix("*") {
      throw wrong(
        "has a `cgroup` that matches no program: it must begin with `/` or `*`, not \"\(pattern)\"")
    }
    let access: DownloadAccess
    switch values["action"] {
    case "allow": access = .allow
    case "range-only", "rangeOnly": access = .rangeOnly
    case "deny":
      let error = values["error"] ?? "EPERM"
      guard let errno = DownloadAccess.errors[error] else {
        throw wrong("has the error \"\(error)\"; known are EPERM and EAGAIN")
      }
      access = .deny(errno)
    case let action:
      throw wrong(
        (action.map { "has the action \"\($0)\"" } ?? "has no `action`")
          + "; known are `allow`, `range-only` and `deny`")
    }
    if case .deny = access {
    } else if values["error"] != nil {
      throw wrong("has an `error`, which is only for the action `deny`")
    }
    let what = [
      values["executable"].map { "executable \($0)" }, values["cgroup"].map { "cgroup \($0)" },
    ].compactMap(\.self).joined(separator: ", ")
    return DownloadRule(
      executable: values["executable"], controlGroup: values["cgroup"], access: access,
      name: "rule \(number): \(what)")
  }
}
