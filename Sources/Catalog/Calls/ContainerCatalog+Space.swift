package import Model
package import SystemPackage

/// What contents take on this device's disk.
extension ContainerCatalog {
  /// The bytes that all local contents take, those of orphans too. Counted when it is first asked
  /// for, and kept up to date from then on.
  package func heldBytes() throws(Errno) -> UInt64 {
    try run { try $0.currentHeld() &* 512 }
  }

  /// Visits every file whose content is here, a page at a time, so that nobody waits for long. What
  /// comes or goes meanwhile may be visited or not.
  package func forEachHeldFile(_ body: (HeldFile) -> Void) throws(Errno) {
    var next: InodeNumber? = InodeNumber(0)
    while let start = next {
      let page = try run { try $0.heldFiles(after: start, limit: 2048) }
      for file in page.files { body(file) }
      next = page.next
    }
  }

  /// Asks the content files what they take: all of them, or those of which it is not known. To be
  /// called before anything is open. Gives how many rows were wrong.
  package func recount(
    all: Bool, _ probe: (ContentKey) throws(Errno) -> UInt64?
  ) throws(Errno) -> Int {
    var unsure: [HeldFile] = []
    try forEachHeldFile { if all || $0.blocks == nil { unsure.append($0) } }
    var wrong = 0
    for file in unsure {
      // An empty file may have no content file; that others have one is for `fsck` to see.
      let blocks = try probe(file.key) ?? 0
      guard file.blocks != blocks else { continue }
      wrong += 1
      try noteBlocks(file.key, of: file.number, blocks)
    }
    if wrong > 0 { try commit(durable: false) }
    return wrong
  }
}
