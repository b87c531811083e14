package import Catalog

/// Contents that are to come some time. What somebody asked for comes first, in the order of
/// asking; then the rest by rank, the highest first, and those of one rank in the order of asking.
struct Backlog {
  private struct Entry {
    let number: InodeNumber
    let rank: Int64
    let order: Int64
  }

  private var entries: [Entry] = []
  private var isSorted = true
  private var first: Int64 = 0
  private var last: Int64 = 0

  var count: Int { entries.count }
  var isEmpty: Bool { entries.isEmpty }

  /// `rank`: nil for what somebody asked for.
  mutating func append(_ number: InodeNumber, rank: Int64?) {
    last += 1
    add(Entry(number: number, rank: rank ?? .max, order: last))
  }

  /// Before all others.
  mutating func putBack(_ number: InodeNumber) {
    first -= 1
    entries.insert(Entry(number: number, rank: .max, order: first), at: 0)
  }

  private mutating func add(_ entry: Entry) {
    if let end = entries.last, Self.precedes(entry, end) { isSorted = false }
    entries.append(entry)
  }

  private static func precedes(_ left: Entry, _ right: Entry) -> Bool {
    left.rank == right.rank ? left.order < right.order : left.rank > right.rank
  }

  mutating func remove(_ number: InodeNumber) {
    guard let place = entries.firstIndex(where: { $0.number == number }) else { return }
    entries.remove(at: place)
  }

  /// To be called before `first`.
  mutating func sort() {
    guard !isSorted else { return }
    entries.sort(by: Self.precedes)
    isSorted = true
  }

  func first(where isWanted: (InodeNumber) -> Bool) -> InodeNumber? {
    entries.first { isWanted($0.number) }?.number
  }
}
