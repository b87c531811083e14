internal import Catalog
internal import Coordination
internal import FoundationEssentials
internal import Model
internal import SystemPackage

/// The attributes that tell where an item is, and do things with it. Source: CONTRACT, "Extended
/// attributes".
enum UbiquityAttribute: String, CaseIterable {
  static let prefix = "user.ubiquity."

  case downloadingStatus
  case isDownloading
  case isUploading
  case isUploaded
  case hasUnresolvedConflicts
  case isExcludedFromSync
  case isPinned
  case isPackage
  case nameCollision
  case percentDownloaded
  case percentUploaded
  case localBytes
  case downloadingError
  case uploadingError
  case version
  case itemIdentifier
  case container
  case status
  case evict
  case download
  case pin
  case policy

  init?(name: String) {
    guard name.hasPrefix(Self.prefix) else { return nil }
    self.init(rawValue: String(name.dropFirst(Self.prefix.count)))
  }

  var name: String { Self.prefix + rawValue }

  /// Nil for one that has no value now, or never: those that only do things.
  func value(of status: ItemStatus) -> [UInt8]? {
    func flag(_ value: Bool) -> String { value ? "1" : "0" }
    let text: String? =
      switch self {
      case .downloadingStatus: status.downloadingStatus.rawValue
      case .isDownloading: flag(status.isDownloading)
      case .isUploading: flag(status.isUploading)
      case .isUploaded: flag(status.isUploaded)
      case .hasUnresolvedConflicts: flag(status.hasUnresolvedConflicts)
      case .isExcludedFromSync: flag(status.isExcludedFromSync)
      case .isPinned: flag(status.isPinned)
      case .isPackage: flag(status.isPackage)
      case .nameCollision: flag(status.nameCollision)
      case .percentDownloaded: String(status.percentDownloaded)
      case .percentUploaded: String(status.percentUploaded)
      case .localBytes: status.localBytes.map { String($0) }
      case .downloadingError: status.downloadingError
      case .uploadingError: status.uploadingError
      case .version: status.version
      case .itemIdentifier: status.itemIdentifier
      case .container: status.container
      case .status: Self.json(status)
      case .policy: status.policy
      case .evict, .download, .pin: nil
      }
    return text.map { Array($0.utf8) }
  }

  private static func json(_ status: ItemStatus) -> String? {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    guard let data = try? encoder.encode(status) else { return nil }
    return String(decoding: data, as: UTF8.self)
  }

  /// Whether its value depends on the names beside the item's.
  var comparesNames: Bool { self == .nameCollision || self == .status }

  /// Those that have a value now.
  static func readable(in status: ItemStatus) -> [UbiquityAttribute] {
    allCases.filter { $0.value(of: status) != nil }
  }

  func write(
    _ value: [UInt8], to inode: Inode, of coordinator: ContainerCoordinator, caller: Caller
  ) throws(Errno) {
    // To write it is to ask for it, so that no rule is looked at.
    var requester: Requester? { coordinator.downloads.requester(ofThread: caller.process) }
    switch self {
    case .evict:
      guard try Self.flag(value) else { throw Errno.invalidArgument }
      try coordinator.evict(inode.number)
    case .download:
      guard try Self.flag(value) else { throw Errno.invalidArgument }
      try coordinator.startDownload(
        inode.number, cause: DownloadCause(.attribute, by: requester))
    case .pin:
      try coordinator.setPinned(inode.number, try Self.flag(value), by: requester)
    case .policy:
      guard inode.kind == .directory else { throw Errno.notDirectory }
      let name = value.last == 0x0A ? value.dropLast() : value[...]
      guard let policy = DownloadPolicy(rawValue: String(decoding: name, as: UTF8.self)) else {
        throw Errno.invalidArgument
      }
      try coordinator.setPolicy(inode.number, policy)
    case .isPackage:
      let isPackage = try Self.flag(value)
      guard inode.kind == .directory else { throw Errno.notDirectory }
      try coordinator.catalog.setPackage(inode.number, isPackage)
    default:
      throw Errno.notPermitted
    }
  }

  /// `1` or `0`, with or without the newline that `echo` adds.
  private static func flag(_ value: [UInt8]) throws(Errno) -> Bool {
    switch value {
    case [0x31], [0x31, 0x0A]: true
    case [0x30], [0x30, 0x0A]: false
    default: throw Errno.invalidArgument
    }
  }
}
