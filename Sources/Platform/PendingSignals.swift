internal import Glibc

/// Signals that wait for a thread.
package enum PendingSignals {
  /// Whether one is pending that the thread does not block, of its own or of its process. False
  /// where the system does not say.
  package static func areThere(for thread: UInt32) -> Bool {
    guard let status = Files.smallText("/proc/\(thread)/status", limit: 8192) else { return false }
    return areThere(status: status)
  }

  static func areThere(status: String) -> Bool {
    var own: UInt64 = 0
    var shared: UInt64 = 0
    var blocked: UInt64 = 0
    for line in status.split(separator: "\n") {
      let parts = line.split(separator: ":", maxSplits: 1)
      guard parts.count == 2,
        let mask = UInt64(parts[1].drop { $0 == "\t" || $0 == " " }, radix: 16)
      else { continue }
      switch parts[0] {
      case "SigPnd": own = mask
      case "ShdPnd": shared = mask
      case "SigBlk": blocked = mask
      default: break
      }
    }
    return (own | shared) & ~blocked != 0
  }
}
