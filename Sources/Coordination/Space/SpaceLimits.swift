package import Platform

/// How much of the local disk contents may take: what the configuration's `space` says.
package struct SpaceLimits: Hashable, Sendable {
  package enum Amount: Hashable, Sendable {
    case bytes(UInt64)
    /// Of the disk, 0 to 1.
    case share(Double)

    func bytes(of disk: UInt64) -> UInt64 {
      switch self {
      case .bytes(let bytes): bytes
      case .share(let share): UInt64(max(0, min(1, share)) * Double(disk))
      }
    }
  }

  /// The most that all contents together may take.
  package var limit: Amount?
  /// What is to stay free of the disk, whoever uses it.
  package var minimumFree: Amount?

  package init(limit: Amount? = nil, minimumFree: Amount? = nil) {
    self.limit = limit
    self.minimumFree = minimumFree
  }

  package var isEmpty: Bool { limit == nil && minimumFree == nil }

  package func marks(on disk: DiskStatistics) -> SpaceMarks {
    let size = disk.blocks &* disk.blockSize
    return SpaceMarks(
      limit: limit?.bytes(of: size), minimumFree: minimumFree?.bytes(of: size))
  }
}

/// The limits in bytes, on a disk as it is now.
///
/// Above the high mark evicting begins, at the low mark it ends: so it is done in large steps,
/// seldom, and mostly before the limit is met. Of a large limit the steps are no larger than what
/// takes a moment to fill.
package struct SpaceMarks: Hashable, Sendable {
  package let limit: UInt64?
  package let minimumFree: UInt64?

  package init(limit: UInt64?, minimumFree: UInt64?) {
    self.limit = limit
    self.minimumFree = minimumFree
  }

  private static let largestStep: UInt64 = 512 << 20

  private static func step(_ amount: UInt64) -> UInt64 { min(amount / 20, largestStep) }

  package var high: UInt64? { limit.map { $0 - Self.step($0) } }
  package var low: UInt64? { limit.map { $0 - 3 * Self.step($0) } }

  /// What has to be given back now, in bytes: 0 below the high mark. `coming`: what is about to be
  /// stored besides.
  package func excess(used: UInt64, free: UInt64, coming: UInt64 = 0) -> UInt64 {
    var result: UInt64 = 0
    if let high, let low, used &+ coming > high { result = used &+ coming - low }
    if let minimumFree, free < minimumFree &+ coming {
      result = max(result, minimumFree &+ Self.step(minimumFree) &+ coming - free)
    }
    return min(result, used)
  }

  /// Whether so much more stays below the high mark.
  package func fits(_ bytes: UInt64, used: UInt64, free: UInt64) -> Bool {
    if let high, used &+ bytes > high { return false }
    guard let minimumFree else { return true }
    return free >= minimumFree &+ bytes
  }

  /// By how much a limit is passed.
  package func overshoot(used: UInt64, free: UInt64, coming: UInt64 = 0) -> UInt64 {
    var result: UInt64 = 0
    if let limit, used &+ coming > limit { result = used &+ coming - limit }
    if let minimumFree, free < minimumFree &+ coming {
      result = max(result, min(used, minimumFree &+ coming - free))
    }
    return result
  }
}
