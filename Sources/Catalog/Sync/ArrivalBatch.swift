internal import Model

/// Items that are to be made together.
struct ArrivalBatch {
  /// A directory in which items are made.
  struct Place {
    let number: InodeNumber
    /// Before this batch: no name is taken.
    let isEmpty: Bool
  }

  /// Parents first.
  private(set) var records: [ItemRecord] = []
  private(set) var refused: Set<ItemID> = []
  private var chosen: Set<ItemID> = []
  /// Directories that are here; nil for those in which nothing is simply made.
  private var here: [ItemID: Place?] = [:]
  /// Pages of `arrivalPage` of which every item is chosen: those after `after`, up to `last`.
  private(set) var wholePages: [(after: ItemID?, last: ItemID)] = []
  var apart: [ItemID: Bool] = [:]

  func isChosen(_ item: ItemID) -> Bool { chosen.contains(item) }

  func number(of directory: ItemID) -> InodeNumber? { (here[directory] ?? nil)?.number }

  /// Notes that a page of rows, with all between its first and its last, is chosen as a whole.
  mutating func noteWholePage(after: ItemID?, last: ItemID) {
    wholePages.append((after, last))
  }

  func isOfWholePage(_ item: ItemID) -> Bool {
    wholePages.contains { page in
      item <= page.last && page.after.map { $0 < item } ?? true
    }
  }

  mutating func choose(_ record: ItemRecord) {
    if chosen.insert(record.id).inserted { records.append(record) }
  }

  mutating func refuse(_ path: [ItemRecord]) {
    // Only the item itself is known to be refused; above it another name may be what is wrong.
    if let first = path.first { refused.insert(first.id) }
  }

  /// Nil for what is not here; nil within for that in which nothing is simply made.
  mutating func present(_ item: ItemID, _ engine: Engine, _ rule: (ItemRecord) -> Bool) throws
    -> Place??
  {
    if let known = here[item] { return .some(known) }
    guard let inode = try engine.syncedInode(item) else { return nil }
    let isUsable = try inode.kind == .directory && !isApart(item, engine, rule)
    let result =
      isUsable ? Place(number: inode.number, isEmpty: try engine.isEmpty(inode.number)) : nil
    here[item] = .some(result)
    return .some(result)
  }

  /// Whether a directory that is here, or one above it, is to be looked at with all in it.
  private mutating func isApart(_ item: ItemID, _ engine: Engine, _ rule: (ItemRecord) -> Bool)
    throws -> Bool
  {
    var passed: [ItemID] = []
    var current = item
    var result = false
    while current != .root, passed.count < 10_000 {
      if let known = apart[current] {
        result = known
        break
      }
      passed.append(current)
      guard let record = try engine.remote(current) else { break }
      if rule(record) {
        result = true
        break
      }
      guard let link = record.links.first else { break }
      current = link.parent
    }
    for item in passed { apart[item] = result }
    return result
  }
}
