internal import Glibc
internal import Platform

/// Which file systems are mounts of containers, by device number.
///
/// The mount table says it, and is not read for each of many items: what it said holds for a
/// moment, in which the number of a mount that is gone is hardly another one's.
enum ContainerDevices {
  /// Nanoseconds.
  private static let validity: UInt64 = 500_000_000

  private static let known = Lock<[UInt: UInt64]>([:])

  /// `status` is of something at the path that `look` finds in the mount table, or does not.
  static func contain(_ status: Glibc.stat, look: () -> Bool) -> Bool {
    let device = UInt(status.st_dev)
    let now = monotonicNanoseconds()
    if let until = known.withLock({ $0[device] }), now < until { return true }
    let isOurs = look()
    known.withLock { $0[device] = isOurs ? now + validity : nil }
    return isOurs
  }
}
