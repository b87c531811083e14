internal import FoundationEssentials
package import Model
internal import Platform
package import SyncEngine

/// What is known here of the account's quota and of what its containers take, kept in `quota.json`
/// so that a device that is offline knows it too. The lock is a leaf; the file is written under it.
package final class QuotaKeeper: Sendable {
  /// A container as it was last heard of.
  struct Figure: Codable, Hashable, Sendable {
    var container: String
    var bytes: UInt64
  }

  private struct Stored: Codable, Equatable {
    /// The identity of the account.
    var account: String
    var limit: UInt64?
    var figures: [Figure] = []
    /// When the backend last gave the figures, in nanoseconds since 1970.
    var asOf: Int64?
  }

  private struct State {
    var stored: Stored
    /// What is open here is summed up here.
    var open: Set<ContainerID> = []
    /// What was last told to other devices.
    var told: [ContainerUsage] = []
  }

  package let allotment = Allotment()
  private let path: String
  private let state: Lock<State>

  /// `account`: the identity of the account. What the file has of another one is not looked at.
  package init(path: String, account: String) {
    self.path = path
    var stored = Stored(account: account)
    if let bytes = try? Files.read(path),
      let found = try? BoundedJSON.decode(Stored.self, from: bytes),
      found.account == account
    {
      stored = found
    }
    state = Lock(State(stored: stored))
    allotment.set(limit: stored.limit)
    change { _ in }
  }

  package var limit: UInt64? { state.withLock { $0.stored.limit } }

  /// What containers take, as far as other devices told, by name.
  package var figures: [String: UInt64] {
    state.withLock { state in
      Dictionary(
        state.stored.figures.map { ($0.container, $0.bytes) },
        uniquingKeysWith: { first, _ in first })
    }
  }

  /// When the figures were last read from the backend; nil: never.
  package var asOf: Timestamp? {
    state.withLock { $0.stored.asOf.map { Timestamp(nanoseconds: $0) } }
  }

  /// As the backend has it; nil: none was ever set. Gives whether the limit is another than before.
  @discardableResult
  package func note(_ quota: AccountQuota?) -> Bool {
    let isOther = change { state in
      let before = state.stored.limit
      state.stored.limit = quota?.limit
      return before != quota?.limit
    }
    allotment.set(limit: quota?.limit)
    return isOther
  }

  /// All containers of the account, and what its devices tell of them.
  package func note(
    _ containers: [(id: ContainerID, incarnation: IncarnationID)], _ devices: [DeviceRecord],
    at time: Timestamp
  ) {
    var newest: [IncarnationID: ContainerUsage] = [:]
    for usage in devices.flatMap(\.usage) {
      if let known = newest[usage.incarnation], known.sequence >= usage.sequence { continue }
      newest[usage.incarnation] = usage
    }
    change { state in
      state.stored.figures = containers.compactMap { id, incarnation in
        newest[incarnation].map { Figure(container: id.description, bytes: $0.bytes) }
      }
      state.stored.asOf = time.nanoseconds
    }
  }

  package func opened(_ id: ContainerID) { change { $0.open.insert(id) } }

  package func closed(_ id: ContainerID) { change { $0.open.remove(id) } }

  /// Whether other devices are to be told of what containers take here.
  package func isNews(_ usage: [ContainerUsage]) -> Bool {
    state.withLock { state in
      func essence(_ usage: [ContainerUsage]) -> [IncarnationID: UInt64] {
        Dictionary(usage.map { ($0.incarnation, $0.bytes) }, uniquingKeysWith: { $1 })
      }
      return essence(state.told) != essence(usage)
    }
  }

  package func told(_ usage: [ContainerUsage]) { state.withLock { $0.told = usage } }

  @discardableResult
  private func change<Result>(_ body: (inout State) -> Result) -> Result {
    let (result, elsewhere) = state.withLock { state in
      let before = state.stored
      let result = body(&state)
      if state.stored != before { save(state.stored) }
      let elsewhere = state.stored.figures.reduce(UInt64(0)) { sum, figure in
        guard !state.open.contains(where: { $0.description == figure.container }) else {
          return sum
        }
        let (result, overflow) = sum.addingReportingOverflow(figure.bytes)
        return overflow ? .max : result
      }
      return (result, elsewhere)
    }
    allotment.set(elsewhere: elsewhere)
    return result
  }

  /// What cannot be kept is asked for again with the next connection.
  private func save(_ stored: Stored) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    guard let bytes = try? encoder.encode(stored) else { return }
    try? Files.replace(path, with: Array(bytes) + [0x0A])
  }
}
