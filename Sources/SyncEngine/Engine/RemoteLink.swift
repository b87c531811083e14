package import Coordination
package import Model
internal import Platform
package import RemoteStore

/// The way to the container in the backend, made when it is first needed: a device that starts
/// without its backend works with what it has.
package final class RemoteLink: RemoteContent, Sendable {
  package typealias Connect = @Sendable () async throws(RemoteError) -> RemoteContainer

  private let connect: Connect
  private let isOffline: @Sendable () -> Bool
  private let known = Lock<RemoteContainer?>(nil)
  private let reader = Lock<(@Sendable () async -> Void)?>(nil)

  package init(isOffline: @escaping @Sendable () -> Bool, connect: @escaping Connect) {
    self.isOffline = isOffline
    self.connect = connect
  }

  package var isReachable: Bool { !isOffline() }

  /// How to read the log to its head.
  func setCatchUp(_ reader: (@Sendable () async -> Void)?) { self.reader.withLock { $0 = reader } }

  package func catchUp() async { await reader.withLock { $0 }?() }

  package func container() async throws(RemoteError) -> RemoteContainer {
    if let container = known.withLock({ $0 }) { return container }
    let made = try await connect()
    return known.withLock { known in
      if let first = known { return first }
      known = made
      return made
    }
  }

  package func read(_ chunks: [ChunkLocation], limit: Duration) async throws(FetchFailure)
    -> [[UInt8]]
  {
    let result = await withTaskGroup(
      of: Result<[[UInt8]], FetchFailure>.self
    ) { group -> Result<[[UInt8]], FetchFailure> in
      group.addTask {
        do throws(RemoteError) {
          return .success(try await self.container().read(chunks))
        } catch {
          return .failure(FetchFailure(error))
        }
      }
      group.addTask {
        try? await Task.sleep(for: limit)
        return .failure(.stalled)
      }
      let first = await group.next() ?? .failure(.stalled)
      group.cancelAll()
      return first
    }
    return try result.get()
  }
}
