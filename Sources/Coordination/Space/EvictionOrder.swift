/// Something whose content can be given back: a file, or a package as a whole.
package struct EvictionCandidate<ID: Sendable>: Sendable {
  package let id: ID
  /// What giving it back frees.
  package let freed: UInt64
  /// What bringing it back would fetch.
  package let size: UInt64
  /// How many files it is.
  package let files: Int
  /// Nanoseconds since 1970.
  package let lastUse: Int64

  package init(id: ID, freed: UInt64, size: UInt64, files: Int = 1, lastUse: Int64) {
    self.id = id
    self.freed = freed
    self.size = size
    self.files = files
    self.lastUse = lastUse
  }
}

/// Which content goes first: the least recently used, with its size taken into account.
///
/// Bringing a file back costs its bytes and, however small it is, a request and somebody's waiting
/// for that; `requestCost` says as how many bytes that counts. What is lost by evicting is that
/// cost for each byte freed, and it is the less likely to come due the longer nobody used the file.
/// So the highest
///
///     age * freed / (size + requestCost)
///
/// goes first. Among files of one size that is the least recently used one. Of a small one its age
/// counts for less, since a thousand of them give little room and cost a thousand requests. It
/// follows from what is stored alone: the time of the last use and the size. So a restart changes
/// no choice.
package enum EvictionOrder {
  /// About what comes in the time that one round trip to a backend takes: 4 MiB.
  package static let requestCost: UInt64 = 4 << 20

  package static func score<ID>(_ candidate: EvictionCandidate<ID>, now: Int64) -> Double {
    // What was used this moment has an age too, so that sizes count among such.
    let age = Double(max(1_000_000, now &- candidate.lastUse))
    let cost = Double(candidate.size) + Double(requestCost) * Double(max(1, candidate.files))
    return age * Double(candidate.freed) / cost
  }

  /// The first to go first; of those alike the older.
  package static func sorted<ID>(
    _ candidates: [EvictionCandidate<ID>], now: Int64
  ) -> [EvictionCandidate<ID>] {
    candidates.map { (score: score($0, now: now), candidate: $0) }
      .sorted {
        $0.score != $1.score
          ? $0.score > $1.score : $0.candidate.lastUse < $1.candidate.lastUse
      }
      .map(\.candidate)
  }
}
