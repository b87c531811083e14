internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Model
internal import SyncEngine
internal import SystemPackage

/// What of a container takes room in its account: the documents one by one, and all that is outside
/// of `Documents` as one sum. As the log has it, each item once. Source: Apple's Guide, "Ubiquity
/// Containers Have Minimal Structure".
struct StorageListing {
  struct Document {
    let path: [ItemName]
    let kind: String
    var bytes: UInt64
    var modified: Timestamp
    var isUploaded: Bool
    /// The log has it, and so it counts.
    var isLogged = true
  }

  /// The largest first.
  private(set) var documents: [Document] = []
  private(set) var otherBytes: UInt64 = 0
  private(set) var otherItems = 0
  private(set) var conflictBytes: UInt64 = 0
  private(set) var conflictVersions = 0
  private(set) var removedBytes: UInt64 = 0
  private(set) var removedItems = 0
  let totalBytes: UInt64

  private let catalog: ContainerCatalog
  private let coordinator: ContainerCoordinator

  init(_ session: ContainerSession) throws(Errno) {
    catalog = session.catalog
    coordinator = session.coordinator
    totalBytes = try catalog.usage()
    try addLogged()
    try addLocal()
    documents.sort { left, right in
      left.bytes != right.bytes
        ? left.bytes > right.bytes
        : left.path.lexicographicallyPrecedes(right.path)
    }
    for key in (try? session.sync.removedKeys()) ?? [] {
      guard let item = try? catalog.removedItem(key.item) else { continue }
      removedItems += 1
      removedBytes &+= item.record.allottedBytes
    }
  }

  var documentBytes: UInt64 { documents.filter(\.isLogged).reduce(0) { $0 &+ $1.bytes } }

  // MARK: What the log has

  private struct Place {
    let directory: ItemID
    let path: [ItemName]
    /// The index of the package that it is in.
    var document: Int?
  }

  private mutating func addLogged() throws(Errno) {
    var pending = [Place(directory: .root, path: [])]
    if let root = try catalog.remote(.root) { addConflicts(of: root) }
    while let place = pending.popLast() {
      for child in try catalog.remoteChildren(of: place.directory) {
        // Of an item with several names the first counts.
        guard let record = try catalog.remote(child), let link = record.links.first,
          link.parent == place.directory
        else { continue }
        addConflicts(of: record)
        let path = place.path + [link.name]
        let isInside = path.count > 1 && path[0] == .documents
        var document = place.document
        if isInside, document == nil {
          if record.kind != .directory {
            documents.append(
              Document(
                path: path, kind: record.kind.text, bytes: record.content?.size ?? 0,
                modified: record.modified, isUploaded: Self.isUploaded(record)))
          } else if coordinator.packages.isPackage(record) {
            document = documents.count
            documents.append(
              Document(
                path: path, kind: "package", bytes: 0, modified: record.modified, isUploaded: true))
          }
        } else if let document, record.kind != .directory {
          documents[document].bytes &+= record.content?.size ?? 0
          documents[document].modified = max(documents[document].modified, record.modified)
          if !Self.isUploaded(record) { documents[document].isUploaded = false }
        } else if !isInside, record.id != .documents {
          otherItems += 1
          otherBytes &+= record.content?.size ?? 0
        }
        if record.kind == .directory {
          pending.append(Place(directory: child, path: path, document: document))
        }
      }
    }
  }

  private mutating func addConflicts(of record: ItemRecord) {
    conflictVersions += record.conflicts.count
    for version in record.conflicts { conflictBytes &+= version.size }
  }

  private static func isUploaded(_ record: ItemRecord) -> Bool {
    record.content.map { $0.manifest != nil } ?? true
  }

  // MARK: What only this device has

  private mutating func addLocal() throws(Errno) {
    var found: [[ItemName]: Document] = [:]
    for item in try catalog.differing() {
      guard try catalog.remote(item) == nil, let local = try catalog.local(item),
        local.record.kind == .file, let names = try catalog.path(of: local.inode.number),
        names.count > 1, names[0] == .documents
      else { continue }
      var path = names
      var kind = local.record.kind.text
      var directory = InodeNumber.root
      var isListed = false
      for (index, name) in names.dropLast().enumerated() {
        guard let next = try catalog.lookup(name, in: directory) else { break }
        directory = next.number
        guard try coordinator.isPackage(next) else { continue }
        isListed = try catalog.remote(next.item) != nil
        path = Array(names[...index])
        kind = "package"
        break
      }
      guard !isListed else { continue }
      var document =
        found[path]
        ?? Document(
          path: path, kind: kind, bytes: 0, modified: local.inode.modified, isUploaded: false,
          isLogged: false)
      document.bytes &+= local.inode.size
      document.modified = max(document.modified, local.inode.modified)
      found[path] = document
    }
    documents += found.values
  }
}

extension ContainerStorage {
  init(_ session: ContainerSession, _ listing: StorageListing) {
    let waiting = session.sync.waitingForRoom
    self.init(
      id: session.id.description, totalBytes: listing.totalBytes,
      documents: listing.documents.map { document in
        ListedDocument(
          path: PathBytes(DaemonService.bytes(document.path)), kind: document.kind,
          size: document.bytes, modified: Instant.text(document.modified),
          isUploaded: document.isUploaded)
      },
      documentBytes: listing.documentBytes, otherBytes: listing.otherBytes,
      otherItems: listing.otherItems, conflictBytes: listing.conflictBytes,
      conflictVersions: listing.conflictVersions, removedBytes: listing.removedBytes,
      removedItems: listing.removedItems, waitingFiles: waiting.files, waitingBytes: waiting.bytes)
  }
}
