package import Coordination
package import Model
internal import Platform
package import RemoteStore

/// What the network is like, for the engine to ask at any time.
package struct LinkWeather: Sendable {
  /// Airplane mode is on.
  package var isOffline: @Sendable () -> Bool
  /// Why nothing can be asked of the backend; nil: it answers, as far as is known.
  package var outage: @Sendable () -> String?
  /// Somebody waits for what the backend has, though there is an outage.
  package var wanted: @Sendable () -> Void
  /// Bytes cost money: nothing comes or goes that nobody asked for.
  package var isMetered: @Sendable () -> Bool
  /// Bytes wait for their turn, since they are limited: they are late on purpose.
  package var isHoldingDownloads: @Sendable () -> Bool

  package init(
    isOffline: @escaping @Sendable () -> Bool,
    outage: @escaping @Sendable () -> String? = { nil },
    wanted: @escaping @Sendable () -> Void = {},
    isMetered: @escaping @Sendable () -> Bool = { false },
    isHoldingDownloads: @escaping @Sendable () -> Bool = { false }
  ) {
    self.isOffline = isOffline
    self.outage = outage
    self.wanted = wanted
    self.isMetered = isMetered
    self.isHoldingDownloads = isHoldingDownloads
  }
}

/// The way to the container in the backend, made when it is first needed: a device that starts
/// without its backend works with what it has.
package final class RemoteLink: RemoteContent, Sendable {
  package typealias Connect = @Sendable () async throws(RemoteError) -> RemoteContainer

  private let connect: Connect
  private let weather: LinkWeather
  private let known = Lock<RemoteContainer?>(nil)
  private let reader = Lock<(@Sendable () async -> Void)?>(nil)
  /// Why nothing is asked of the store any more.
  enum End: Sendable, Equatable {
    case containerDeleted(String)
    /// This device was removed from the account.
    case deviceRemoved(String)

    var text: String {
      switch self {
      case .containerDeleted(let text), .deviceRemoved(let text): text
      }
    }
  }

  private let ending = Lock<End?>(nil)

  package init(_ weather: LinkWeather, connect: @escaping Connect) {
    self.weather = weather
    self.connect = connect
  }

  package convenience init(
    isOffline: @escaping @Sendable () -> Bool, connect: @escaping Connect
  ) {
    self.init(LinkWeather(isOffline: isOffline), connect: connect)
  }

  /// From here on nothing is asked of the store. False: it had ended before.
  func end(_ reason: End) -> Bool {
    ending.withLock { known in
      defer { known = reason }
      return known == nil
    }
  }

  var isEnded: Bool { ending.withLock { $0 != nil } }

  var isDeleted: Bool {
    if case .containerDeleted? = ending.withLock({ $0 }) { true } else { false }
  }

  package var obstacle: FetchFailure? {
    if let end = ending.withLock({ $0 }) { return .containerDeleted(end.text) }
    if weather.isOffline() { return .offline }
    return weather.outage().map(FetchFailure.unreachable)
  }

  /// The same for who syncs.
  func check() throws(SyncFailure) {
    switch ending.withLock({ $0 }) {
    case .containerDeleted(let text)?: throw .deleted(text)
    case .deviceRemoved(let text)?: throw .removed(text)
    case nil: break
    }
    if weather.isOffline() { throw .offline }
    if let reason = weather.outage() { throw .unreachable(reason) }
  }

  package var isMetered: Bool { weather.isMetered() }

  package func wanted() { weather.wanted() }

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
    -> [OpenedBytes]
  {
    let result = await withTaskGroup(
      of: Result<[OpenedBytes], FetchFailure>.self
    ) { group -> Result<[OpenedBytes], FetchFailure> in
      group.addTask {
        do throws(RemoteError) {
          return .success(try await self.container().read(chunks))
        } catch {
          let failure = FetchFailure(error)
          // What did not arrive is known by now not to.
          return .failure(failure == .stalled ? self.obstacle ?? failure : failure)
        }
      }
      group.addTask {
        repeat {
          try? await Task.sleep(for: limit)
        } while !Task.isCancelled && self.weather.isHoldingDownloads()
        return .failure(self.obstacle ?? .stalled)
      }
      let first = await group.next() ?? .failure(.stalled)
      group.cancelAll()
      return first
    }
    return try result.get()
  }
}
