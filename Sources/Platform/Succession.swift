internal import CLinux
internal import Glibc
internal import SystemPackage

/// What a mount needs to outlive its daemon: the FUSE device, which keeps the connection, and the
/// record of what the kernel knows of it.
package struct KeptMount: Sendable {
  package let device: OpenFile
  package let record: OpenFile

  package init(device: OpenFile, record: OpenFile) {
    self.device = device
    self.record = record
  }
}

/// What this process was left by a daemon that died: the watchdog of that daemon became this
/// process.
package struct Succession: Sendable {
  /// How many daemons in a row died soon after their start.
  package let earlyDeaths: UInt32
  /// Nil where it ended in good order.
  package let predecessor: Int32?
  /// Of the state directory, and held.
  package let lock: OpenFile
  package let mounts: [KeptMount]

  package init(
    earlyDeaths: UInt32, predecessor: Int32?, lock: OpenFile, mounts: [KeptMount]
  ) {
    self.earlyDeaths = earlyDeaths
    self.predecessor = predecessor
    self.lock = lock
    self.mounts = mounts
  }

  /// Nil where there is none. What is not understood is closed. Call it once, before there are
  /// threads.
  package static func take() -> Succession? {
    let name = String(cString: linux_succession_variable)
    guard let text = getenv(name).map({ String(cString: $0) }) else { return nil }
    unsetenv(name)
    var early: UInt32 = 0
    var predecessor: Int32?
    var lock: OpenFile?
    var mounts: [KeptMount] = []
    for word in text.split(separator: " ") {
      let parts = word.split(separator: "=", maxSplits: 1)
      guard parts.count == 2 else { continue }
      switch parts[0] {
      case "early": early = UInt32(parts[1]) ?? 0
      case "predecessor": predecessor = Int32(parts[1])
      case "lock": lock = file(parts[1])
      case "mount":
        let files = parts[1].split(separator: ":").map { file($0) }
        guard files.count == 2, let device = files[0], let record = files[1] else { continue }
        mounts.append(KeptMount(device: device, record: record))
      default: continue
      }
    }
    guard let lock else { return nil }
    return Succession(
      earlyDeaths: early, predecessor: predecessor, lock: lock, mounts: mounts)
  }

  private static func file(_ text: Substring) -> OpenFile? {
    guard let descriptor = Int32(text), descriptor > 2, fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0
    else { return nil }
    return OpenFile(owning: descriptor)
  }

  package var descriptors: Set<Int32> {
    Set([lock.descriptor] + mounts.flatMap { [$0.device.descriptor, $0.record.descriptor] })
  }
}

/// How a daemon is started in the place of this one. The memory that it names is never freed: a
/// watchdog that is forked later reads it too.
package final class SuccessorProgram: @unchecked Sendable {
  let pointer: UnsafePointer<linux_successor>

  /// `program` is an absolute path. `log` gets what the program prints.
  package init(program: String, arguments: [String], log: String, earlyDeaths: UInt32) {
    let words = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(
      capacity: arguments.count + 1)
    for (index, word) in arguments.enumerated() { words[index] = strdup(word) }
    words[arguments.count] = nil
    let place = UnsafeMutablePointer<linux_successor>.allocate(capacity: 1)
    place.initialize(
      to: linux_successor(
        program: UnsafePointer(strdup(program)), arguments: UnsafePointer(words),
        log: UnsafePointer(strdup(log)), early_deaths: earlyDeaths))
    pointer = UnsafePointer(place)
  }
}
