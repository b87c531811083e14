internal import Glibc

/// Named places between two steps of which one must be durable before the other, where a test can
/// have the process killed: `UBIQUITYFS_FAULT=NAME[:COUNT]` kills it when the place is reached for
/// the COUNTth time (default 1). Without the variable a place costs one load.
package enum FaultPoint {
  private struct Armed {
    var name: String
    var left: Int
  }

  private static let armed: Lock<Armed>? = {
    guard let text = getenv("UBIQUITYFS_FAULT") else { return nil }
    let parts = String(cString: text).split(separator: ":")
    guard let name = parts.first else { return nil }
    return Lock(Armed(name: String(name), left: parts.count > 1 ? Int(parts[1]) ?? 1 : 1))
  }()

  package static func reach(_ name: StaticString) {
    guard let armed else { return }
    armed.withLock { armed in
      guard armed.name == String(describing: name) else { return }
      armed.left -= 1
      if armed.left == 0 { kill(getpid(), SIGKILL) }
    }
  }
}
