internal import Model

/// Where a chunk is, in the order in which chunks are read.
struct ChunkPlace: Hashable, Comparable {
  let pack: PackID
  let offset: UInt64

  static func < (left: Self, right: Self) -> Bool {
    (left.pack, left.offset) < (right.pack, right.offset)
  }
}

/// How things were when somebody began to read the folded state page by page, of all that folding
/// has changed since. So the pages together are one moment's state, and nobody waits for their
/// reader.
///
/// Only the first change of a thing counts: before it, it was as at the beginning. What is noted in
/// an operation that is taken back does no harm, for it says the same as the database.
///
/// It takes at most `limit` bytes: where so much changes, the reader begins anew at another time.
struct FoldTracking {
  static let limit = 16 << 20

  private(set) var items = ChangedRows<ItemID, [UInt8]>()
  private(set) var chunks = ChangedRows<ChunkPlace, ChunkLocation>()
  private(set) var removed = ChangedRows<ItemID, RemovedItem>()
  private(set) var packs = ChangedRows<PackID, PackRecord>()
  private var weight = 0
  private let limit: Int
  /// The beginning is not to be had any more: everything was replaced, or too much changed.
  private(set) var isBroken = false
  let token: UInt64

  init(token: UInt64, limit: Int = FoldTracking.limit) {
    self.token = token
    self.limit = limit
  }

  mutating func giveUp() {
    self = FoldTracking(token: token, limit: limit)
    isBroken = true
  }

  mutating func willSet(_ item: ItemID, _ was: [UInt8]?) {
    if !isBroken, items.note(item, was) { add(was?.count ?? 0) }
  }

  mutating func willSet(_ place: ChunkPlace, _ was: ChunkLocation?) {
    if !isBroken, chunks.note(place, was) { add(was == nil ? 0 : 128) }
  }

  mutating func willSet(removed item: ItemID, _ was: RemovedItem?) {
    if !isBroken, removed.note(item, was) { add(was == nil ? 0 : 384) }
  }

  mutating func willSet(_ pack: PackID, _ was: PackRecord?) {
    if !isBroken, packs.note(pack, was) { add(0) }
  }

  /// The reader needs nothing more of the items up to this one. Only for a reader that looks at
  /// each item once.
  mutating func hasRead(itemsUpTo item: ItemID) { items.passed = item }

  mutating func hasReadItems() { items.passed = ItemID(high: .max, low: .max) }

  /// `bytes`: of the old value. Each takes a place in a table, which may be half empty, besides.
  private mutating func add(_ bytes: Int) {
    weight += bytes + 128
    guard weight > limit else { return }
    let dropped = items.dropPassed()
    for was in dropped.values { weight -= was.count + 128 }
    weight -= dropped.absent * 128
    // Not so little that the next few changes make it look through all again.
    if weight > limit / 4 * 3 { giveUp() }
  }
}

/// Old values of changed rows.
///
/// Rows that did not exist are apart from those that did, because a place for an old value is much
/// larger than a key.
struct ChangedRows<Key: Hashable & Comparable, Value> {
  private var old: [Key: Value] = [:]
  private var absent: Set<Key> = []
  /// Rows up to this one are not asked for any more.
  var passed: Key?

  var keys: [Key] { Array(old.keys) + absent }

  /// Whether it is noted now. `was`: nil for a row that did not exist.
  mutating func note(_ key: Key, _ was: Value?) -> Bool {
    if let passed, key <= passed { return false }
    guard old[key] == nil, !absent.contains(key) else { return false }
    if let was { old[key] = was } else { absent.insert(key) }
    return true
  }

  /// Gives the old values of those that existed, and how many did not.
  mutating func dropPassed() -> (values: [Value], absent: Int) {
    guard let passed else { return ([], 0) }
    let dropped = old.filter { $0.key <= passed }
    for key in dropped.keys { old[key] = nil }
    let before = absent.count
    absent = absent.filter { $0 > passed }
    return (Array(dropped.values), before - absent.count)
  }

  /// A page of rows as they are, made one of rows as they were. `isLast`: no rows come after it.
  func asItWas(_ rows: [(Key, Value)], after start: Key?, isLast: Bool) -> [(Key, Value)] {
    guard !old.isEmpty || !absent.isEmpty else { return rows }
    let end = isLast ? nil : rows.last?.0
    func isOfPage(_ key: Key) -> Bool {
      if let start, key <= start { return false }
      if let end, key > end { return false }
      return true
    }
    var result = Dictionary(rows, uniquingKeysWith: { first, _ in first })
    for (key, was) in old where isOfPage(key) { result[key] = was }
    for key in absent where isOfPage(key) { result[key] = nil }
    return result.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }
}
