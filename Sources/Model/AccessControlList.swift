/// A POSIX access control list, as the attributes `system.posix_acl_access` and
/// `system.posix_acl_default` hold it. Source: acl(5); include/uapi/linux/posix_acl_xattr.h.
package struct AccessControlList: Hashable, Sendable {
  package static let access = "system.posix_acl_access"
  /// Of a directory: what is made in it begins with this list.
  package static let initial = "system.posix_acl_default"

  package static func isName(_ name: String) -> Bool { name == access || name == initial }

  private enum Tag: UInt16 {
    case owner = 0x01
    case user = 0x02
    case owningGroup = 0x04
    case group = 0x08
    case mask = 0x10
    case others = 0x20
  }

  private struct Entry: Hashable {
    var tag: Tag
    var permissions: UInt16
    /// Of a user or group; otherwise all bits are set.
    var id: UInt32
  }

  package struct Invalid: Error {}

  private static let version: UInt32 = 2
  private static let entrySize = 8
  /// More are in no attribute of 64 KiB.
  private static let mostEntries = 8191

  private var entries: [Entry]

  /// Nil for a list without entries, which stands for none.
  package init?(decoding bytes: [UInt8]) throws(Invalid) {
    func number(_ offset: Int, _ count: Int) -> UInt32 {
      (0..<count).reduce(0) { $0 | UInt32(bytes[offset + $1]) << (8 * UInt32($1)) }
    }
    guard bytes.count >= 4, number(0, 4) == Self.version,
      (bytes.count - 4) % Self.entrySize == 0,
      (bytes.count - 4) / Self.entrySize <= Self.mostEntries
    else { throw Invalid() }
    var entries: [Entry] = []
    for offset in stride(from: 4, to: bytes.count, by: Self.entrySize) {
      guard let tag = Tag(rawValue: UInt16(number(offset, 2))) else { throw Invalid() }
      let permissions = UInt16(number(offset + 2, 2))
      guard permissions <= 7 else { throw Invalid() }
      entries.append(Entry(tag: tag, permissions: permissions, id: number(offset + 4, 4)))
    }
    guard !entries.isEmpty else { return nil }
    self.entries = entries
    guard isValid else { throw Invalid() }
  }

  /// One entry each for the owner, the owning group and others, and a mask where others are named;
  /// in the order of the tags.
  private var isValid: Bool {
    func count(_ tag: Tag) -> Int { entries.count { $0.tag == tag } }
    let isNaming = count(.user) + count(.group) > 0
    return count(.owner) == 1 && count(.owningGroup) == 1 && count(.others) == 1
      && count(.mask) <= 1 && (!isNaming || count(.mask) == 1)
      && zip(entries, entries.dropFirst()).allSatisfy { $0.tag.rawValue <= $1.tag.rawValue }
  }

  package var encoded: [UInt8] {
    func bytes(_ value: UInt32, _ count: Int) -> [UInt8] {
      (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * UInt32($0))) }
    }
    return entries.reduce(into: bytes(Self.version, 4)) { result, entry in
      result += bytes(UInt32(entry.tag.rawValue), 2)
      result += bytes(UInt32(entry.permissions), 2)
      result += bytes(entry.id, 4)
    }
  }

  /// The mode says all of it.
  package var isMinimal: Bool { entries.count == 3 }

  private func permissions(_ tag: Tag) -> UInt16? {
    entries.first { $0.tag == tag }?.permissions
  }

  /// `mode` with the permissions of this list: those of the group are the mask where there is one.
  package func mode(over mode: UInt16) -> UInt16 {
    let owner = permissions(.owner) ?? 0
    let group = permissions(.mask) ?? permissions(.owningGroup) ?? 0
    let others = permissions(.others) ?? 0
    return mode & ~0o777 | owner << 6 | group << 3 | others
  }

  /// Follows a change of the mode. Source: chmod(2) in acl(5).
  package mutating func follow(mode: UInt16) {
    let hasMask = permissions(.mask) != nil
    for index in entries.indices {
      switch entries[index].tag {
      case .owner: entries[index].permissions = mode >> 6 & 7
      case .mask: entries[index].permissions = mode >> 3 & 7
      case .owningGroup where !hasMask: entries[index].permissions = mode >> 3 & 7
      case .others: entries[index].permissions = mode & 7
      case .owningGroup, .user, .group: break
      }
    }
  }

  /// Of a directory's initial list, for what is made in it with `mode`: the new item's own list,
  /// which grants no more than `mode` asks for, and its mode. Source: acl(5), "Object creation".
  package func inherited(mode: UInt16) -> (list: AccessControlList, mode: UInt16) {
    var list = self
    let hasMask = permissions(.mask) != nil
    for index in list.entries.indices {
      switch list.entries[index].tag {
      case .owner: list.entries[index].permissions &= mode >> 6 & 7
      case .mask: list.entries[index].permissions &= mode >> 3 & 7
      case .owningGroup where !hasMask: list.entries[index].permissions &= mode >> 3 & 7
      case .others: list.entries[index].permissions &= mode & 7
      case .owningGroup, .user, .group: break
      }
    }
    return (list, list.mode(over: mode))
  }
}
