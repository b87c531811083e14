package import ControlProtocol
package import Coordination
internal import Glibc
internal import Platform
internal import SystemPackage
internal import Yams

/// What the configuration file and the environment set. Flags win over the environment, the
/// environment over the file.
///
///     state: ~/.local/share/ubiquityfs   # UBIQUITYFS_STATE, --state
///     logLevel: info                     # UBIQUITYFS_LOG_LEVEL, --log-level
///     mount:
///       policy: ondemand                 # or greedy; -o policy=
///     sync:
///       debounce: 2                      # seconds from the last change to the upload
///       snapshotAfter: 300               # seconds without a write until an open file is uploaded;
/// 0: never
///       deletionShare: 0.5               # of a container, removed at once: asks; 1: never asks
///       deletionMinimum: 100             # so many go without asking
///     trash:
///       days: 30                         # how long what was removed can be brought back
///     hydration:
///       defaults: true                   # indexers, thumbnailers and scanners download nothing
///       rules:                           # see docs/hydration.md
///         - {executable: "/opt/scan/*", action: deny, error: EAGAIN}
///     packages:
///       extensions: [draw, -app]         # further package types; with a dash, what is none
///     space:
///       limit: 20GB                      # or 30%: the most that contents take of the local disk
///       minimumFree: 5GB                 # or 10%: what stays free of it
///     compaction:
///       minutes: 10                      # how often it is looked whether something is due
///       segments: 2000                   # of the log after which a new snapshot is written
///       megabytes: 8                     # or so much in them, beyond what a snapshot takes
///       keepSegments: 256                # that stay before a snapshot
///       packs: 1                         # 0: packs that nothing uses stay in the backend
///       keepDays: 7                      # for which the log before a snapshot stays
///       graceDays: 7                     # from when a pack is condemned until it is removed
///     network:
///       uploadLimit: 2MB/s               # or off; `ubiquityfs limit`
///       downloadLimit: 10MB/s
///       metered: auto                    # or yes, no: whether bytes cost money
package struct Configuration: Equatable, Sendable {
  package var state: String?
  package var logLevel: String?
  package var policy: String?
  package var debounce: Double?
  package var snapshotAfter: Double?
  package var deletionShare: Double?
  package var deletionMinimum: Int?
  package var keepRemovedDays: Int?
  package var packageExtensions: [String] = []
  package var space = SpaceLimits()
  /// By key, as they are in the file.
  package var compaction: [String: Double] = [:]
  package var hydration = HydrationSettings()
  package var network = NetworkConfiguration()

  package init() {}

  /// With the most that each may be.
  private static let compactionKeys: [String: Double] = [
    "minutes": 525_600, "segments": 1e9, "megabytes": 1e6, "keepSegments": 1e9,
    "packs": 1, "keepDays": 36_500, "graceDays": 36_500,
  ]

  package static let logLevels = [
    "trace", "debug", "info", "notice", "warning", "error", "critical",
  ]

  /// Reads the file that the environment names; the default one may be missing.
  package static func load(environment: [String: String]) throws(ControlError) -> Configuration {
    var path: String?
    var isNamed = false
    if let named = environment["UBIQUITYFS_CONFIG"], !named.isEmpty {
      path = named
      isNamed = true
    } else if let base = environment["XDG_CONFIG_HOME"], base.hasPrefix("/") {
      path = base + "/ubiquityfs/config.yaml"
    } else if let home = environment["HOME"], home.hasPrefix("/") {
      path = home + "/.config/ubiquityfs/config.yaml"
    }
    var result = Configuration()
    if let path {
      let bytes: [UInt8]
      do throws(Errno) {
        bytes = try Files.read(path)
      } catch {
        guard !isNamed, error == .noSuchFileOrDirectory || error == .notDirectory else {
          throw ControlError(.usage, "cannot read the configuration file \"\(path)\": \(error)")
        }
        bytes = []
      }
      result = try parse(
        String(decoding: bytes, as: UTF8.self), path: path, home: environment["HOME"])
    }
    if let level = environment["UBIQUITYFS_LOG_LEVEL"], !level.isEmpty {
      result.logLevel = try checked(level, in: logLevels, "UBIQUITYFS_LOG_LEVEL")
    }
    return result
  }

  package static func parse(_ text: String, path: String, home: String?) throws(ControlError)
    -> Configuration
  {
    func wrong(_ what: String) -> ControlError {
      ControlError(.usage, "the configuration file \"\(path)\": \(what)")
    }
    // Each command reads it; mostly there is none, and the parser takes milliseconds to begin.
    guard !text.allSatisfy(\.isWhitespace) else { return Configuration() }
    let node: Node?
    do { node = try Yams.compose(yaml: text) } catch {
      throw wrong("it is not YAML: \(error)")
    }
    var result = Configuration()
    guard let node, node != Node("", Tag(.null)) else { return result }
    guard let mapping = node.mapping else { throw wrong("it is not a list of `key: value`") }
    for (key, value) in mapping {
      let name = key.string ?? ""
      switch name {
      case "state":
        guard let text = value.string, !text.isEmpty else { throw wrong("`state` is not a path") }
        if text == "~" || text.hasPrefix("~/"), let home {
          result.state = home + text.dropFirst()
        } else {
          guard text.hasPrefix("/") else { throw wrong("`state` is not an absolute path") }
          result.state = text
        }
      case "logLevel":
        result.logLevel = try checked(
          value.string, in: logLevels, "the configuration file \"\(path)\": `logLevel`")
      case "mount":
        guard let inner = value.mapping else { throw wrong("`mount` has no keys") }
        for (key, value) in inner {
          guard key.string == "policy" else {
            throw wrong("unknown key `mount.\(key.string ?? "?")`; known is `policy`")
          }
          result.policy = try checked(
            value.string, in: ["ondemand", "greedy"],
            "the configuration file \"\(path)\": `mount.policy`")
        }
      case "sync":
        guard let inner = value.mapping else { throw wrong("`sync` has no keys") }
        for (key, value) in inner {
          switch key.string {
          case "debounce":
            guard let seconds = value.float, seconds >= 0, seconds <= 3600 else {
              throw wrong("`sync.debounce` is not a number of seconds from 0 to 3600")
            }
            result.debounce = seconds
          case "snapshotAfter":
            guard let seconds = value.float, seconds >= 0, seconds <= 1e6 else {
              throw wrong("`sync.snapshotAfter` is not a number of seconds from 0 to 1000000")
            }
            result.snapshotAfter = seconds
          case "deletionShare":
            guard let share = value.float, share >= 0, share <= 1 else {
              throw wrong("`sync.deletionShare` is not a number from 0 to 1")
            }
            result.deletionShare = share
          case "deletionMinimum":
            guard let number = value.wholeNumber, number >= 0 else {
              throw wrong("`sync.deletionMinimum` is not a number of items")
            }
            result.deletionMinimum = number
          default:
            throw wrong(
              "unknown key `sync.\(key.string ?? "?")`; known are `debounce`, `snapshotAfter`, "
                + "`deletionShare` and `deletionMinimum`")
          }
        }
      case "trash":
        guard let inner = value.mapping else { throw wrong("`trash` has no keys") }
        for (key, value) in inner {
          guard key.string == "days" else {
            throw wrong("unknown key `trash.\(key.string ?? "?")`; known is `days`")
          }
          guard let days = value.wholeNumber, (0...36_500).contains(days) else {
            throw wrong("`trash.days` is not a number of days from 0 to 36500")
          }
          result.keepRemovedDays = days
        }
      case "packages":
        guard let inner = value.mapping else { throw wrong("`packages` has no keys") }
        for (key, value) in inner {
          guard key.string == "extensions" else {
            throw wrong("unknown key `packages.\(key.string ?? "?")`; known is `extensions`")
          }
          guard let list = value.sequence else {
            throw wrong("`packages.extensions` is not a list of names")
          }
          result.packageExtensions = try list.map { node throws(ControlError) in
            guard let text = node.string, !text.isEmpty, text != "-", text != ".",
              !text.contains("/")
            else { throw wrong("`packages.extensions` has a value that is not an extension") }
            return text
          }
        }
      case "hydration":
        do throws(HydrationSettings.Invalid) {
          result.hydration = try HydrationSettings(value)
        } catch { throw wrong(error.reason) }
      case "space": result.space = try parseSpace(value, path: path)
      case "compaction":
        guard let inner = value.mapping else { throw wrong("`compaction` has no keys") }
        for (key, value) in inner {
          let name = key.string ?? "?"
          guard let most = compactionKeys[name] else {
            throw wrong(
              "unknown key `compaction.\(name)`; known are "
                + compactionKeys.keys.sorted().map { "`\($0)`" }.joined(separator: ", "))
          }
          guard let number = value.float, number >= 0, number <= most else {
            throw wrong("`compaction.\(name)` is not a number from 0 to \(Int(most))")
          }
          result.compaction[name] = number
        }
      case "network":
        try result.network.read(value, wrong)
      default:
        throw wrong(
          "unknown key `\(name)`; known are state, logLevel, mount.policy, sync.debounce, "
            + "sync.snapshotAfter, sync.deletionShare, sync.deletionMinimum, trash.days, "
            + "packages.extensions, hydration.defaults, hydration.rules, hydration.unsent, "
            + "space.limit, space.minimumFree and those of compaction and network")
      }
    }
    return result
  }

  private static func checked(_ value: String?, in known: [String], _ what: String)
    throws(ControlError) -> String
  {
    guard let value, known.contains(value) else {
      throw ControlError(.usage, "\(what) is not one of \(known.joined(separator: ", "))")
    }
    return value
  }

  /// The state directory, absolute: the flag, `UBIQUITYFS_STATE`, the file, the default.
  package func stateDirectory(flag: String?, environment: [String: String]) throws(ControlError)
    -> String
  {
    func nonempty(_ text: String?) -> String? { text.flatMap { $0.isEmpty ? nil : $0 } }
    if let flag, flag.isEmpty { throw ControlError(.usage, "--state does not name a directory") }
    let chosen: String
    if let named = flag ?? nonempty(environment["UBIQUITYFS_STATE"]) ?? state {
      chosen = named
    } else if let base = environment["XDG_DATA_HOME"], base.hasPrefix("/") {
      chosen = base + "/ubiquityfs"
    } else if let home = environment["HOME"], home.hasPrefix("/") {
      chosen = home + "/.local/share/ubiquityfs"
    } else {
      throw ControlError(.usage, "HOME is not set; name the state directory with --state")
    }
    return Files.absolutePath(chosen)
  }
}
