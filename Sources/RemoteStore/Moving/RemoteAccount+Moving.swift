package import Backend
internal import Model
internal import Platform
internal import RecordFormat

/// An unfinished move of the account to another store.
package struct StoreMove: Sendable, Hashable {
  /// The URL as the device that moves them wrote it.
  package let store: String
  /// The entry of the member log that began the move.
  package let entry: UInt64
}

/// The state of another store with respect to this account.
package enum MoveTarget: Sendable, Hashable {
  /// It has no `format`. It may have part of a copy.
  case empty
  /// It has the whole account, and the account's devices may use it.
  case arrived
  /// It has the whole account. No device may use it yet.
  case copied
  /// It has objects of another account, or of another history of this one.
  case foreign
}

/// Moving to another store.
///
/// **Invariant: the last copy has every change that any device put into the former store.** First
/// an entry of the member log begins the move. A device that has read it writes nothing to the
/// former store. Then each log gets a segment that names the entry. A device cannot put a segment
/// after that one before it has read it, and so the entry. After these segments the last copy
/// begins.
///
/// Only the new store gets the entry that ends the move. So a device tells the two stores apart by
/// their member logs. Their URLs may differ between devices.
extension RemoteAccount {
  /// The unfinished move away from the store that this device uses, as far as it knows.
  package var move: StoreMove? { keys.membership.move }

  /// `body` is called, on any task, when this device reads that the account leaves its store.
  package func onMove(_ body: (@Sendable () -> Void)?) { keys.onMove(body) }

  /// Moves the account to `target`, or completes a move that was interrupted. Any member may call
  /// it. After it has returned, open this device's account with `target`.
  ///
  /// `url` is where other devices look for the store. `abandonsOther` gives up an unfinished move
  /// to a third store. Throws `.targetTaken`, with nothing changed, for a target with other
  /// objects.
  package func moveStore(
    to target: any ObjectStore, url: String, abandonsOther: Bool = false,
    progress: @Sendable (StoreCopy.Progress) -> Void = { _ in }
  ) async throws(RemoteError) -> StoreCopy.Progress {
    // The former store may be gone by now.
    if try await standing(of: target) == .arrived { return StoreCopy.Progress() }
    try await refreshMembers()
    switch try await standing(of: target) {
    case .arrived: return StoreCopy.Progress()
    case .foreign: throw .targetTaken(target.description)
    case .empty, .copied: break
    }
    let copy = StoreCopy(from: store, to: target)
    var sum = StoreCopy.Progress()
    if try await !isMoving(to: target, url: url) {
      if let move, !abandonsOther { throw .moved(to: move.store) }
      // Most of it, while all devices work.
      sum = try await copy.copyObjects(progress: progress)
      FaultPoint.reach("move.first-copy")
      if move == nil { try await memberLog.join() }
      try await memberLog.append { membership throws(RemoteError) in
        try keys.requireNotRemoved()
        guard let identity = keys.identity else { throw .notMember }
        if let known = membership.move {
          if known.store == url { return nil }
          guard abandonsOther else { throw .moved(to: known.store) }
        }
        return MemberEntry(
          previous: membership.hash, signer: identity.device, time: MemberLog.now, movesTo: url)
      }
    }
    FaultPoint.reach("move.begun")
    try await settleMembers()
    FaultPoint.reach("move.announced")
    let base = sum
    let last = try await copy.copyObjects { progress(base + $0) }
    sum = base + last
    if let missing = try await copy.firstMissing() {
      throw .store(
        .unavailable("the new backend does not list \"\(missing)\", which was just stored there"))
    }
    try await copy.complete(with: keys.membership.format)
    try await arrive(at: target)
    return sum
  }

  /// Whether a move to this store has begun. Another device may have another URL for it.
  private func isMoving(to target: any ObjectStore, url: String) async throws(RemoteError) -> Bool {
    guard let move else { return false }
    if move.store == url { return true }
    let known = keys.membership
    return try await Self.small(ObjectName.member(move.entry), in: target)
      == known.stored[Int(move.entry - 1)]
  }

  /// Ends the move in the new store alone. The entry is not folded: this device still uses the
  /// former store, and must not write there.
  private func arrive(at target: any ObjectStore) async throws(RemoteError) {
    let membership = keys.membership
    guard let identity = keys.identity, membership.isMember(identity.device) else {
      throw .notMember
    }
    let entry = MemberEntry(
      previous: membership.hash, signer: identity.device, time: MemberLog.now, hasArrived: true)
    let stored = membership.sealed(entry, by: identity)
    let isPut = try await MemberLog(store: target, state: keys)
      .putOnce(ObjectName.member(membership.number + 1), stored)
    if !isPut {
      // Another member may have ended it at the same time.
      guard try await standing(of: target) == .arrived else {
        throw .targetTaken(target.description)
      }
    }
    FaultPoint.reach("move.arrived")
  }

  /// Compares a store with this device's member log. Reads only.
  package func standing(of target: any ObjectStore) async throws(RemoteError) -> MoveTarget {
    guard let format = try await Self.storedFormat(target) else {
      let names = ObjectName.members
      let listed = try await target.ownKeys(names, limit: RemoteLimits.names)
      // A partial copy has entries of this account and no others.
      for (name, key) in listed {
        guard case .member(let number) = key else { continue }
        let known = keys.membership
        guard number <= known.number else { continue }
        guard try await Self.small(name, in: target) == known.stored[Int(number - 1)] else {
          return .foreign
        }
      }
      return .empty
    }
    guard let description = try? Self.read(format), description.account == keys.account else {
      return .foreign
    }
    var membership = keys.membership
    let known = membership
    if known.number > 0 {
      let object = ObjectName.member(known.number)
      guard try await Self.small(object, in: target) == known.stored[Int(known.number - 1)] else {
        return .foreign
      }
    }
    while let stored = try await Self.small(ObjectName.member(membership.number + 1), in: target) {
      do throws(RemoteError) { try membership.fold(stored) } catch .epochUnknown {
        // This device was removed there, and learns that from the new store.
        break
      }
    }
    if membership.lastArrival > known.lastArrival, membership.move == nil { return .arrived }
    return known.move != nil && membership.number == known.number ? .copied : .foreign
  }
}

extension StoreCopy.Progress {
  static func + (one: Self, other: Self) -> Self {
    Self(
      objects: max(one.objects, other.objects), total: max(one.total, other.total),
      copied: one.copied + other.copied,
      bytes: one.bytes + other.bytes)
  }
}
