package import Model

/// How far the search for items of other devices has come, of those that meet nothing here. A plan
/// would only say that they are to be made, so they need none: a device that is new in a large
/// container shows it bit by bit, instead of planning all of it first.
///
/// Directories come first, from the root down, so that the top can be listed at once. The other
/// items come by identity, which is the order of their records. A page of these is read before the
/// page ahead of it is made, and another processor decodes it meanwhile.
package struct ArrivalCursor: Sendable {
  /// The number of items that are looked at from the root down.
  private static let top = 2_000

  /// To be looked into, from `next` on.
  private var directories: [ItemID] = [.root, .documents]
  private var next = 0
  private var seen = 0
  /// The last name that was seen in the first of them.
  var name: ItemName?
  var item: ItemID?
  /// The page after `item`: first while it is decoded, then the result.
  var coming: Task<ArrivalPage, Never>?
  var page: ArrivalPage?
  /// Directories after `item` that the last batch made. The next page was read before that, so it
  /// may have them.
  var early: Set<ItemID> = []
  /// Directories in which something is made; true: they are to be looked at with all that is in
  /// them. As the log was at `position`.
  var apart: [ItemID: Bool] = [:]
  var position = LogPosition.start
  package internal(set) var isDone = false

  package init() {}

  /// Waits until the next page is decoded. Without this call the page is read and decoded again.
  package mutating func prepare() async {
    page = await coming?.value
    coming = nil
  }

  var directory: ItemID? { next < directories.count ? directories[next] : nil }

  mutating func looked(at count: Int, upTo last: ItemName?, isEnd: Bool) {
    name = isEnd ? nil : last
    if isEnd { next += 1 }
    seen += count
    if seen >= Self.top { directories = [] }
  }

  mutating func add(_ records: ArraySlice<ItemRecord>) {
    guard seen < Self.top, directories.count < Self.top else { return }
    directories += records.filter { $0.kind == .directory }.map(\.id)
  }
}

/// A page of records by identity, as the database has them.
struct ArrivalRows {
  /// The position of the log when the rows were read.
  let position: LogPosition
  let after: ItemID?
  let last: ItemID?
  let isLast: Bool
  /// Nil for an item that is here or was, or that has a mark.
  let rows: [[UInt8]?]

  /// Needs no lock.
  func decoded() -> ArrivalPage {
    ArrivalPage(rows: self, records: Result { try rows.map { try decodeRecord($0) } })
  }
}

struct ArrivalPage {
  let rows: ArrivalRows
  let records: Result<[ItemRecord?], any Error>
}
