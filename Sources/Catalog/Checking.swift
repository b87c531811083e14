internal import Foundation
internal import Model
internal import SystemPackage

/// The invariants of `docs/catalog-format.md`, proved or put right.
final class Checking {
  /// What puts a problem right; nil where nothing can without losing what is still there.
  private enum Repair {
    case deleteEntry(parent: InodeNumber, name: ItemName)
    /// A name in the root for what has none.
    case reattach(InodeNumber)
    case setLinkCount(InodeNumber, UInt32)
    case setSize(InodeNumber, UInt64)
    /// The bytes are gone, but the backend has the version.
    case makeRemote(InodeNumber)
    case setExcluded(InodeNumber)
    case rebuildRemoteLinks
    case clearBase(ItemID)
    case removeContent(ContentKey)
  }

  private let engine: Engine
  private let files: [ContentKey]
  private let size: (ContentKey) -> UInt64?
  private var findings: [(problem: Problem, repair: Repair?)] = []
  private var inodes: [InodeNumber: Inode] = [:]
  private var entries: [InodeNumber: [(parent: InodeNumber, name: ItemName)]] = [:]
  private var obsolete: [ContentKey] = []

  init(_ engine: Engine, files: [ContentKey], size: @escaping (ContentKey) -> UInt64?) {
    self.engine = engine
    self.files = files
    self.size = size
  }

  var problems: [Problem] { findings.map(\.problem) }

  private func report(_ text: String, _ repair: Repair? = nil) {
    findings.append((Problem(description: text, isRepairable: repair != nil), repair))
  }

  func check() throws {
    findings = []
    try checkPages()
    try load()
    try checkEntries()
    try checkReach()
    try checkCounts()
    try checkContents()
    try checkRemote()
  }

  // MARK: Finding

  private func checkPages() throws {
    let lines = try engine.database { db in
      try Query("PRAGMA integrity_check(20)").all(db) { $0.text(0) }
    }
    for line in lines where line != "ok" { report("the database: \(line)") }
  }

  private func load() throws {
    var last: Int64 = 0
    while true {
      let page = try engine.database { db in
        try engine.queries.allInodes.all(db, last, Int64(4096)) { try Inode($0) }
      }
      guard let end = page.last else { break }
      for inode in page { inodes[inode.number] = inode }
      last = end.number.column
    }
  }

  private func checkEntries() throws {
    let rows = try engine.database { db in
      try Query("SELECT parent, name, child FROM entry").all(db) { row in
        (row.number(0), try? row.name(1), row.number(2))
      }
    }
    for (parent, name, child) in rows {
      guard let name else {
        report("an entry of inode \(parent) has a name that is not allowed")
        continue
      }
      let remove = Repair.deleteEntry(parent: parent, name: name)
      if inodes[child] == nil {
        report(
          "\"\(name)\" in inode \(parent) names inode \(child), which does not exist", remove)
      } else if inodes[parent]?.kind != .directory {
        report("\"\(name)\" is in inode \(parent), which is not a directory", remove)
      } else if inodes[child]?.kind == .directory, entries[child] != nil {
        report("\"\(name)\" in inode \(parent) is a second name of directory \(child)", remove)
      } else if child == .root {
        report("\"\(name)\" in inode \(parent) names the root directory", remove)
      } else {
        entries[child, default: []].append((parent, name))
      }
    }
  }

  private func checkReach() throws {
    var reached: Set<InodeNumber> = [.root]
    for start in inodes.keys.sorted() {
      var passed: [InodeNumber] = []
      var current = start
      while !reached.contains(current), !passed.contains(current),
        let above = entries[current]?.first?.parent
      {
        passed.append(current)
        current = above
      }
      if reached.contains(current) {
        reached.formUnion(passed)
      } else if let inode = inodes[current] {
        if inode.isOrphan {
          reached.formUnion(passed)
        } else if let begin = passed.firstIndex(of: current) {
          let ring = passed[begin...].map(\.description).joined(separator: ", ")
          report("directories form a cycle: inodes \(ring)", .reattach(current))
          reached.formUnion(passed)
        } else {
          report("inode \(current) has no name", .reattach(current))
          reached.formUnion(passed)
          reached.insert(current)
        }
      }
    }
  }

  private func checkCounts() throws {
    var subdirectories: [InodeNumber: Int] = [:]
    for (child, links) in entries where inodes[child]?.kind == .directory {
      for link in links { subdirectories[link.parent, default: 0] += 1 }
    }
    for (number, inode) in inodes.sorted(by: { $0.key < $1.key }) {
      let names = entries[number]?.count ?? 0
      let expected: Int
      if inode.isOrphan {
        expected = 0
        if names > 0 { report("inode \(number) is an orphan that has a name") }
      } else if inode.kind == .directory {
        expected = 2 + (subdirectories[number] ?? 0)
      } else {
        expected = names
      }
      if Int(inode.linkCount) != expected, inode.isOrphan || names > 0 || number == .root {
        report(
          "inode \(number) has link count \(inode.linkCount) instead of \(expected)",
          .setLinkCount(number, UInt32(clamping: expected)))
      }
      guard !inode.isOrphan, number != .root, let links = entries[number] else { continue }
      let isExcluded = links.allSatisfy {
        $0.name.isExcludedFromSync || inodes[$0.parent]?.isExcluded ?? false
      }
      if isExcluded != inode.isExcluded {
        report(
          "inode \(number) is wrongly \(inode.isExcluded ? "" : "not ")marked as excluded",
          .setExcluded(number))
      }
    }
  }

  private func checkContents() throws {
    var needed: Set<ContentKey> = []
    for (number, inode) in inodes.sorted(by: { $0.key < $1.key }) {
      guard let key = inode.contentKey else { continue }
      needed.insert(key)
      let version = try engine.shownContent(inode)
      guard inode.content == .local else {
        if version == nil {
          report("inode \(number) is a placeholder for an unknown version")
        }
        continue
      }
      guard let found = size(key) else {
        if inode.size > 0 {
          report(
            "inode \(number) has lost its content file \(key)",
            version?.manifest == nil ? nil : .makeRemote(number))
        }
        continue
      }
      if found != inode.size {
        report(
          "inode \(number) has \(inode.size) bytes, but its content file \(key) has \(found)",
          .setSize(number, found))
      }
    }
    for key in files where !needed.contains(key) {
      report("content file \(key) belongs to no inode", .removeContent(key))
    }
  }

  private func checkRemote() throws {
    // A snapshot on its way is no tree yet: records are there before their names. A repair would
    // write these names itself, and the snapshot that brings them would count as damaged.
    if try engine.stagesInPlace() { return }
    var links: [Link: ItemID] = [:]
    let rows = try engine.database { db in
      try Query("SELECT item, record, applied FROM remote").all(db) { row in
        (try row.identifier(0) as ItemID, row.bytes(1), row.bytes(2))
      }
    }
    for (item, record, applied) in rows {
      do {
        let record = try engine.decode(record)
        for link in record?.links ?? [] {
          if links.updateValue(item, forKey: link) != nil {
            report("two remote items have the name \"\(link.name)\" in directory \(link.parent)")
          }
        }
        if let record, record.id != item {
          report("the record of item \(item) belongs to another item")
        }
      } catch {
        report("the record of item \(item) cannot be read")
      }
      do {
        _ = try engine.decode(applied)
      } catch {
        report("the base of item \(item) cannot be read", .clearBase(item))
      }
    }
    let index = try engine.database { db in
      try Query("SELECT parent, name, item FROM remote_link").all(db) { row in
        (
          Link(parent: try row.identifier(0), name: try row.name(1)),
          try row.identifier(2) as ItemID
        )
      }
    }
    let isWrong =
      index.count != links.count || index.contains { link, item in links[link] != item }
    if isWrong {
      report("the index of remote names does not match the records", .rebuildRemoteLinks)
    }
  }

  // MARK: Repairing

  /// Puts right what can be, and gives what was wrong and the content files to unlink.
  func repair() throws -> (repaired: [Problem], obsolete: [ContentKey]) {
    var repaired: [Problem] = []
    for finding in findings {
      guard let repair = finding.repair else { continue }
      try run(repair)
      repaired.append(finding.problem)
    }
    // What repairs did to names shows in counts only now.
    engine.names.removeAll()
    engine.parents.removeAll()
    return (repaired, obsolete)
  }

  private func run(_ repair: Repair) throws {
    switch repair {
    case .deleteEntry(let parent, let name):
      try engine.write { db in
        try engine.queries.deleteEntry.run(db, parent.column, name)
      }
    case .reattach(let number): try reattach(number)
    case .setLinkCount(let number, let count):
      try update(number) { $0.linkCount = count }
    case .setSize(let number, let size):
      try update(number) { inode in
        inode.size = size
        inode.blocks = nil
        inode.version = nil
      }
      engine.mark(try engine.inode(number))
    case .makeRemote(let number):
      let generation = engine.nextNumber()
      let size = try engine.shownContent(try engine.inode(number))?.size
      try update(number) { inode in
        inode.content = .remote
        inode.blocks = nil
        inode.generation = generation
        inode.size = size ?? inode.size
      }
    case .setExcluded(let number):
      engine.parents.removeAll()
      try engine.refreshExclusion(number)
    case .rebuildRemoteLinks: try rebuildRemoteLinks()
    case .clearBase(let item):
      try engine.write { db in
        try Query("UPDATE remote SET applied = NULL, same = 0 WHERE item = ?").run(db, item)
      }
    case .removeContent(let key): obsolete.append(key)
    }
  }

  private func update(_ number: InodeNumber, _ body: (inout Inode) -> Void) throws {
    var inode = try engine.inode(number)
    body(&inode)
    try engine.store(inode)
  }

  private func reattach(_ number: InodeNumber) throws {
    let inode = try engine.inode(number)
    try engine.write { db in
      try Query("DELETE FROM entry WHERE child = ?").run(db, number.column)
    }
    engine.names.removeAll()
    engine.parents.removeAll()
    var attempt = 1
    while true {
      let text = attempt == 1 ? "recovered \(number)" : "recovered \(number) \(attempt)"
      guard let name = try? ItemName(text) else {
        throw CatalogDamage("no name is free for inode \(number)")
      }
      attempt += 1
      guard try engine.child(name, in: .root) == nil else { continue }
      try engine.addEntry(.root, name, inode)
      break
    }
    try update(number) { inode in
      if inode.kind != .directory { inode.linkCount = 1 }
    }
    let isDirectory = inode.kind == .directory
    try engine.touch(
      try engine.inode(.root), at: engine.now, subdirectories: isDirectory ? 1 : 0)
    engine.mark(try engine.inode(number))
    try engine.refreshExclusion(number)
  }

  private func rebuildRemoteLinks() throws {
    let records = try engine.database { db in
      try Query("SELECT record FROM remote WHERE record IS NOT NULL").all(db) { $0.blob(0) }
    }
    try engine.write { db in
      try db.execute("DELETE FROM remote_link")
      let insert = Query(
        "INSERT OR IGNORE INTO remote_link (parent, name, item) VALUES (?, ?, ?)")
      for bytes in records {
        guard let record = try? engine.decode(bytes) else { continue }
        for link in record.links { try insert.run(db, link.parent, link.name, record.id) }
      }
    }
  }
}
