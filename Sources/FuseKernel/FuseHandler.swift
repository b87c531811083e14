/// What serves the requests of a mount.
///
/// Requests come on the session's threads, many at once. Every handler answers through its reply,
/// at once or later; none may wait for anything but the local disk, or all threads end up waiting:
/// what has to wait parks its reply. Names are one component, without NUL and `/`.
package protocol FuseHandler: AnyObject, Sendable {
  /// The kernel has taken the answer to INIT: what was granted holds. Requests may come meanwhile.
  func initialized(_ connection: FuseConnection)
  /// The kernel will ask nothing more: what it remembered it has forgotten.
  func ended()

  func lookup(parent: UInt64, name: [UInt8], reply: consuming FuseReply<EntryAnswer>)
  func forget(node: UInt64, count: UInt64)
  func attributes(node: UInt64, handle: UInt64?, reply: consuming FuseReply<AttributesAnswer>)
  /// The attributes with the time of birth.
  func extendedStatus(node: UInt64, reply: consuming FuseReply<ExtendedStatusAnswer>)
  func setAttributes(
    node: UInt64, handle: UInt64?, changes: FuseAttributeChanges,
    reply: consuming FuseReply<AttributesAnswer>)
  func readLink(node: UInt64, reply: consuming FuseReply<LinkTargetAnswer>)
  /// `mode` has the type bits.
  func makeNode(
    parent: UInt64, name: [UInt8], mode: UInt32, device: UInt64,
    reply: consuming FuseReply<EntryAnswer>)
  func makeDirectory(
    parent: UInt64, name: [UInt8], mode: UInt32, reply: consuming FuseReply<EntryAnswer>)
  func makeSymbolicLink(
    parent: UInt64, name: [UInt8], target: [UInt8], reply: consuming FuseReply<EntryAnswer>)
  func link(
    node: UInt64, newParent: UInt64, newName: [UInt8], reply: consuming FuseReply<EntryAnswer>)
  func remove(
    parent: UInt64, name: [UInt8], directory: Bool, reply: consuming FuseReply<EmptyAnswer>)
  func rename(
    parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8], flags: UInt32,
    reply: consuming FuseReply<EmptyAnswer>)

  func create(
    parent: UInt64, name: [UInt8], mode: UInt32, flags: Int32,
    reply: consuming FuseReply<CreateAnswer>)
  /// Creates and opens a file without a name (O_TMPFILE); a `link` may give it one.
  func createUnnamed(
    parent: UInt64, mode: UInt32, flags: Int32, reply: consuming FuseReply<CreateAnswer>)
  func open(node: UInt64, flags: Int32, reply: consuming FuseReply<OpenAnswer>)
  func read(
    node: UInt64, handle: UInt64, offset: UInt64, count: Int,
    reply: consuming FuseReply<DataAnswer>)
  /// `isFromCache`: a page that a mapping changed is written back.
  func write(
    node: UInt64, handle: UInt64, offset: UInt64, data: borrowing FuseWriteData, isFromCache: Bool,
    reply: consuming FuseReply<WriteAnswer>)
  /// A descriptor of the open file was closed; there may be others.
  func flush(node: UInt64, handle: UInt64, reply: consuming FuseReply<EmptyAnswer>)
  func release(node: UInt64, handle: UInt64, reply: consuming FuseReply<EmptyAnswer>)
  func synchronize(
    node: UInt64, handle: UInt64, dataOnly: Bool, reply: consuming FuseReply<EmptyAnswer>)
  func allocate(
    node: UInt64, handle: UInt64, mode: Int32, offset: UInt64, length: UInt64,
    reply: consuming FuseReply<EmptyAnswer>)
  func seek(
    node: UInt64, handle: UInt64, offset: Int64, whence: Int32,
    reply: consuming FuseReply<SeekAnswer>)
  func copyRange(
    from handle: UInt64, at offset: UInt64, to newHandle: UInt64, of newNode: UInt64,
    at newOffset: UInt64, count: Int, flags: Int32, reply: consuming FuseReply<WriteAnswer>)

  func openDirectory(node: UInt64, reply: consuming FuseReply<OpenAnswer>)
  /// With `withEntries` each entry but `.` and `..` counts as a lookup.
  func readDirectory(
    node: UInt64, handle: UInt64, offset: UInt64, size: Int, withEntries: Bool,
    reply: consuming FuseReply<DirectoryAnswer>)
  func releaseDirectory(node: UInt64, handle: UInt64, reply: consuming FuseReply<EmptyAnswer>)
  func synchronizeDirectory(node: UInt64, reply: consuming FuseReply<EmptyAnswer>)

  func statistics(node: UInt64, reply: consuming FuseReply<StatisticsAnswer>)
  /// `flags` are those of setxattr(2).
  func setAttribute(
    node: UInt64, name: [UInt8], value: [UInt8], flags: Int32,
    reply: consuming FuseReply<EmptyAnswer>)
  func attribute(
    node: UInt64, name: [UInt8], size: Int, reply: consuming FuseReply<AttributeAnswer>)
  func attributeNames(node: UInt64, size: Int, reply: consuming FuseReply<AttributeAnswer>)
  func removeAttribute(node: UInt64, name: [UInt8], reply: consuming FuseReply<EmptyAnswer>)
}
