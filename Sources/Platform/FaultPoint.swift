internal import Glibc
package import SystemPackage

/// Named places where a test has the process killed, or a system call fail.
///
/// A place stands between two steps of which one must be done, or durable, before the other
/// (`reach`), or right before a system call that changes a disk (`check`). `UBIQUITYFS_FAULT` says
/// what happens there:
///
///     NAME[:COUNT]               kills the process when it reaches the place the COUNTth time
///     NAME[:COUNT]:errno=ERRNO   the next call fails, once: ENOSPC, EIO, EDQUOT
///     list:FILE                  writes each place to FILE, a line each time
///     observe                    calls `observer` at each place; for tests within the process
///
/// `NAME` may be `*`: any place counts. Without the variable a place costs one load.
/// `docs/testing.md` lists all names, and `Tests/check-fault-points` sees to it that it does.
package enum FaultPoint {
  private enum Action {
    case kill
    case fail(Int32)
    case list(String)
    case observe
  }

  private struct Armed {
    var name: String
    var left: Int
    var action: Action
  }

  private static let armed: Lock<Armed>? = {
    guard let text = getenv("UBIQUITYFS_FAULT") else { return nil }
    let parts = String(cString: text).split(separator: ":", maxSplits: 2).map(String.init)
    guard let name = parts.first else { return nil }
    if name == "list" {
      let path = parts.dropFirst().joined(separator: ":")
      return Lock(Armed(name: "*", left: 0, action: .list(path)))
    }
    if name == "observe" { return Lock(Armed(name: "*", left: 0, action: .observe)) }
    var action = Action.kill
    if parts.count > 2 {
      guard let code = failures[parts[2]] else { return nil }
      action = .fail(code)
    }
    let count = parts.count > 1 ? Int(parts[1]) ?? 1 : 1
    return Lock(Armed(name: name, left: count, action: action))
  }()

  /// Set before anything starts; called on the thread that reaches the place.
  package nonisolated(unsafe) static var observer: (@Sendable (String) -> Void)?

  private static let failures: [String: Int32] = [
    "errno=ENOSPC": ENOSPC, "errno=EIO": EIO, "errno=EDQUOT": EDQUOT,
  ]

  package static func reach(_ name: StaticString) {
    guard let armed else { return }
    _ = pass(name, armed, isCall: false)
  }

  /// Before a system call: throws what it is to fail with.
  package static func check(_ name: StaticString) throws(Errno) {
    guard let armed else { return }
    if let code = pass(name, armed, isCall: true) { throw Errno(rawValue: code) }
  }

  private static func pass(_ name: StaticString, _ armed: Lock<Armed>, isCall: Bool)
    -> Int32?
  {
    let isObserved = armed.withLock { armed -> Bool in
      if case .observe = armed.action { return true }
      return false
    }
    if isObserved {
      observer?(String(describing: name))
      return nil
    }
    return armed.withLock { armed -> Int32? in
      let text = String(describing: name)
      if case .list(let path) = armed.action {
        append("\(isCall ? "call" : "place") \(text)\n", to: path)
        return nil
      }
      guard armed.name == text || armed.name == "*" else { return nil }
      if case .fail = armed.action, !isCall { return nil }
      armed.left -= 1
      guard armed.left == 0 else { return nil }
      switch armed.action {
      case .fail(let code): return code
      case .kill, .list, .observe:
        kill(getpid(), SIGKILL)
        return nil
      }
    }
  }

  /// Opened each time: the daemon closes what it did not open itself when it starts.
  private static func append(_ line: String, to path: String) {
    let file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard file >= 0 else { return }
    let bytes = Array(line.utf8)
    _ = write(file, bytes, bytes.count)
    close(file)
  }
}
