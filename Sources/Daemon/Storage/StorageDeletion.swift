internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Model
internal import SystemPackage

/// What `storage delete` deletes, and how: as a program that removes it from the mount would, with
/// a claim for deleting, whether there is a mount or not. So it goes from every device with the
/// next sync, can be brought back from the trash, and what never leaves the device stays.
struct StorageDeletion {
  /// A name that goes with all below it.
  struct Target {
    let parent: InodeNumber
    let name: ItemName
    let inode: Catalog.Inode
    let path: [ItemName]
  }

  let session: ContainerSession
  private(set) var targets: [Target] = []
  private(set) var documents = 0
  private(set) var items = 0
  private(set) var bytes: UInt64 = 0
  private(set) var kept = 0

  private var catalog: ContainerCatalog { session.catalog }
  private var coordinator: ContainerCoordinator { session.coordinator }

  init(_ session: ContainerSession) { self.session = session }

  // MARK: What goes

  /// Throws `notFound` for what is not there, `usage` for what is no document.
  mutating func add(document path: [UInt8], shown: String) throws(ControlError) {
    let target: Target
    let isDocument: Bool
    do {
      var names: [ItemName] = []
      for component in path.split(separator: 0x2F) { names.append(try ItemName(Array(component))) }
      guard let name = names.last, names.count > 1, names[0] == .documents else {
        throw ControlError(
          .usage,
          "\"\(shown)\" is not in \"Documents\"; delete all other data at once with --other-data")
      }
      var parent = try catalog.inode(.root)
      for name in names.dropLast() {
        guard let next = try catalog.lookup(name, in: parent.number) else {
          throw Errno.noSuchFileOrDirectory
        }
        if try coordinator.isPackage(next) {
          throw ControlError(
            .usage, "\"\(shown)\" is inside a package, which can only be deleted as a whole")
        }
        parent = next
      }
      guard let inode = try catalog.lookup(name, in: parent.number) else {
        throw Errno.noSuchFileOrDirectory
      }
      target = Target(parent: parent.number, name: name, inode: inode, path: names)
      isDocument = try inode.kind != .directory || coordinator.isPackage(inode)
    } catch let error as ControlError {
      throw error
    } catch {
      throw ControlError(
        .notFound,
        "\"\(session.id)\" has no document \"\(shown)\"; list its documents with "
          + "`ubiquityfs storage \(session.id)`")
    }
    guard !Self.staysHere(target.inode) else {
      throw ControlError(
        .notPermitted,
        "\"\(shown)\" is never uploaded (.nosync), so it uses no storage of the account")
    }
    guard isDocument else {
      throw ControlError(
        .usage, "\"\(shown)\" is a directory, not a document; name the documents in it")
    }
    guard !targets.contains(where: { $0.inode.number == target.inode.number }) else { return }
    try count(target)
    documents += 1
  }

  mutating func addDocuments() throws(ControlError) {
    let coordinator = coordinator
    let catalog = catalog
    guard
      let directory = try mapping({ () throws(Errno) in
        try catalog.lookup(.documents, in: .root)
      })
    else { return }
    try addAll(in: directory.number, [.documents])
    let found = try mapping { () throws(Errno) in
      var count = 0
      var pending = [directory.number]
      while let next = pending.popLast() {
        for entry in try Self.entries(of: next, catalog) where !Self.staysHere(entry.inode) {
          let isPackage = try coordinator.isPackage(entry.inode)
          if isPackage || entry.inode.kind != .directory {
            count += 1
          } else {
            pending.append(entry.inode.number)
          }
        }
      }
      return count
    }
    documents += found
  }

  mutating func addOtherData() throws(ControlError) {
    try addAll(in: .root, [])
  }

  private mutating func addAll(in directory: InodeNumber, _ path: [ItemName]) throws(ControlError) {
    let catalog = catalog
    let entries = try mapping { () throws(Errno) in try Self.entries(of: directory, catalog) }
    for entry in entries where entry.inode.item != .documents {
      let target = Target(
        parent: directory, name: entry.name, inode: entry.inode, path: path + [entry.name])
      if Self.staysHere(entry.inode) {
        kept += 1
      } else {
        try count(target)
      }
    }
  }

  private mutating func count(_ target: Target) throws(ControlError) {
    targets.append(target)
    let catalog = catalog
    let below = try mapping { () throws(Errno) in try Self.tree(target, catalog) }
    for one in below {
      if Self.staysHere(one.inode) {
        kept += 1
      } else {
        items += 1
        if one.inode.kind == .file { bytes &+= one.inode.size }
      }
    }
  }

  private static func staysHere(_ inode: Catalog.Inode) -> Bool {
    inode.isExcluded || !inode.kind.isSynced
  }

  private static func entries(of directory: InodeNumber, _ catalog: ContainerCatalog)
    throws(Errno) -> [DirectoryEntry]
  {
    var result: [DirectoryEntry] = []
    while true {
      let page = try catalog.readDirectory(
        directory, after: result.last?.offset ?? 0, limit: 512)
      guard !page.isEmpty else { return result }
      result += page
    }
  }

  /// The target and all below it, directories before what is in them. Of what stays here nothing is
  /// looked into.
  private static func tree(_ target: Target, _ catalog: ContainerCatalog) throws(Errno) -> [Target]
  {
    var result = [target]
    var next = 0
    while next < result.count {
      let one = result[next]
      next += 1
      guard one.inode.kind == .directory, !staysHere(one.inode) else { continue }
      for entry in try entries(of: one.inode.number, catalog) {
        result.append(
          Target(
            parent: one.inode.number, name: entry.name, inode: entry.inode,
            path: one.path + [entry.name]))
      }
    }
    return result
  }

  private func mapping<Value>(_ body: () throws(Errno) -> Value) throws(ControlError) -> Value {
    do throws(Errno) { return try body() } catch {
      throw ControlError(.failed, "cannot read \"\(session.id)\": \(error)")
    }
  }

  // MARK: Deleting

  /// Those that everything is claimed by before it goes.
  func accesses() throws(ControlError) -> [ClaimAccess] {
    try targets.map { target throws(ControlError) in
      try mapping { () throws(Errno) in
        ClaimAccess(try coordinator.claimed(target.path).path, .writing(.forDeleting))
      }
    }
  }

  /// Under the claims. What was put into a directory meanwhile goes with it.
  mutating func run() throws(ControlError) {
    var stayed = 0
    for target in targets {
      stayed += try mapping { () throws(Errno) in
        var stayed = 0
        for one in try Self.tree(target, catalog).reversed() where !Self.staysHere(one.inode) {
          if try !remove(one) { stayed += 1 }
        }
        return stayed
      }
    }
    items -= min(items, stayed)
    try mapping { () throws(Errno) in try catalog.commit(durable: true) }
  }

  /// False: a directory stays, for what stays in it or came this moment.
  private func remove(_ target: Target) throws(Errno) -> Bool {
    let gone: Catalog.Inode
    do throws(Errno) {
      gone = try coordinator.changeNames { () throws(Errno) in
        let gone = try catalog.remove(
          target.name, in: target.parent, directory: target.inode.kind == .directory)
        return (
          gone,
          [
            .entry(parent: target.parent, name: target.name), .attributes(target.parent),
            .attributes(gone.number),
          ]
        )
      }
    } catch .directoryNotEmpty {
      return false
    } catch .noSuchFileOrDirectory {
      return true
    }
    if gone.isOrphan { coordinator.reclaim(gone.number) }
    coordinator.tell(.removed, target.name, in: target.parent)
    return true
  }
}
