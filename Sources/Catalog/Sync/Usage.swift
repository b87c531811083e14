internal import Model
package import SystemPackage

/// The container's share of its account's allotment, as the log folds to here. Kept up to date
/// by every fold and by every snapshot; summed up from the records where it is not known, which is
/// once in a catalog from before there was such a sum.
extension Engine {
  private static let usage = "usage"

  /// Nil: it is to be summed up.
  func knownUsage() throws -> UInt64? {
    try database { db in try queries.metaGet.first(db, Self.usage) { $0.unsigned(0) } }
  }

  func setUsage(_ bytes: UInt64) throws {
    try write { db in try queries.metaSet.run(db, Self.usage, bytes.column) }
  }

  func sumUsage() throws -> UInt64 {
    var sum: UInt64 = 0
    var last: ItemID?
    while true {
      let page = try remotePage(after: last)
      for (_, bytes) in page.rows { sum &+= try decode(bytes)?.allottedBytes ?? 0 }
      guard !page.isLast else { return sum }
      last = page.rows.last?.0
    }
  }
}

extension ContainerCatalog {
  /// The sum of `allottedBytes` over the items of the log.
  package func usage() throws(Errno) -> UInt64 {
    if let known = try optional({ try $0.knownUsage() }) { return known }
    return try changeLazily { engine in
      // A part of a snapshot would stay the sum if the device gave the snapshot up.
      if try engine.hidesRemoteTree { return 0 }
      let sum = try engine.sumUsage()
      try engine.setUsage(sum)
      return sum
    }
  }
}
