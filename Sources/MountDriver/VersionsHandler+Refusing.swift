internal import FileSystem
internal import FuseKernel
internal import SystemPackage

/// What would change something: refused in the hidden directory, and for its name.
extension VersionsHandler {
  func setAttributes(
    node: UInt64, handle: UInt64?, changes: FuseAttributeChanges,
    reply: consuming FuseReply<AttributesAnswer>
  ) {
    guard node < VersionNode.first else { return reply.fail(.readOnlyFileSystem) }
    ordinary.setAttributes(node: node, handle: handle, changes: changes, reply: reply)
  }

  func setAttribute(
    node: UInt64, name: [UInt8], value: [UInt8], flags: Int32,
    reply: consuming FuseReply<EmptyAnswer>
  ) {
    guard node < VersionNode.first else { return reply.fail(.readOnlyFileSystem) }
    ordinary.setAttribute(node: node, name: name, value: value, flags: flags, reply: reply)
  }

  func removeAttribute(node: UInt64, name: [UInt8], reply: consuming FuseReply<EmptyAnswer>) {
    guard node < VersionNode.first else { return reply.fail(.readOnlyFileSystem) }
    ordinary.removeAttribute(node: node, name: name, reply: reply)
  }

  func makeNode(
    parent: UInt64, name: [UInt8], mode: UInt32, device: UInt64,
    reply: consuming FuseReply<EntryAnswer>
  ) {
    if let refusal = refusal(parent, name) { return reply.fail(refusal) }
    ordinary.makeNode(parent: parent, name: name, mode: mode, device: device, reply: reply)
  }

  func makeDirectory(
    parent: UInt64, name: [UInt8], mode: UInt32, reply: consuming FuseReply<EntryAnswer>
  ) {
    if let refusal = refusal(parent, name) { return reply.fail(refusal) }
    ordinary.makeDirectory(parent: parent, name: name, mode: mode, reply: reply)
  }

  func makeSymbolicLink(
    parent: UInt64, name: [UInt8], target: [UInt8], reply: consuming FuseReply<EntryAnswer>
  ) {
    if let refusal = refusal(parent, name) { return reply.fail(refusal) }
    ordinary.makeSymbolicLink(parent: parent, name: name, target: target, reply: reply)
  }

  func link(
    node: UInt64, newParent: UInt64, newName: [UInt8], reply: consuming FuseReply<EntryAnswer>
  ) {
    if let refusal = refusal(newParent, newName) { return reply.fail(refusal) }
    guard node < VersionNode.first else { return reply.fail(.readOnlyFileSystem) }
    ordinary.link(node: node, newParent: newParent, newName: newName, reply: reply)
  }

  func remove(
    parent: UInt64, name: [UInt8], directory: Bool, reply: consuming FuseReply<EmptyAnswer>
  ) {
    guard refusal(parent, name) == nil else { return reply.fail(.readOnlyFileSystem) }
    ordinary.remove(parent: parent, name: name, directory: directory, reply: reply)
  }

  func rename(
    parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8], flags: UInt32,
    reply: consuming FuseReply<EmptyAnswer>
  ) {
    guard refusal(parent, name) == nil else { return reply.fail(.readOnlyFileSystem) }
    if let refusal = refusal(newParent, newName) { return reply.fail(refusal) }
    ordinary.rename(
      parent: parent, name: name, newParent: newParent, newName: newName, flags: flags,
      reply: reply)
  }

  func create(
    parent: UInt64, name: [UInt8], mode: UInt32, flags: Int32,
    reply: consuming FuseReply<CreateAnswer>
  ) {
    if let refusal = refusal(parent, name) { return reply.fail(refusal) }
    ordinary.create(parent: parent, name: name, mode: mode, flags: flags, reply: reply)
  }

  func createUnnamed(
    parent: UInt64, mode: UInt32, flags: Int32, reply: consuming FuseReply<CreateAnswer>
  ) {
    guard parent < VersionNode.first else { return reply.fail(.readOnlyFileSystem) }
    ordinary.createUnnamed(parent: parent, mode: mode, flags: flags, reply: reply)
  }

  func write(
    node: UInt64, handle: UInt64, offset: UInt64, data: borrowing FuseWriteData, isFromCache: Bool,
    reply: consuming FuseReply<WriteAnswer>
  ) {
    guard node < VersionNode.first else { return reply.fail(.readOnlyFileSystem) }
    ordinary.write(
      node: node, handle: handle, offset: offset, data: data, isFromCache: isFromCache,
      reply: reply)
  }

  func allocate(
    node: UInt64, handle: UInt64, mode: Int32, offset: UInt64, length: UInt64,
    reply: consuming FuseReply<EmptyAnswer>
  ) {
    guard node < VersionNode.first else { return reply.fail(.readOnlyFileSystem) }
    ordinary.allocate(
      node: node, handle: handle, mode: mode, offset: offset, length: length, reply: reply)
  }
}
