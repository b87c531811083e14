internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Model
internal import Platform
internal import SystemPackage

/// Claims over the control socket.
extension DaemonService {
  private static let maximumAccesses = 1000
  private static let maximumClaims = 10_000

  private static let readingOptions: [String: ReadingOptions] = [
    "withoutChanges": .withoutChanges,
    "immediatelyAvailableMetadataOnly": .immediatelyAvailableMetadataOnly,
    "resolvesSymbolicLink": .resolvesSymbolicLink, "forUploading": .forUploading,
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
          "\"\(name.prefix(100))\" is not an option of a \(intent) claim; known are "
            + known.keys.sorted().joined(separator: ", "))
      }
      result.formUnion(option)
    }
    return result
  }

  private static func mode(_ access: ClaimedAccess) throws(ControlError) -> ClaimMode {
    switch access.intent {
    case "read": .reading(try options(access.options, among: readingOptions, "read"))
    case "write": try writing(access)
    default:
      throw ControlError(
        .usage, "the intent of a claim must be read or write, not \"\(access.intent.prefix(100))\"")
    }
  }

  /// Source: NSFileCoordinator.WritingOptions, of which one at a time is to be used.
  private static func writing(_ access: ClaimedAccess) throws(ControlError) -> ClaimMode {
    let chosen: WritingOptions = try options(access.options, among: writingOptions, "write")
    guard chosen.rawValue.nonzeroBitCount <= 1 else {
      throw ControlError(.usage, "a write claim can have at most one option for each item")
    }
    return .writing(chosen)
  }

  /// Where a place is in the mounts now; empty when its container is not mounted any more.
  func shown(_ path: ClaimPath) -> PathBytes {
    guard let session = account?.sessions.first(where: { $0.coordinator.owns(path) }),
      let mountpoint = session.mountpoint,
      let names = try? session.coordinator.names(of: path)
    else { return PathBytes([]) }
    return PathBytes(names.reduce(into: Array(mountpoint.utf8)) { $0 += [0x2F] + $1.bytes })
  }

  /// Names in the container that the place is of; empty when that is not mounted any more.
  func shown(_ names: [ItemName], inContainerOf path: ClaimPath) -> PathBytes {
    guard let session = account?.sessions.first(where: { $0.coordinator.owns(path) }),
      let mountpoint = session.mountpoint
    else { return PathBytes([]) }
    return PathBytes(names.reduce(into: Array(mountpoint.utf8)) { $0 += [0x2F] + $1.bytes })
  }

  /// An item that is claimed, and how to say where it is when the claim is given.
  struct Wanted: Sendable {
    let session: ContainerSession
    let item: ClaimedItem
    let mode: ClaimMode

    var options: ReadingOptions {
      if case .reading(let options) = mode { return options }
      return []
    }
  }

  private func wanted(_ access: ClaimedAccess) throws(ControlError) -> Wanted {
    let mode = try Self.mode(access)
    var reference = access.item
    if case .reading(let options) = mode, options.contains(.resolvesSymbolicLink) {
      reference = try resolved(reference)
    }
    let (session, item) = try claimed(reference)
    guard !item.below.isEmpty, case .writing(let options) = mode else {
      return Wanted(session: session, item: item, mode: mode)
    }
    // The end of what is in a package is a change of the package: who presents that lets go of it.
    let ofPackage = options.subtracting([.forDeleting, .forReplacing])
    return Wanted(session: session, item: item, mode: .writing(ofPackage))
  }

  func claimed(
    _ reference: ItemReference
  ) throws(ControlError) -> (session: ContainerSession, item: ClaimedItem) {
    let session = try mounted(reference.mountpoint)
    do {
      let names = try reference.path.bytes.split(separator: 0x2F).map { try ItemName(Array($0)) }
      return (session, try session.coordinator.claimed(names))
    } catch let error as Errno {
      throw ControlError(
        ControlError.status(of: error), "cannot access \"\(reference.shown)\": \(error)")
    } catch {
      throw ControlError(
        .notFound, "cannot access \"\(reference.shown)\": no such file or directory")
    }
  }

  // MARK: Claiming

  /// Replies when the claim is held. The thread goes on at once.
  func claim(
    _ request: ClaimRequest, _ connection: ClientConnection, _ reply: LaterReply<GivenClaim>
  ) throws(ControlError) {
    let table = try requireAccount().claims
    guard !request.accesses.isEmpty, request.accesses.count <= Self.maximumAccesses else {
      throw ControlError(.usage, "a claim must name 1 to \(Self.maximumAccesses) items")
    }
    if let timeout = request.timeout, !(timeout >= 0 && timeout < 1e9) {
      throw ControlError(.usage, "the timeout of a claim must be a number of seconds")
    }
    let wanted = try request.accesses.map { access throws(ControlError) in try self.wanted(access) }
    let member = member(connection, table)
    let party = member.party
    let presenter = request.presenter.map { PresenterID($0) }
    if let presenter, table.owner(of: presenter) != party {
      throw ControlError(.notFound, "this connection has no presenter \(presenter.rawValue)")
    }
    guard table.claimCount(of: party) < Self.maximumClaims else {
      throw ControlError(
        .busy,
        "one connection can have at most \(Self.maximumClaims) claims; release some")
    }
    let claimant = ClaimantID(party, request.purpose.map { .named($0) } ?? .own)
    let pending = PendingClaim(reply: reply, limit: request.timeout, table: table)
    if let ticket = request.ticket {
      guard member.claims.begin(ticket, pending) else {
        throw ControlError(
          .usage, "another claim of this connection already waits with ticket \(ticket)")
      }
    }

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
      pending.ended(id, result) { paths in
        self.given(id, paths, wanted, member, pending, for: connection.peer?.process ?? 0)
      }
    }
    table.looked()
    pending.began(id)
  }

  /// A reader gets the content too, unless it wants names and attributes alone.
  private func given(
    _ id: ClaimID, _ paths: [ClaimPath], _ wanted: [Wanted], _ member: ConnectionParties.Member,
    _ pending: PendingClaim, for process: Int32
  ) {
    var found: [(names: [ItemName], path: PathBytes)] = []
    var fetched: [(session: ContainerSession, number: InodeNumber, size: UInt64)] = []
    for (item, path) in zip(wanted, paths) {
      let names = (try? item.session.coordinator.names(of: path)) ?? nil
      let now = (names ?? []) + item.item.below
      let mountpoint = item.session.mountpoint ?? ""
      found.append(
        (now, PathBytes(now.reduce(into: Array(mountpoint.utf8)) { $0 += [0x2F] + $1.bytes })))
      guard case .reading(let options) = item.mode,
        !options.contains(.immediatelyAvailableMetadataOnly) || options.contains(.forUploading)
      else { continue }
      let missing = missing(now, in: item.session, all: options.contains(.forUploading))
      for inode in missing { fetched.append((item.session, inode.number, inode.size)) }
    }
    let isCopied = wanted.contains { $0.options.contains(.forUploading) }
    let answer = GivenClaim(claim: id.rawValue, paths: found.map(\.path))
    guard !fetched.isEmpty || isCopied else {
      pending.give(.success(answer))
      return
    }
    let items = found
    let downloads = fetched
    let table = member.table
    pending.work = Task.detached {
      do {
        let permission = await self.downloads.permission(ofThread: process)
        let cause = permission.cause(.claim)
        let mayDownload = permission.refusal(of: .claim) == nil
        for file in downloads {
          if mayDownload {
            try await Self.fetch(file.number, size: file.size, for: cause, in: file.session)
          } else {
            file.session.coordinator.noteDenied(file.number, for: cause)
          }
        }
        // Who only reads is told by its reads.
        if isCopied, !mayDownload, !downloads.isEmpty {
          throw ControlError(
            .notPermitted,
            "not all of the content is local, and this program may not download: "
              + (permission.rule ?? "it has ended"))
        }
        guard isCopied else {
          pending.give(.success(answer))
          return
        }
        _ = startThread {
          do {
            let answer = try self.copied(id, items, wanted, member)
            if !pending.give(.success(answer)) { member.claims.end(id, self.snapshots) }
          } catch {
            pending.give(.failure(ControlError(mapping: error)))
            table.release(id)
          }
        }
      } catch {
        pending.give(.failure(ControlError(mapping: error)))
        table.release(id)
      }
    }
  }

  /// Takes the copies that are wanted. A claim of nothing else is over then.
  private func copied(
    _ id: ClaimID, _ items: [(names: [ItemName], path: PathBytes)], _ wanted: [Wanted],
    _ member: ConnectionParties.Member
  ) throws -> GivenClaim {
    var paths: [PathBytes] = []
    for (item, place) in zip(wanted, items) {
      guard item.options.contains(.forUploading) else {
        paths.append(place.path)
        continue
      }
      do {
        let taken = try snapshots.take(place.names, in: item.session)
        paths.append(PathBytes(taken.path))
        member.claims.keep(taken.directory, for: id, snapshots)
      } catch {
        member.claims.end(id, snapshots)
        throw ControlError(
          ControlError.status(of: error), "cannot copy \"\(place.path)\": \(error)")
      }
    }
    if wanted.allSatisfy({ $0.options.contains(.forUploading) }) { member.table.release(id) }
    return GivenClaim(claim: id.rawValue, paths: paths)
  }

  /// The files at or below the item whose content is not here. Not those below an ordinary
  /// directory, unless all are wanted: who reads that reads names, and opens what it wants.
  private func missing(
    _ names: [ItemName], in session: ContainerSession, all: Bool
  ) -> [Catalog.Inode] {
    var inode = try? session.catalog.inode(.root)
    for name in names {
      guard let directory = inode?.number else { return [] }
      inode = (try? session.catalog.lookup(name, in: directory)) ?? nil
    }
    guard let inode else { return [] }
    if inode.kind == .file { return inode.content == .remote ? [inode] : [] }
    guard inode.kind == .directory,
      all || (try? session.coordinator.isPackage(inode)) == true
    else { return [] }
    var result: [Catalog.Inode] = []
    try? session.coordinator.forEachBelow(inode.number) { child in
      if child.kind == .file, child.content == .remote { result.append(child) }
    }
    return result
  }

  // MARK: Ending

  func release(_ request: ReleaseRequest, _ connection: ClientConnection) throws(ControlError) {
    let id = ClaimID(request.claim)
    guard let table = account?.claims, let member = parties.existing(connection, in: table) else {
      throw ControlError(.notFound, "this connection has no claim \(request.claim)")
    }
    let hadCopies = member.claims.end(id, snapshots)
    guard table.owner(of: id) == member.party else {
      guard !hadCopies else { return }
      throw ControlError(.notFound, "this connection has no claim \(request.claim)")
    }
    for session in account?.sessions ?? [] { session.coordinator.noteEnd(of: id) }
    table.release(id)
  }

  /// Gives up a claim that waits, or whose content does. Any number of times.
  func cancel(_ request: CancelRequest, _ connection: ClientConnection) {
    guard let table = account?.claims else { return }
    parties.existing(connection, in: table)?.claims.pending(request.ticket)?.cancel()
  }
}
