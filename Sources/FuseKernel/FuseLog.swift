internal import CFuse3
internal import Glibc
internal import Platform

/// Collects what libfuse writes to its log, which by default goes to standard error, so that it can
/// become part of an error.
final class FuseLog: Sendable {
  private static let lines = Lock<[String]>([])

  static func collecting() -> FuseLog {
    lines.withLock { $0 = [] }
    fuse_set_log_func { _, format, arguments in
      guard let format, let arguments else { return }
      let line = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 512) { buffer in
        guard let start = buffer.baseAddress, vsnprintf(start, 512, format, arguments) >= 0 else {
          return ""
        }
        return String(cString: start)
      }
      FuseLog.lines.withLock { if $0.count < 16 { $0.append(line) } }
    }
    return FuseLog()
  }

  /// What was written since `collecting`, as one line.
  func taken() -> String {
    FuseLog.lines.withLock { lines in
      defer { lines = [] }
      return lines.joined().split(separator: "\n").joined(separator: "; ")
    }
  }
}
