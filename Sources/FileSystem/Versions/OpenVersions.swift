internal import Catalog
package import Coordination
internal import Model
package import Platform
internal import Synchronization
package import SystemPackage

/// The opens of versions, by the number that the kernel has for each.
///
/// An open that an earlier daemon left in the mount's record has no content until somebody reads:
/// what that daemon had brought ended with it. The lock is a leaf.
package final class OpenVersions: Sendable {
  private struct Open {
    let known: KnownVersion
    /// Nil: it has to be brought first.
    var file: OpenFile?
    /// Of the mount's record.
    let slot: Int?
  }

  /// A version that is to be brought before its open is answered.
  package struct Wait: Sendable {
    let known: KnownVersion
    let node: VersionNode
  }

  package enum Step: Sendable {
    case opened(handle: UInt64)
    /// `open` with a completion brings it.
    case wait(Wait)
  }

  private let fileSystem: ContainerFileSystem
  private let contents: VersionContents
  private let opens = Lock<[UInt64: Open]>([:])
  /// By the request that an earlier daemon answered with it.
  private let answered = Lock<[UInt64: UInt64]>([:])
  /// Begins anywhere: the kernel may say once more that an open of an earlier daemon is closed.
  private let nextHandle = Atomic<UInt64>(
    VersionNode.first + UInt64.random(in: 0..<1 << 40) << 16)

  init(fileSystem: ContainerFileSystem) {
    self.fileSystem = fileSystem
    contents = VersionContents(coordinator: fileSystem.coordinator)
  }

  func open(_ known: KnownVersion, _ node: VersionNode, for caller: Caller) throws(Errno) -> Step {
    if caller.request.isResent, let record = fileSystem.record,
      let handle = answered.withLock({ $0[record.number(of: caller.request)] })
    {
      return .opened(handle: handle)
    }
    guard let file = contents.openReady(known.version.id) else {
      return .wait(Wait(known: known, node: node))
    }
    return .opened(handle: try add(known, node, file, caller.request))
  }

  /// Brings the whole content. `completion` gets a handle, to be released by who has it, or the
  /// errno; it is called once, on any thread, perhaps before this has returned, and not after a
  /// `cancel`.
  package func open(
    _ wait: Wait, for caller: Caller = Caller(user: 0, group: 0),
    completion: @escaping @Sendable (Result<UInt64, Errno>) -> Void
  ) -> any FetchTicket {
    bring(wait.known, for: caller) { [self] result in
      do throws(Errno) {
        completion(.success(try add(wait.known, wait.node, result.get(), caller.request)))
      } catch {
        completion(.failure(error))
      }
    }
  }

  /// The content of an open, or nil: `bring` has to bring it again.
  package func file(_ handle: UInt64) throws(Errno) -> OpenFile? { try get(handle).file }

  /// Brings the content of an open of an earlier daemon. `completion` as of `open`.
  package func bring(
    _ handle: UInt64, for caller: Caller,
    completion: @escaping @Sendable (Result<OpenFile, Errno>) -> Void
  ) throws(Errno) -> any FetchTicket {
    let known = try get(handle).known
    return bring(known, for: caller) { [self] result in
      if case .success(let file) = result {
        let isFirst = opens.withLock { opens in
          guard let open = opens[handle], open.file == nil else { return false }
          opens[handle]?.file = file
          return true
        }
        // Another reader was first, or it is closed.
        if !isFirst { contents.close(known.version.id) }
      }
      completion(result)
    }
  }

  package func size(_ handle: UInt64) throws(Errno) -> UInt64 { try get(handle).known.version.size }

  package func release(_ handle: UInt64) {
    guard let open = opens.withLock({ $0.removeValue(forKey: handle) }) else { return }
    if let slot = open.slot { fileSystem.record?.openings.remove(slot) }
    if open.file != nil { contents.close(open.known.version.id) }
  }

  /// The kernel has closed everything.
  func reset() {
    opens.withLock { $0 = [:] }
    contents.removeAll()
  }

  /// An open that an earlier daemon left in the record.
  func restore(_ open: RecordedOpen, _ known: KnownVersion, in slot: Int) {
    opens.withLock { $0[open.handle] = Open(known: known, file: nil, slot: slot) }
    if open.request != 0 { answered.withLock { $0[open.request] = open.handle } }
  }

  private func get(_ handle: UInt64) throws(Errno) -> Open {
    guard let open = opens.withLock({ $0[handle] }) else { throw Errno.badFileDescriptor }
    return open
  }

  private func add(
    _ known: KnownVersion, _ node: VersionNode, _ file: OpenFile, _ request: RequestIdentity
  ) throws(Errno) -> UInt64 {
    let handle = nextHandle.add(1, ordering: .relaxed).oldValue
    var slot: Int?
    if let record = fileSystem.record {
      let version = RecordedVersion(inode: known.inode, id: known.version.id)
      do throws(Errno) {
        slot = try record.openings.add(
          RecordedOpen(
            handle: handle, request: record.number(of: request), number: InodeNumber(node.number),
            canRead: true, version: version))
      } catch {
        contents.close(known.version.id)
        throw error
      }
    }
    opens.withLock { $0[handle] = Open(known: known, file: file, slot: slot) }
    return handle
  }

  private func bring(
    _ known: KnownVersion, for caller: Caller,
    completion: @escaping @Sendable (Result<OpenFile, Errno>) -> Void
  ) -> any FetchTicket {
    let ticket = LaterTicket {}
    @Sendable func begin(_ permission: DownloadPermission) -> any FetchTicket {
      contents.open(known.version, of: known.inode, permission) { [self] result in
        if case .failure(let error) = result, error == permission.refusal(of: .version) {
          fileSystem.coordinator.noteDenied(known.inode, for: permission.cause(.version))
        }
        completion(result)
      }
    }
    let now = fileSystem.coordinator.downloads.permission(ofThread: caller.process) { permission in
      ticket.begin { begin(permission) }
    }
    return now.map(begin) ?? ticket
  }
}
