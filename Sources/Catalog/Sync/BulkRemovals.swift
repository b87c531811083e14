package import Model
package import SystemPackage

/// Very many removals: what is gone here or elsewhere, a page at a time.
extension ContainerCatalog {
  /// Items that were in sync and are gone here, in the order of their identities after one, each
  /// with its dirty mark.
  package func removedHere(after item: ItemID?, limit: Int) throws(Errno) -> [(
    item: ItemID, stamp: UInt64
  )] {
    try changeLazily { engine in
      try engine.database { db in
        try engine.queries.removedHere.all(db, item?.bytes ?? [], Int64(limit)) { row in
          (item: try row.identifier(0) as ItemID, stamp: row.unsigned(1))
        }
      }
    }
  }

  /// Items that the log does not have any more and that are not marked as changed here, in the
  /// order of their identities after one.
  package func removedElsewhere(after item: ItemID?, limit: Int) throws(Errno) -> [ItemID] {
    try changeLazily { engine in
      try engine.database { db in
        try engine.queries.removedElsewhere.all(db, item?.bytes ?? [], Int64(limit)) { row in
          try row.identifier(0)
        }
      }
    }
  }
}
