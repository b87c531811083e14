package import Coordination
package import Model
package import RemoteStore

/// What the fetcher needs of the remote side.
package protocol RemoteContent: Sendable {
  /// Why nothing is asked of the backend now, in airplane mode or while it is known not to answer.
  var obstacle: FetchFailure? { get }

  /// Bytes cost money: nothing comes that nobody asked for.
  var isMetered: Bool { get }

  /// Somebody waits, though there is an obstacle.
  func wanted()

  /// Reads the log to its head: it may have brought what is missing elsewhere.
  func catchUp() async

  /// The plain bytes of each chunk, checked. Gives up with `.stalled` when the answer takes longer
  /// than `limit`.
  func read(_ chunks: [ChunkLocation], limit: Duration) async throws(FetchFailure) -> [OpenedBytes]
}

extension RemoteContent {
  package var isReachable: Bool { obstacle == nil }
}
