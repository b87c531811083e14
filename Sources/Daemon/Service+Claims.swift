internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Model
internal import Platform
internal import SystemPackage

/// Claims over the control socket.
extension DaemonService {
  private static let maximumAccesses = 1000

  private static let readingOptions: [String: ReadingOptions] = [
    "withoutChanges": .withoutChanges,
    "immediatelyAvailableMetadataOnly": .immediatelyAvailableMetadataOnly,
  ]

  private static let writingOptions: [String: WritingOptions] = [
    "forDeleting": .forDeleting, "forMoving": .forMoving, "forMerging": .forMerging,
    "forReplacing": .forReplacing,
    "contentIndependentMetadataOnly": .contentIndependentMetadataOnly,
  ]

  private static func options<Options: OptionSet>(
    _ names: [String]?, among known: [String: Options], _ intent: String
  ) throws(ControlError) -> Options where Options.Element == Options {
    var result: Options = []
    for name in names ?? [] {
      guard let option = known[name] else {
        throw ControlError(
          .usage,
          "“\(name.prefix(100))” is no option of a \(intent) claim; there are "
            + known.keys.sorted().joined(separator: ", "))
      }
      result.formUnion(option)
    }
    return result
  }

  private static func mode(_ access: ClaimedAccess) throws(ControlError) -> ClaimMode {
    switch access.intent {
    case "read": .reading(try options(access.options, among: readingOptions, "read"))
    case "write": .writing(try options(access.options, among: writingOptions, "write"))
    default:
      throw ControlError(
        .usage, "a claim's intent is read or write, not “\(access.intent.prefix(100))”")
    }
  }

  /// Where a place is in the mounts now; empty when its container is not mounted any more.
  func shown(_ path: ClaimPath) -> PathBytes {
    guard let session = account?.sessions.first(where: { $0.coordinator.owns(path) }),
      let mountpoint = session.mountpoint,
      let names = try? session.coordinator.names(of: path)
    else { return PathBytes([]) }
    return PathBytes(names.reduce(into: Array(mountpoint.utf8)) { $0 += [0x2F] + $1.bytes })
  }

  /// An item that is claimed, and how to say where it is when the claim is given.
  private struct Wanted: Sendable {
    let session: ContainerSession
    let item: ClaimedItem
    let mode: ClaimMode
    let shown: PathBytes
  }

  private func wanted(_ access: ClaimedAccess) throws(ControlError) -> Wanted {
    let mode = try Self.mode(access)
    let (session, item) = try claimed(access.item)
    return Wanted(session: session, item: item, mode: mode, shown: access.item.shown)
  }

  func claimed(
    _ reference: ItemReference
  ) throws(ControlError) -> (session: ContainerSession, item: ClaimedItem) {
    let session = try mounted(reference.mountpoint)
    do {
      let names = try reference.path.bytes.split(separator: 0x2F).map { try ItemName(Array($0)) }
      return (session, try session.coordinator.claimed(names))
    } catch let error as Errno {
      throw ControlError(ControlError.status(of: error), "\(reference.shown): \(error)")
    } catch {
      throw ControlError(.notFound, "\(reference.shown): no item has such a name")
    }
  }

  // MARK: Claiming

  /// Replies when the claim is held. The thread goes on at once.
  func claim(
    _ request: ClaimRequest, _ connection: ClientConnection, _ reply: LaterReply<GivenClaim>
  ) throws(ControlError) {
    let table = try requireAccount().claims
    guard !request.accesses.isEmpty, request.accesses.count <= Self.maximumAccesses else {
      throw ControlError(.usage, "a claim is of 1 to \(Self.maximumAccesses) items")
    }
    if let timeout = request.timeout, !(timeout >= 0 && timeout < 1e9) {
      throw ControlError(.usage, "a claim's timeout is a number of seconds")
    }
    let wanted = try request.accesses.map { access throws(ControlError) in try self.wanted(access) }
    let party = parties.member(of: connection, in: table) { self.shown($0) }.party
    let presenter = request.presenter.map { PresenterID($0) }
    if let presenter, table.owner(of: presenter) != party {
      throw ControlError(.notFound, "this connection has no presenter \(presenter.rawValue)")
    }
    let claimant = ClaimantID(party, request.purpose.map { .named($0) } ?? .own)
    let pending = PendingClaim(reply: reply, limit: request.timeout)

    table.looking()
    var sessions: [ContainerSession] = []
    for item in wanted where !sessions.contains(where: { $0 === item.session }) {
      sessions.append(item.session)
      item.session.coordinator.noteWriters(
        around: wanted.filter { $0.session === item.session }.map(\.item.path))
    }
    let id = table.claim(
      wanted.map { ClaimAccess($0.item.path, $0.mode) }, by: claimant,
      for: presenter
    ) { id, result in
      pending.ended(result) { paths in self.given(id, paths, wanted, table, pending) }
    }
    table.looked()
    pending.began(id, table)
  }

  /// A reader gets the content too, unless it wants names and attributes alone.
  private func given(
    _ id: ClaimID, _ paths: [ClaimPath], _ wanted: [Wanted], _ table: ClaimTable,
    _ pending: PendingClaim
  ) {
    var found: [PathBytes] = []
    var fetched: [(session: ContainerSession, number: InodeNumber, size: UInt64)] = []
    for (item, path) in zip(wanted, paths) {
      let coordinator = item.session.coordinator
      let names = (try? coordinator.names(of: path)) ?? nil
      let mountpoint = item.session.mountpoint ?? ""
      let now = (names ?? []) + item.item.below
      found.append(
        PathBytes(
          now.reduce(into: Array(mountpoint.utf8)) { $0 += [0x2F] + $1.bytes }))
      guard case .reading(let options) = item.mode,
        !options.contains(.immediatelyAvailableMetadataOnly)
      else { continue }
      for inode in missing(now, in: item.session) {
        fetched.append((item.session, inode.number, inode.size))
      }
    }
    let answer = GivenClaim(claim: id.rawValue, paths: found)
    guard !fetched.isEmpty else { return pending.give(.success(answer)) }
    let downloads = fetched
    Task.detached {
      do {
        for file in downloads {
          try await Self.fetch(file.number, size: file.size, in: file.session)
        }
        pending.give(.success(answer))
      } catch {
        table.release(id)
        pending.give(.failure(ControlError(mapping: error)))
      }
    }
  }

  /// The files at or below the item whose content is not here. Not those below an ordinary directory:
  /// who reads that reads names, and opens what it wants.
  private func missing(_ names: [ItemName], in session: ContainerSession) -> [Catalog.Inode] {
    var inode = try? session.catalog.inode(.root)
    for name in names {
      guard let directory = inode?.number else { return [] }
      inode = (try? session.catalog.lookup(name, in: directory)) ?? nil
    }
    guard let inode else { return [] }
    if inode.kind == .file { return inode.content == .remote ? [inode] : [] }
    guard (try? session.coordinator.isPackage(inode)) == true else { return [] }
    var result: [Catalog.Inode] = []
    try? session.coordinator.forEachBelow(inode.number) { child in
      if child.kind == .file, child.content == .remote { result.append(child) }
    }
    return result
  }

  func release(_ request: ReleaseRequest, _ connection: ClientConnection) throws(ControlError) {
    guard let table = account?.claims, let member = parties.existing(connection, in: table),
      table.owner(of: ClaimID(request.claim)) == member.party
    else {
      throw ControlError(.notFound, "this connection has no claim \(request.claim)")
    }
    table.release(ClaimID(request.claim))
  }
}

/// A claim that a client waits for: whoever is first ends the waiting.
private final class PendingClaim: Sendable {
  private struct State {
    var isOver = false
    var timer: Task<Void, Never>?
  }

  private let reply: LaterReply<GivenClaim>
  /// Seconds.
  private let limit: Double?
  private let state = Lock(State())

  init(reply: LaterReply<GivenClaim>, limit: Double?) {
    self.reply = reply
    self.limit = limit
  }

  /// The claim is in the queue, or through it already.
  func began(_ id: ClaimID, _ table: ClaimTable) {
    guard let limit else { return }
    guard !state.withLock({ $0.isOver }) else { return }
    guard limit > 0 else {
      // Presenters answer soon, or are passed over.
      if table.isWaiting(id), over() {
        reply.give(.failure(ControlError(.busy, "somebody else has a claim on it")))
        table.release(id)
      }
      return
    }
    let timer = Task.detached { [self] in
      try? await Task.sleep(for: .seconds(limit))
      guard !Task.isCancelled, over() else { return }
      reply.give(.failure(ControlError(.timedOut, "the claim was not given in \(limit) s")))
      table.release(id)
    }
    state.withLock { state in
      if state.isOver { timer.cancel() } else { state.timer = timer }
    }
  }

  /// What the table says of the claim.
  func ended(
    _ result: Result<[ClaimPath], ClaimFailure>, given: ([ClaimPath]) -> Void
  ) {
    guard over() else { return }
    switch result {
    case .success(let paths): given(paths)
    case .failure(.cancelled): give(.failure(ControlError(.failed, "the claim was given up")))
    case .failure(.refused(let name, let reason)):
      give(
        .failure(
          ControlError(.failed, "\(name) has the item and could not let go of it: \(reason)")))
    case .failure(.deadlock(let names)):
      give(
        .failure(
          ControlError(
            .busy,
            "the claim would never be given: "
              + names.indices.map { "\(names[$0]) waits for \(names[($0 + 1) % names.count])" }
              .joined(separator: ", "))))
    }
  }

  func give(_ result: Result<GivenClaim, ControlError>) { reply.give(result) }

  private func over() -> Bool {
    state.withLock { state in
      guard !state.isOver else { return false }
      state.isOver = true
      state.timer?.cancel()
      return true
    }
  }
}
