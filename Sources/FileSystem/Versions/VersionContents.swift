internal import Catalog
internal import ContentStore
internal import Coordination
internal import Model
internal import Platform
internal import SystemPackage

/// The contents of versions that somebody reads: each whole in a file without a name, which all
/// share who have it open, and which stays for a moment after the last of them.
///
/// A content is *loading* while it comes, with who waits for it, then *ready*, with who has it
/// open. A load that nobody waits for any more, or that fails, is forgotten. The lock is a leaf.
final class VersionContents: Sendable {
  typealias Completion = @Sendable (Result<OpenFile, Errno>) -> Void

  private struct Content {
    /// Tells this load from a later one of the same version.
    let token: UInt64
    var waiters: [UInt64: Completion] = [:]
    var ticket: (any FetchTicket)?
    /// Nil while it is loading.
    var file: OpenFile?
    var users = 0
    /// Changes whenever it comes into use or out of it.
    var turn: UInt64 = 0
    /// Of the first who may cause a download; until there is one, why there is none.
    var cause: Result<DownloadCause, Errno> = .failure(.notPermitted)
  }

  private struct Load {
    let version: ContentVersion
    let inode: InodeNumber
    let token: UInt64
  }

  private struct State {
    var contents: [VersionID: Content] = [:]
    var queue: [Load] = []
    var running = 0
    var next: UInt64 = 1

    mutating func number() -> UInt64 {
      defer { next += 1 }
      return next
    }
  }

  private struct Ticket: FetchTicket {
    let contents: VersionContents
    let version: VersionID
    let waiter: UInt64

    func cancel() { contents.cancel(waiter, of: version) }
  }

  /// How many contents come at a time: each holds some chunks in memory.
  private static let loadLimit = 8

  private let coordinator: ContainerCoordinator
  private let keeping: Duration
  private let state = Lock(State())

  init(coordinator: ContainerCoordinator, keeping: Duration = .seconds(10)) {
    self.coordinator = coordinator
    self.keeping = keeping
  }

  /// One more user, if it is here.
  func openReady(_ version: VersionID) -> OpenFile? {
    state.withLock { state in
      guard let file = state.contents[version]?.file else { return nil }
      state.contents[version]?.users += 1
      return file
    }
  }

  /// One more user, who calls `close` some time if `completion` got a file. Called once, on any
  /// thread, perhaps before this has returned; not after `cancel`. Who may cause no download gets
  /// what is here, or comes for another.
  func open(
    _ version: ContentVersion, of inode: InodeNumber, _ permission: DownloadPermission,
    completion: @escaping Completion
  ) -> any FetchTicket {
    enum Step {
      case ready(OpenFile)
      case wait
      case load
    }
    let cause: Result<DownloadCause, Errno> =
      permission.refusal(of: .version).map { .failure($0) } ?? .success(permission.cause(.version))
    let (waiter, step) = state.withLock { state -> (UInt64, Step) in
      let waiter = state.number()
      guard var content = state.contents[version.id] else {
        let token = state.number()
        state.contents[version.id] = Content(
          token: token, waiters: [waiter: completion], cause: cause)
        state.queue.append(Load(version: version, inode: inode, token: token))
        return (waiter, .load)
      }
      defer { state.contents[version.id] = content }
      guard let file = content.file else {
        content.waiters[waiter] = completion
        if case .failure = content.cause { content.cause = cause }
        return (waiter, .wait)
      }
      content.users += 1
      return (waiter, .ready(file))
    }
    switch step {
    case .ready(let file): completion(.success(file))
    case .wait: break
    case .load: startLoads()
    }
    return Ticket(contents: self, version: version.id, waiter: waiter)
  }

  func close(_ version: VersionID) {
    let turn = state.withLock { state -> UInt64? in
      guard var content = state.contents[version] else { return nil }
      content.users -= 1
      content.turn = state.number()
      state.contents[version] = content
      return content.users == 0 ? content.turn : nil
    }
    guard let turn else { return }
    let keeping = keeping
    Task { [weak self] in
      try? await Task.sleep(for: keeping)
      self?.drop(version, ifStill: turn)
    }
  }

  private func drop(_ version: VersionID, ifStill turn: UInt64) {
    // What is taken out is closed after the lock.
    _ = state.withLock { state -> Content? in
      guard let content = state.contents[version], content.users == 0, content.turn == turn else {
        return nil
      }
      return state.contents.removeValue(forKey: version)
    }
  }

  /// The mount is gone, and all waiting with it.
  func removeAll() {
    let all = state.withLock { state in
      defer { state.contents = [:] }
      return Array(state.contents.values)
    }
    for content in all { content.ticket?.cancel() }
  }

  private func cancel(_ waiter: UInt64, of version: VersionID) {
    let ticket = state.withLock { state -> (any FetchTicket)? in
      guard var content = state.contents[version],
        content.waiters.removeValue(forKey: waiter) != nil
      else { return nil }
      let isWanted = content.file != nil || !content.waiters.isEmpty
      state.contents[version] = isWanted ? content : nil
      return isWanted ? nil : content.ticket
    }
    ticket?.cancel()
  }

  // MARK: Loading

  private func startLoads() {
    while true {
      let next = state.withLock { state -> Load? in
        guard state.running < Self.loadLimit else { return nil }
        let contents = state.contents
        state.queue.removeAll { contents[$0.version.id]?.token != $0.token }
        guard !state.queue.isEmpty else { return nil }
        state.running += 1
        return state.queue.removeFirst()
      }
      guard let next else { return }
      Task { await self.load(next.version, of: next.inode, next.token) }
    }
  }

  private func load(_ version: ContentVersion, of inode: InodeNumber, _ token: UInt64) async {
    let file: OpenFile
    do throws(Errno) {
      file = try coordinator.content.unnamed()
      let isHere = try await BlockingWork.run { () throws(Errno) in
        try self.copyLocal(version, of: inode, to: file)
      }
      if isHere { return finish(version, token, .success(file)) }
    } catch {
      return finish(version, token, .failure(error))
    }
    let cause: DownloadCause
    switch state.withLock({ $0.contents[version.id]?.cause }) {
    case .success(let known)?: cause = known
    case .failure(let refusal)?: return finish(version, token, .failure(refusal))
    case nil: return finish(version, token, .failure(.interrupted))
    }
    guard let fetcher = coordinator.versionFetcher else {
      return finish(version, token, .failure(.networkDown))
    }
    let ticket = fetcher.fetch(version.id, of: inode, into: file, cause: cause) { result in
      self.finish(version, token, result.map { file }.mapError(\.errno))
    }
    let isWanted = state.withLock { state in
      guard state.contents[version.id]?.token == token else { return false }
      state.contents[version.id]?.ticket = ticket
      return true
    }
    if !isWanted { ticket.cancel() }
  }

  /// The end of a load, once for each.
  private func finish(
    _ version: ContentVersion, _ token: UInt64, _ result: Result<OpenFile, Errno>
  ) {
    var result = result
    if case .success(let file) = result {
      let size = (try? file.status().st_size).map { UInt64(max(0, $0)) }
      if size != version.size { result = .failure(.ioError) }
    }
    let waiters = state.withLock { state -> [Completion] in
      state.running -= 1
      guard var content = state.contents[version.id], content.token == token else { return [] }
      let waiters = Array(content.waiters.values)
      content.waiters = [:]
      content.ticket = nil
      if case .success(let file) = result {
        content.file = file
        content.users = waiters.count
        state.contents[version.id] = content
      } else {
        state.contents[version.id] = nil
      }
      return waiters
    }
    startLoads()
    for waiter in waiters { waiter(result) }
  }

  /// The version that the inode shows needs no network. It is copied, since the next edit may go
  /// into that very content file; whether one has begun meanwhile is looked at after.
  private func copyLocal(
    _ version: ContentVersion, of number: InodeNumber, to file: OpenFile
  ) throws(Errno) -> Bool {
    guard let key = try shown(version.id, by: number) else { return false }
    let source: OpenFile
    do {
      source = try coordinator.content.open(key, writable: false)
    } catch .noSuchFileOrDirectory {
      return false
    }
    try ContentFiles.copy(source, to: file)
    if try shown(version.id, by: number) == key { return true }
    try file.truncate(to: 0)
    return false
  }

  /// The content file that is this version whole, and that nobody writes to.
  private func shown(_ version: VersionID, by number: InodeNumber) throws(Errno) -> ContentKey? {
    guard !coordinator.isOpenForWriting(number) else { return nil }
    let inode = try coordinator.catalog.inode(number)
    guard inode.kind == .file, inode.content == .local, inode.version == version else { return nil }
    return ContentKey(item: inode.item, generation: inode.generation)
  }
}
