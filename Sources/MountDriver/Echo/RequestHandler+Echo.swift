internal import Catalog
internal import FileSystem
internal import FuseKernel
internal import Model
internal import SystemPackage

/// What the thread of the echo is answered. See `ChangeEcho`.
extension RequestHandler {
  /// For no time: whoever looks next asks again.
  private func echoedEntry(_ number: InodeNumber, _ kind: ItemKind) -> FuseEntry {
    var result: FuseEntry
    if let status = try? fileSystem.status(number), status.inode.kind == kind {
      result = entry(fileSystem.remembered(status.inode, readAt: fileSystem.moment))
    } else {
      result = FuseEntry(
        node: number.rawValue, attributes: ghost(number.rawValue, kind), attributeTimeout: 0,
        nameTimeout: 0)
    }
    result.attributeTimeout = 0
    result.nameTimeout = 0
    return result
  }

  /// Of what is gone.
  private func ghost(_ node: UInt64, _ kind: ItemKind) -> FuseAttributes {
    let root = try? fileSystem.status(.root).inode
    return FuseAttributes(
      node: node, mode: Self.type(kind) | (kind == .directory ? 0o755 : 0o644),
      linkCount: kind == .directory ? 2 : 1, user: root?.owner ?? 0, group: root?.group ?? 0)
  }

  func answerEcho(_ answer: EchoStage.Answer, reply: consuming FuseReply<EntryAnswer>) {
    switch answer {
    case .absent: reply.noEntry(timeout: 0)
    case .present(let number, let kind): reply.entry(echoedEntry(number, kind))
    }
  }

  func makeEcho(
    _ name: [UInt8], _ parent: UInt64, _ kind: ItemKind, reply: consuming FuseReply<EntryAnswer>
  ) {
    guard let number = echo.takesMaking(parent, name, kind) else { return reply.fail(.canceled) }
    reply.entry(echoedEntry(number, kind))
  }

  /// The operation is done already, or not to be done.
  func finishEcho(_ operation: EchoStage.Operation, reply: consuming FuseReply<EmptyAnswer>) {
    if echo.takes(operation) { reply.done() } else { reply.fail(.canceled) }
  }

  func touchEcho(_ node: UInt64, reply: consuming FuseReply<AttributesAnswer>) {
    guard echo.takes(.touch(InodeNumber(node))),
      let status = try? fileSystem.status(InodeNumber(node))
    else { return reply.fail(.canceled) }
    reply.attributes(attributes(status), timeout: 0)
  }

  func openEcho(_ node: UInt64, reply: consuming FuseReply<OpenAnswer>) {
    guard echo.isExpected(.touch(InodeNumber(node))) else { return reply.fail(.canceled) }
    var opened = FuseOpened(handle: EchoStage.handle)
    opened.keepsCache = true
    opened.needsNoFlush = true
    opened.isDirect = true
    _ = reply.opened(opened)
  }

  /// Nil where the attributes are those that there are.
  func echoedAttributes(_ node: UInt64) -> FuseAttributes? {
    guard let kind = echo.ghost(node), (try? fileSystem.status(InodeNumber(node))) == nil else {
      return nil
    }
    return ghost(node, kind)
  }
}
