package import Catalog
internal import Coordination
internal import Model
internal import Platform
package import SystemPackage

/// Extended attributes.
///
/// `user.ubiquity.*` is computed (see `UbiquityAttribute`); all other `user.*` are the user's and
/// synced, as are access control lists; `security.*` and `trusted.*` stay on the device, which the
/// catalog sees to. Source: xattr(7).
extension ContainerFileSystem {
  package static let longestAttributeName = 255
  package static let longestAttributeValue = 65536

  private enum Space {
    case ubiquity(String)
    case user(String)
    case local(String)
    /// An access control list.
    case list(String)
  }

  package func attribute(_ name: [UInt8], of number: InodeNumber) throws(Errno) -> [UInt8] {
    switch try space(name) {
    case .ubiquity(let name):
      _ = try inode(number)
      guard let attribute = UbiquityAttribute(name: name),
        let value = attribute.value(
          of: try coordinator.status(of: number, comparesNames: attribute.comparesNames))
      else { throw Errno.noData }
      return value
    case .user(let name):
      guard try holdsUserAttributes(number) else { throw Errno.noData }
      return try catalog.attribute(name, of: number)
    case .local(let name), .list(let name):
      return try catalog.attribute(name, of: number)
    }
  }

  package func setAttribute(
    _ name: [UInt8], _ value: [UInt8], mode: AttributeMode, of number: InodeNumber,
    caller: Caller = Caller(user: 0, group: 0)
  ) throws(Errno) {
    if doneBefore(caller.request) != nil { return }
    guard value.count <= Self.longestAttributeValue else { throw Errno.argListTooLong }
    switch try space(name) {
    case .ubiquity(let name):
      let inode = try inode(number)
      guard let attribute = UbiquityAttribute(name: name) else { throw Errno.notSupported }
      try attribute.write(value, to: inode, of: coordinator, caller: caller)
      try noteChanged(number)
      if attribute.action == .isPackage {
        coordinator.tell(.attributes, number)
        coordinator.tellStatus(below: number)
      }
    case .user(let name):
      guard try holdsUserAttributes(number) else { throw Errno.notPermitted }
      try store(name, value, mode, of: number, caller.request)
    case .local(let name):
      try store(name, value, mode, of: number, caller.request)
    case .list(let name):
      try setAccessList(name, value, of: number, caller: caller)
    }
  }

  /// The value that is there already changes nothing, not the change time either: as on ext4.
  private func store(
    _ name: String, _ value: [UInt8], _ mode: AttributeMode, of number: InodeNumber,
    _ request: RequestIdentity
  ) throws(Errno) {
    if mode != .create {
      do throws(Errno) {
        if try catalog.attribute(name, of: number) == value { return }
      } catch .noData {}
    }
    try catalog.setAttribute(name, of: number, to: value, mode: mode, request: mark(of: request))
    FaultPoint.reach("attribute.set")
    try noteChanged(number)
    if name.hasPrefix("user.") { coordinator.tell(.attributes, number) }
  }

  package func removeAttribute(
    _ name: [UInt8], of number: InodeNumber, request: RequestIdentity = .none
  ) throws(Errno) {
    if doneBefore(request) != nil { return }
    switch try space(name) {
    case .ubiquity(let name):
      throw UbiquityAttribute(name: name) == nil ? Errno.noData : Errno.notPermitted
    case .user(let name):
      guard try holdsUserAttributes(number) else { throw Errno.notPermitted }
      try catalog.removeAttribute(name, of: number, request: mark(of: request))
      FaultPoint.reach("attribute.removed")
      try noteChanged(number)
      coordinator.tell(.attributes, number)
    case .local(let name):
      try catalog.removeAttribute(name, of: number, request: mark(of: request))
      try noteChanged(number)
    case .list(let name):
      try removeAccessList(name, of: number)
    }
  }

  /// The names as listxattr(2) gives them: each ended by NUL. The computed ones are left out unless
  /// asked for, so that `cp -a` and `rsync -X` do not copy them. `trusted.*` is there for root
  /// alone.
  package func attributeNames(of number: InodeNumber, withComputed: Bool, caller: Caller)
    throws(Errno) -> [UInt8]
  {
    let inode = try inode(number)
    var names = try catalog.attributeNames(of: number)
    if caller.user != 0 { names.removeAll { $0.hasPrefix("trusted.") } }
    if withComputed {
      let status = try coordinator.status(of: inode.number, comparesNames: false)
      names += UbiquityAttribute.readable(in: status)
    }
    return names.flatMap { Array($0.utf8) + [0] }
  }

  private func space(_ bytes: [UInt8]) throws(Errno) -> Space {
    guard bytes.count <= Self.longestAttributeName else { throw Errno.outOfRange }
    // Names are text; what is not UTF-8 could not be synced.
    guard let name = String(validating: bytes, as: UTF8.self) else { throw Errno.invalidArgument }
    if name.hasPrefix(UbiquityAttribute.prefix) { return .ubiquity(name) }
    // A prefix alone is no name.
    if ["user.", "security.", "trusted."].contains(name) { throw Errno.invalidArgument }
    if name.hasPrefix("user.") { return .user(name) }
    if name.hasPrefix("security.") || name.hasPrefix("trusted.") { return .local(name) }
    if AccessControlList.isName(name) { return .list(name) }
    throw Errno.notSupported
  }

  private func holdsUserAttributes(_ number: InodeNumber) throws(Errno) -> Bool {
    let inode = try inode(number)
    return inode.kind == .file || inode.kind == .directory
  }
}
