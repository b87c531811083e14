internal import Model

/// Where a chunk is, in the order in which chunks are read.
struct ChunkPlace: Hashable, Comparable {
  let pack: PackID
  let offset: UInt64

  static func < (left: Self, right: Self) -> Bool {
    (left.pack, left.offset) < (right.pack, right.offset)
  }
}

/// How things were when somebody began to read the folded state page by page, of all that folding has
/// changed since. So the pages together are one moment's state, and nobody waits for their reader.
///
/// Only the first change of a thing counts: before it, it was as at the beginning. What is noted in an
/// operation that is taken back does no harm, for it says the same as the database.
struct FoldTracking {
  private(set) var items: [ItemID: [UInt8]?] = [:]
  private(set) var chunks: [ChunkPlace: ChunkLocation?] = [:]
  private(set) var removed: [ItemID: RemovedItem?] = [:]
  private(set) var packs: [PackID: PackRecord?] = [:]
  /// Everything was replaced: the beginning is not to be had any more.
  var isBroken = false
  let token: UInt64

  init(token: UInt64) { self.token = token }

  mutating func willSet(_ item: ItemID, _ was: [UInt8]?) {
    if items[item] == nil { items[item] = .some(was) }
  }

  mutating func willSet(_ place: ChunkPlace, _ was: ChunkLocation?) {
    if chunks[place] == nil { chunks[place] = .some(was) }
  }

  mutating func willSet(removed item: ItemID, _ was: RemovedItem?) {
    if removed[item] == nil { removed[item] = .some(was) }
  }

  mutating func willSet(_ pack: PackID, _ was: PackRecord?) {
    if packs[pack] == nil { packs[pack] = .some(was) }
  }
}

/// A page of rows as they are, made one of rows as they were. `isLast`: no rows come after it.
func asItWas<Key: Hashable & Comparable, Value>(
  _ rows: [(Key, Value)], after start: Key?, isLast: Bool, _ changed: [Key: Value?]
) -> [(Key, Value)] {
  guard !changed.isEmpty else { return rows }
  var result = Dictionary(rows, uniquingKeysWith: { first, _ in first })
  let end = isLast ? nil : rows.last?.0
  for (key, was) in changed {
    if let start, key <= start { continue }
    if let end, key > end { continue }
    result[key] = was
  }
  return result.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
}
