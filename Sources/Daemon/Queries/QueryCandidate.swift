internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import MetadataQueries
internal import Model
internal import SystemPackage

/// An item that a query asks about. What it costs to know is asked for when it is needed, once.
final class QueryCandidate {
  let container: MountedContainer
  let place: QueryPlace
  let name: ItemName
  let inode: Catalog.Inode
  let isPackage: Bool
  let isPinned: Bool
  private var known: ItemSyncStatus?

  init(
    container: MountedContainer, place: QueryPlace, name: ItemName, inode: Catalog.Inode,
    isPackage: Bool, isPinned: Bool
  ) {
    self.container = container
    self.place = place
    self.name = name
    self.inode = inode
    self.isPackage = isPackage
    self.isPinned = isPinned
  }

  private func status() throws(Errno) -> ItemSyncStatus {
    if let known { return known }
    let status = try container.session.coordinator.status(
      of: inode, isPackage: isPackage, isPinned: isPinned)
    known = status
    return status
  }

  func fits(_ matcher: PredicateMatcher) throws(Errno) -> Bool {
    if matcher.needsStatus { _ = try status() }
    return matcher.matches(value)
  }

  private func value(_ attribute: MetadataAttribute) -> MetadataValue {
    switch attribute {
    case .name, .displayName: .text(name.description)
    case .path: .text(path.description)
    case .url: .text("file://" + Self.escaped(path.bytes))
    case .kind: .text(inode.kind.text)
    case .size: .integer(Int64(clamping: inode.size))
    case .created: .date(inode.created.nanoseconds)
    case .modified: .date(inode.modified.nanoseconds)
    case .isUbiquitous: .flag(!inode.isExcluded)
    case .containerDisplayName: .text(container.session.id.description)
    default: plainStatus(attribute.key) ?? known.flatMap { attribute.value(of: $0) } ?? .null
    }
  }

  /// The status attributes that need no look at the log and at transfers.
  private func plainStatus(_ key: String) -> MetadataValue? {
    switch key {
    case "isExcludedFromSync": .flag(inode.isExcluded)
    case "isPackage": .flag(isPackage)
    case "version": inode.version.map { .text($0.description) } ?? .null
    case "itemIdentifier": .text(inode.item.description)
    case "container": .text(container.session.id.description)
    case "isPinned": .flag(isPinned)
    default: nil
    }
  }

  /// As in a URL.
  private static func escaped(_ path: [UInt8]) -> String {
    let plain = Array("/-._~!$&'()*+,=:@".utf8)
    return path.reduce(into: "") { text, byte in
      let scalar = Unicode.Scalar(byte)
      let isPlain =
        byte < 0x80 && scalar.properties.isAlphabetic || 0x30...0x39 ~= byte || plain.contains(byte)
      text += isPlain ? String(Character(scalar)) : "%" + Hex.encode([byte]).uppercased()
    }
  }

  private var path: PathBytes { container.path(of: place) }

  func item() throws(Errno) -> QueryItem {
    QueryItem(
      path: path, name: name.description, kind: inode.kind.text, size: inode.size,
      created: Instant.text(inode.created), modified: Instant.text(inode.modified),
      status: try status())
  }
}

/// A container that programs see, while a query looks at it.
struct MountedContainer {
  let session: ContainerSession
  let mountpoint: [UInt8]

  /// Nil where it is not mounted.
  init?(_ session: ContainerSession) {
    guard let mountpoint = session.mountpoint else { return nil }
    self.session = session
    self.mountpoint = Array(mountpoint.utf8)
  }

  func path(of place: QueryPlace) -> PathBytes { PathBytes(mountpoint + [0x2F] + place) }
}
