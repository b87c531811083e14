internal import Catalog
internal import Coordination
internal import FoundationEssentials
internal import Model
internal import SystemPackage

/// An extended attribute `user.ubiquity.*`: one that tells something of an item, or one that does
/// something when it is written. Source: CONTRACT, "Extended attributes".
struct UbiquityAttribute {
  static let prefix = "user.ubiquity."

  /// Attributes that can be written.
  enum Action: String {
    case evict, download, pin, policy, isPackage
  }

  /// All status attributes as one JSON object.
  private static let all = "status"

  private let shortName: String
  private let status: StatusAttribute?
  let action: Action?

  init?(name: String) {
    guard name.hasPrefix(Self.prefix) else { return nil }
    self.init(shortName: String(name.dropFirst(Self.prefix.count)))
  }

  private init?(shortName: String) {
    self.shortName = shortName
    status = StatusAttribute.named(shortName)
    action = Action(rawValue: shortName)
    guard status != nil || action != nil || shortName == Self.all else { return nil }
  }

  /// Nil: the attribute has no value now, or never, as those that only do something.
  func value(of item: ItemSyncStatus) -> [UInt8]? {
    if shortName == Self.all { return Self.json(item) }
    // A file that was never uploaded has an empty version.
    if shortName == "version", item.version == nil { return [] }
    return status?.value(item).map { Array($0.text.utf8) }
  }

  private static func json(_ item: ItemSyncStatus) -> [UInt8]? {
    var shown = item
    shown.version = item.version ?? ""
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return (try? encoder.encode(shown)).map { Array($0) }
  }

  /// Whether its value depends on the names of other items in the directory.
  var comparesNames: Bool { status?.comparesNames ?? (shortName == Self.all) }

  /// The names of the attributes that have a value now.
  static func readable(in item: ItemSyncStatus) -> [String] {
    let names = ItemSyncStatus.attributes.map(\.name) + [all]
    return names.compactMap { name in
      guard let attribute = UbiquityAttribute(shortName: name),
        attribute.comparesNames || attribute.value(of: item) != nil
      else { return nil }
      return prefix + name
    }
  }

  /// Throws EPERM for an attribute that can only be read.
  func write(
    _ value: [UInt8], to inode: Inode, of coordinator: ContainerCoordinator, caller: Caller
  ) throws(Errno) {
    // To write it is to ask for it, so no download rule applies.
    var requester: Requester? { coordinator.downloads.requester(ofThread: caller.process) }
    switch action {
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
    case nil:
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
