internal import FoundationEssentials
package import Model

extension ItemRecord {
  /// The record as bytes; equal records have equal bytes.
  package func encoded() -> [UInt8] { Wire.encode(wire) }

  /// Reads what `encoded` wrote, and refuses everything that no device would have written.
  package init(decoding bytes: [UInt8]) throws(RecordError) {
    try self.init(wire: Wire.decode(WireItemRecord.self, bytes))
  }

  var wire: WireItemRecord {
    var result = WireItemRecord()
    result.id = Data(id.bytes)
    result.kind = WireItemKind(rawValue: Int(kind.rawValue)) ?? .unspecified
    result.links = links.sorted().map { link in
      var wire = WireLink()
      wire.parent = Data(link.parent.bytes)
      wire.name = Data(link.name.bytes)
      return wire
    }
    result.mode = UInt32(mode)
    result.modified = modified.nanoseconds
    result.created = created.nanoseconds
    let sorted = attributes.sorted { precedes($0.key, $1.key) }.map { name, value in
      var wire = WireAttribute()
      wire.name = name
      wire.value = Data(value)
      return wire
    }
    // Devices that know no lists refuse attributes of other names.
    result.attributes = sorted.filter { !AccessControlList.isName($0.name) }
    result.accessLists = sorted.filter { AccessControlList.isName($0.name) }
    result.target = Data(target)
    result.isPackage = isPackage
    if let content { result.content = content.wire }
    result.conflicts = conflicts.map(\.wire)
    return result
  }

  init(wire: WireItemRecord) throws(RecordError) {
    let id: ItemID = try Wire.identifier(wire.id, "an item")
    do {
      try self.init(checking: wire, id: id)
    } catch {
      throw RecordError("item \(id): \(error.description)")
    }
  }

  private init(checking wire: WireItemRecord, id: ItemID) throws(RecordError) {
    let kind: ItemKind
    switch wire.kind {
    case .file: kind = .file
    case .directory: kind = .directory
    case .symbolicLink: kind = .symbolicLink
    case .unspecified, .UNRECOGNIZED:
      throw RecordError("kind \(wire.kind.rawValue) is unknown")
    }
    guard wire.mode <= 0o7777 else { throw RecordError("mode \(wire.mode) has unknown bits") }
    guard kind == .directory || !wire.isPackage else {
      throw RecordError("a package is not a directory")
    }
    let target = [UInt8](wire.target)
    if kind == .symbolicLink {
      guard !target.isEmpty, target.count <= RecordLimits.target, !target.contains(0) else {
        throw RecordError("the symbolic link's target is empty, too long or has a NUL")
      }
    } else {
      guard target.isEmpty else {
        throw RecordError("it has a target but is not a symbolic link")
      }
    }
    guard kind == .file || !wire.hasContent, kind != .symbolicLink || wire.conflicts.isEmpty else {
      throw RecordError("it has content but is not a file")
    }
    // Of a directory they are packages that lost a conflict, whole: never only announced.
    guard kind == .file || wire.conflicts.allSatisfy(\.hasManifest) else {
      throw RecordError("a package's conflict version has no content")
    }
    let content = wire.hasContent ? try ContentVersion(wire: wire.content) : nil
    guard content?.isResolved != true else {
      throw RecordError("its current content is marked as a resolved conflict")
    }
    self.init(
      id: id, kind: kind, links: try Self.links(wire.links, of: id, kind: kind),
      mode: UInt16(wire.mode), modified: Timestamp(nanoseconds: wire.modified),
      created: Timestamp(nanoseconds: wire.created),
      attributes: try Self.attributes(wire.attributes, lists: wire.accessLists), target: target,
      isPackage: wire.isPackage, content: content,
      conflicts: try Self.conflicts(wire.conflicts, beside: content))
  }

  private static func links(_ wire: [WireLink], of id: ItemID, kind: ItemKind)
    throws(RecordError) -> [Link]
  {
    if id == .root {
      guard wire.isEmpty, kind == .directory else {
        throw RecordError("the root has a name or is not a directory")
      }
      return []
    }
    guard !wire.isEmpty else { throw RecordError("it has no name") }
    guard wire.count <= (kind == .directory ? 1 : RecordLimits.links) else {
      throw RecordError("it has \(wire.count) names")
    }
    var links: [Link] = []
    links.reserveCapacity(wire.count)
    for link in wire {
      let parent: ItemID = try Wire.identifier(link.parent, "a parent directory")
      guard parent != id else { throw RecordError("it is its own parent") }
      let name: ItemName
      do throws(ItemName.Invalid) {
        name = try ItemName([UInt8](link.name))
      } catch {
        throw RecordError("its name is not allowed: \(error)")
      }
      let next = Link(parent: parent, name: name)
      if let last = links.last, !(last < next) {
        throw RecordError("its names are not sorted or not distinct")
      }
      links.append(next)
    }
    return links
  }

  private static func attributes(_ wire: [WireAttribute], lists: [WireAttribute])
    throws(RecordError) -> [String: [UInt8]]
  {
    guard wire.count <= RecordLimits.attributes else {
      throw RecordError("it has \(wire.count) attributes")
    }
    var result: [String: [UInt8]] = [:]
    for attribute in wire {
      let name = attribute.name
      guard name.hasPrefix("user."), name.utf8.count > 5,
        name.utf8.count <= RecordLimits.attributeName, !name.utf8.contains(0)
      else { throw RecordError("an attribute's name is not allowed") }
      guard attribute.value.count <= RecordLimits.attributeValue else {
        throw RecordError("an attribute has \(attribute.value.count) bytes")
      }
      guard result.updateValue([UInt8](attribute.value), forKey: name) == nil else {
        throw RecordError("it has an attribute twice")
      }
    }
    guard lists.count <= 2 else { throw RecordError("it has \(lists.count) access lists") }
    for list in lists {
      let value = [UInt8](list.value)
      guard AccessControlList.isName(list.name), value.count <= RecordLimits.attributeValue,
        (try? AccessControlList(decoding: value)) != nil,
        result.updateValue(value, forKey: list.name) == nil
      else { throw RecordError("an access list is not allowed") }
    }
    return result
  }

  private static func conflicts(_ wire: [WireContentVersion], beside content: ContentVersion?)
    throws(RecordError) -> [ContentVersion]
  {
    guard wire.count <= RecordLimits.conflicts else {
      throw RecordError("it has \(wire.count) conflict versions")
    }
    var seen: Set<VersionID> = []
    if let content { seen.insert(content.id) }
    var result: [ContentVersion] = []
    result.reserveCapacity(wire.count)
    for version in wire {
      let version = try ContentVersion(wire: version)
      guard seen.insert(version.id).inserted else {
        throw RecordError("it has a version twice")
      }
      result.append(version)
    }
    return result
  }
}
