package import Model
package import SystemPackage

/// One item in the three trees. Nil: it is not in that tree.
package struct ItemDifference: Sendable {
  package var local: LocalItem?
  package var base: ItemRecord?
  package var remote: ItemRecord?
  /// The mark of the newest change here that the log does not have.
  package var stamp: UInt64?
  /// A program has it open for writing.
  package var isOpenForWriting = false
}

extension ContainerCatalog {
  /// So few items are read again without letting requests in between.
  private static let lastPass = 64
  /// When programs change things as fast as they are read here, requests wait for one pass.
  private static let passLimit = 12

  /// The items in which the trees differ, all of them as they were at one moment: a plan that is
  /// made of a directory from after its removal and of a file in it from before fits no tree.
  ///
  /// Requests are not held up meanwhile. Items are read one by one, and what changed in that time
  /// is read again, until so little is left that it can be read in one go.
  ///
  /// `isOpenForWriting` is asked under the catalog's lock, together with the item: a close notes
  /// what was written before the file counts as closed, so that none is seen as closed without it.
  ///
  /// `only`: of these items alone.
  package func differences(
    of only: [ItemID]? = nil, isOpenForWriting: (InodeNumber) -> Bool
  ) throws(Errno) -> [ItemID: ItemDifference] {
    defer { engine.withLock { $0.touched = nil } }
    var left = try changeLazily { engine in
      engine.touched = []
      return try only ?? engine.differing()
    }
    let wanted = only.map { Set($0) }
    // An item takes about a kilobyte here: a dictionary that grows has it twice for a moment.
    var result: [ItemID: ItemDifference] = [:]
    result.reserveCapacity(left.count)
    var pass = 0
    while true {
      for item in left { result[item] = try run { try $0.difference(item, isOpenForWriting) } }
      pass += 1
      left = try run { engine in
        var touched = engine.touched ?? []
        if let wanted { touched.formIntersection(wanted) }
        engine.touched = []
        guard touched.count <= Self.lastPass || pass >= Self.passLimit else {
          return Array(touched)
        }
        for item in touched { result[item] = try engine.difference(item, isOpenForWriting) }
        return []
      }
      if left.isEmpty { break }
    }
    let settled = result.compactMap { $1.stamp == nil && $1.base == $1.remote ? $0 : nil }
    for item in settled { result[item] = nil }
    return result
  }
}

extension Engine {
  fileprivate func difference(
    _ item: ItemID, _ isOpenForWriting: (InodeNumber) -> Bool
  ) throws -> ItemDifference {
    let local = try local(item)
    let row = try remoteRow(item)
    let base = try decode(row?.applied)
    // One record for both where they are the same: there may be very many.
    let remote = row?.record == row?.applied ? base : try decode(row?.record)
    return ItemDifference(
      local: local, base: base, remote: remote,
      stamp: try local?.stamp ?? stamp(item),
      isOpenForWriting: local.map { isOpenForWriting($0.inode.number) } ?? false)
  }
}
