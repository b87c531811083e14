package import Coordination
package import Model

/// What the fetcher needs of the remote side.
package protocol RemoteContent: Sendable {
  /// False in airplane mode and before the backend was reached: nothing is asked of it then.
  var isReachable: Bool { get }

  /// Reads the log to its head: it may have brought what is missing elsewhere.
  func catchUp() async

  /// The plain bytes of each chunk, checked. Gives up with `.stalled` when the answer takes longer
  /// than `limit`.
  func read(_ chunks: [ChunkLocation], limit: Duration) async throws(FetchFailure) -> [[UInt8]]
}
