package import Model
internal import Platform

/// What the account may take, and what its containers take of it: shared by all containers that are
/// open here. The lock is a leaf; who is woken is woken without it.
///
/// Within one container nothing is ever over the limit that its device knows, since what is
/// committed stands on the state of the log that was summed up. Of other containers on this device
/// the same is so: what one has chosen to send is reserved. Of containers that are open elsewhere
/// alone it is as exact as the figures that other devices tell.
package final class Allotment: Sendable {
  fileprivate struct Member {
    /// As its log was last folded here.
    var used: UInt64
    /// Chosen to be sent and not in the log yet.
    var reserved: UInt64 = 0
    /// Something of it waits for room.
    var isWaiting = false
    var wake: (@Sendable () -> Void)?
  }

  private struct State {
    var limit: UInt64?
    /// Of containers that are not open here.
    var elsewhere: UInt64 = 0
    var members: [ContainerID: Member] = [:]

    var used: UInt64 { members.values.reduce(elsewhere) { $0.plus($1.used) } }

    /// What one container may take at most.
    func share(of id: ContainerID) -> UInt64? {
      guard let limit else { return nil }
      let others = members.reduce(elsewhere) { sum, member in
        member.key == id ? sum : sum.plus(member.value.used).plus(member.value.reserved)
      }
      return limit > others ? limit - others : 0
    }
  }

  private let state: Lock<State>

  package init(limit: UInt64? = nil) { state = Lock(State(limit: limit)) }

  package struct Figures: Hashable, Sendable {
    package var limit: UInt64?
    package var used: UInt64

    package init(limit: UInt64?, used: UInt64) {
      self.limit = limit
      self.used = used
    }

    /// Nil without a limit.
    package var left: UInt64? { limit.map { $0 > used ? $0 - used : 0 } }
  }

  package var figures: Figures {
    state.withLock { Figures(limit: $0.limit, used: $0.used) }
  }

  /// What a container that is open here takes.
  package func used(by id: ContainerID) -> UInt64? { state.withLock { $0.members[id]?.used } }

  package func set(limit: UInt64?) { change { $0.limit = limit } }

  /// What containers take that are not open here.
  package func set(elsewhere bytes: UInt64) { change { $0.elsewhere = bytes } }

  /// A container is open here. `wake` is called when there may be room for what waits.
  package func opened(_ id: ContainerID, using bytes: UInt64, wake: @escaping @Sendable () -> Void)
  {
    change { $0.members[id] = Member(used: bytes, wake: wake) }
  }

  package func closed(_ id: ContainerID) { change { $0.members[id] = nil } }

  /// Chooses, of what a container would send, what there is room for, in the order given.
  ///
  /// `growths`: by how much each would make the container larger; what does not is always chosen.
  /// What is chosen is reserved until the next call. `isWaiting`: something else of the container
  /// waits for room.
  func choose(
    for id: ContainerID, using bytes: UInt64, _ growths: [Int64], isWaiting: Bool = false
  ) -> [Bool] {
    change { state in
      guard let share = state.share(of: id) else {
        state.members[id, default: Member(used: bytes)].set(bytes, reserved: 0, isWaiting: false)
        return growths.map { _ in true }
      }
      var free = share > bytes ? share - bytes : 0
      var reserved: UInt64 = 0
      let chosen = growths.map { growth in
        guard growth > 0 else { return true }
        guard UInt64(growth) <= free else { return false }
        free -= UInt64(growth)
        reserved += UInt64(growth)
        return true
      }
      state.members[id, default: Member(used: bytes)].set(
        bytes, reserved: reserved, isWaiting: isWaiting || chosen.contains(false))
      return chosen
    }
  }

  /// How much larger a container may become now; nil: as large as it likes.
  func room(for id: ContainerID, using bytes: UInt64) -> UInt64? {
    state.withLock { state in state.share(of: id).map { $0 > bytes ? $0 - bytes : 0 } }
  }

  /// The container waits for room, whatever `choose` found.
  func waits(_ id: ContainerID) { state.withLock { $0.members[id]?.isWaiting = true } }

  /// Changes the state, and wakes the containers that wait if there is more room for them now.
  private func change<Result>(_ body: (inout State) -> Result) -> Result {
    let (result, woken) = state.withLock { state in
      let before = state.members.keys.reduce(into: [:]) { $0[$1] = state.share(of: $1) ?? .max }
      let result = body(&state)
      let woken = state.members.filter { id, member in
        guard member.isWaiting, let share = before[id] else { return false }
        return (state.share(of: id) ?? .max) > share
      }
      return (result, woken.values.compactMap(\.wake))
    }
    for wake in woken { wake() }
    return result
  }
}

extension Allotment {
  /// What a person is told of contents that have no room. Source: CONTRACT, "Extended attributes".
  static func text(limit: UInt64, files: Int? = nil, bytes: UInt64 = 0) -> String {
    let what = files.map { "\($0) \($0 == 1 ? "file" : "files") of \(bytes) bytes" } ?? "this item"
    return """
      quotaExceeded: the account's quota of \(limit) bytes has no room for \(what), which \
      \(files ?? 1 == 1 ? "stays" : "stay") on this device only until there is room; list the \
      stored data with `ubiquityfs storage`, or raise the quota with `ubiquityfs account quota`
      """
  }
}

extension Allotment.Member {
  fileprivate mutating func set(_ used: UInt64, reserved: UInt64, isWaiting: Bool) {
    self.used = used
    self.reserved = reserved
    self.isWaiting = isWaiting
  }
}

extension UInt64 {
  fileprivate func plus(_ other: UInt64) -> UInt64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? .max : sum
  }
}
