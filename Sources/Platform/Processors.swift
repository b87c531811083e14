internal import CLinux
internal import Glibc

/// The processors of this machine: those that there are, and those that there may be.
package struct Processors: Hashable, Sendable {
  package let online: Int
  package let possible: Int

  package init(online: Int, possible: Int) {
    self.online = online
    self.possible = possible
  }

  /// Nil where the system does not say, or numbers them with gaps.
  package static func ofSystem() -> Processors? {
    guard let text = Files.smallText("/sys/devices/system/cpu/possible"),
      let possible = count(text)
    else { return nil }
    let online = sysconf(Int32(_SC_NPROCESSORS_ONLN))
    return Processors(online: max(1, min(online, possible)), possible: possible)
  }

  /// Reads `0-7`, or `0` where there is one.
  static func count(_ range: String) -> Int? {
    let ends = range.split(separator: "-")
    guard ends.first == "0", ends.count <= 2, let last = Int(ends[ends.count - 1]) else {
      return nil
    }
    return last + 1
  }
}

/// Keeps the calling thread on one processor, where that is allowed.
package func pinThread(toProcessor processor: Int) { _ = linux_pin_thread(Int32(processor)) }
