internal import Model
internal import Platform
internal import SyncEngine

/// The lists of versions that `versions list` showed last, so that `versions resolve` can tell what
/// arrived after the list was shown.
///
/// In memory: after a restart of the daemon `versions resolve` replaces no current version that its
/// caller does not name. The oldest lists go when there are very many.
final class ShownVersionLists: Sendable {
  private struct Key: Hashable {
    let container: ContainerID
    let item: ItemID
  }

  private struct State {
    var lists: [Key: ShownVersions] = [:]
    /// The oldest first.
    var order: [Key] = []
  }

  private let state = Lock(State())
  private static let limit = 1_000

  func note(_ versions: [FileVersion], of item: ItemID, in container: ContainerID) {
    let key = Key(container: container, item: item)
    let shown = ShownVersions(
      current: versions.first { $0.isCurrent }?.id, all: Set(versions.map(\.id)))
    state.withLock { state in
      if state.lists.updateValue(shown, forKey: key) == nil { state.order.append(key) }
      if state.order.count > Self.limit { state.lists[state.order.removeFirst()] = nil }
    }
  }

  func last(of item: ItemID, in container: ContainerID) -> ShownVersions? {
    state.withLock { $0.lists[Key(container: container, item: item)] }
  }

  func forget(_ item: ItemID, in container: ContainerID) {
    let key = Key(container: container, item: item)
    state.withLock { state in
      guard state.lists.removeValue(forKey: key) != nil else { return }
      state.order.removeAll { $0 == key }
    }
  }
}
