package import Model
package import SystemPackage

/// What the guard against mass deletions remembers over a restart. What it means is decided in
/// `SyncEngine`; here it is one row of `meta`.
package struct DeletionRecord: Hashable, Sendable {
  /// Removals that this device committed, counted from the first one on.
  package struct Window: Hashable, Sendable {
    package var began: Timestamp
    /// How many items the container had then.
    package var items: Int
    /// How many of these this device has removed since.
    package var removed: Int

    package init(began: Timestamp, items: Int, removed: Int) {
      self.began = began
      self.items = items
      self.removed = removed
    }
  }

  package var window: Window?
  /// Removals wait for the user.
  package var isHeld = false
  /// Removals with dirty marks up to this are confirmed. Marks only grow, so this names exactly
  /// what was gone when the user said so.
  package var confirmed: UInt64 = 0
  /// What is removed until then belongs to what was confirmed.
  package var confirmedUntil: Timestamp?
  /// Removals with dirty marks up to this are to be undone; 0 when there are none.
  package var restoring: UInt64 = 0

  package init() {}
}

extension DeletionRecord {
  private static let fields = 7

  /// Seven numbers of 8 bytes, the highest first; 0 for a time that is not there.
  init(decoding bytes: [UInt8]) throws(CatalogDamage) {
    guard bytes.count == Self.fields * 8 else {
      throw CatalogDamage("the record of mass deletions has \(bytes.count) bytes")
    }
    let numbers = (0..<Self.fields).map { field in
      bytes[field * 8..<field * 8 + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    }
    func time(_ number: UInt64) -> Timestamp? {
      number == 0 ? nil : Timestamp(nanoseconds: Int64(bitPattern: number))
    }
    if let began = time(numbers[0]) {
      window = Window(
        began: began, items: Int(clamping: numbers[1]), removed: Int(clamping: numbers[2]))
    }
    isHeld = numbers[3] != 0
    confirmed = numbers[4]
    confirmedUntil = time(numbers[5])
    restoring = numbers[6]
  }

  var encoded: [UInt8] {
    func number(_ time: Timestamp?) -> UInt64 { UInt64(bitPattern: time?.nanoseconds ?? 0) }
    let numbers = [
      number(window?.began), UInt64(window?.items ?? 0), UInt64(window?.removed ?? 0),
      isHeld ? 1 : 0, confirmed, number(confirmedUntil), restoring,
    ]
    return numbers.flatMap { number in
      stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt64($0)) }
    }
  }
}

extension ContainerCatalog {
  private static let deletions = "deletions"

  package func deletionRecord() throws(Errno) -> DeletionRecord {
    try run { engine in
      let bytes = try engine.database { db in
        try engine.queries.metaGet.first(db, Self.deletions) { $0.blob(0) }
      }
      return try bytes.map { try DeletionRecord(decoding: $0) } ?? DeletionRecord()
    }
  }

  /// Kept like the sync engine's other changes: in their order, and not lost alone.
  package func setDeletionRecord(_ record: DeletionRecord) throws(Errno) {
    try changeLazily { engine in
      try engine.write { db in
        try engine.queries.metaSet.run(db, Self.deletions, record.encoded)
      }
    }
  }

  /// How many items the log has, as far as it is folded; with those that were removed elsewhere and
  /// are still shown here. Counts an index, so that it takes no record.
  package func loggedItemCount() throws(Errno) -> Int {
    try run { engine in
      try engine.database { db in
        try engine.queries.remoteCount.first(db) { Int($0.integer(0)) } ?? 0
      }
    }
  }

  /// The same without directories that hold others.
  package func loggedLeafCount() throws(Errno) -> Int {
    try run { engine in
      try engine.database { db in
        let all = try engine.queries.remoteCount.first(db) { Int($0.integer(0)) } ?? 0
        let filled = try engine.queries.filledDirectoryCount.first(db) { Int($0.integer(0)) } ?? 0
        return max(0, all - filled)
      }
    }
  }
}
