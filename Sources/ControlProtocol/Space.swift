// Local space and policies.

/// What contents take of the local disk. Sizes are bytes.
package struct SpaceReport: Codable, Sendable {
  /// Nil without such a limit.
  package var limit: UInt64?
  package var minimumFree: UInt64?
  package var used: UInt64
  /// Of the disk.
  package var free: UInt64
  /// By how much a limit is passed now.
  package var overshoot: UInt64
  /// Of `used`, what can be evicted and, in the next five, what cannot. Nil without a limit.
  package var evictable: UInt64?
  /// All that cannot.
  package var unevictable: UInt64?
  /// By pins and policies.
  package var pinned: UInt64?
  package var notUploaded: UInt64?
  package var inUse: UInt64?
  /// `.nosync`.
  package var excluded: UInt64?
  /// To make room, since the daemon started.
  package var evicted: Evicted

  package struct Evicted: Codable, Sendable {
    package var files: UInt64
    package var bytes: UInt64

    package init(files: UInt64, bytes: UInt64) {
      self.files = files
      self.bytes = bytes
    }
  }

  package init(
    limit: UInt64?, minimumFree: UInt64?, used: UInt64, free: UInt64, overshoot: UInt64,
    evictable: UInt64?, kept: UInt64?, notUploaded: UInt64?, inUse: UInt64?, excluded: UInt64?,
    evictedFiles: UInt64, evictedBytes: UInt64
  ) {
    self.limit = limit
    self.minimumFree = minimumFree
    self.used = used
    self.free = free
    self.overshoot = overshoot
    self.evictable = evictable
    unevictable = evictable.map { used > $0 ? used - $0 : 0 }
    pinned = kept
    self.notUploaded = notUploaded
    self.inUse = inUse
    self.excluded = excluded
    evicted = Evicted(files: evictedFiles, bytes: evictedBytes)
  }
}

package struct PolicyRequest: Codable, Sendable {
  package var items: [ItemReference]
  /// Nil: only tell.
  package var policy: String?

  package init(items: [ItemReference], policy: String?) {
    self.items = items
    self.policy = policy
  }
}

package struct ItemPolicy: Codable, Sendable {
  package var path: PathBytes
  /// Of a directory its own.
  package var policy: String?
  /// What holds there; `inherit` where the mount decides.
  package var effectivePolicy: String

  package init(path: PathBytes, policy: String?, effectivePolicy: String) {
    self.path = path
    self.policy = policy
    self.effectivePolicy = effectivePolicy
  }
}

package struct PolicyAnswer: Codable, Sendable {
  package var items: [ItemPolicy]

  package init(items: [ItemPolicy]) { self.items = items }
}
