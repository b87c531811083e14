import Catalog
import Coordination
import Glibc
import Model
import Platform
import TestWaiting
import Testing

/// What is told to presenters of what is being moved at the same time.
@Suite struct MovedNewsTests {
  let container: Container
  init() throws { container = try Container() }

  private final class Listener: PresenterListening {
    let heard = Lock<[PresenterNews.Subject]>([])
    func asked(_ question: Question) {}
    func reacquired(_ presenter: PresenterID) {}
    func passedOver(_ question: Question) {}
    func withdrawn(_ question: Question) {}
    func told(_ news: [PresenterNews]) { heard.withLock { $0 += news.map(\.subject) } }
  }

  /// In the catalog it has its new name, its presenter is still where it was: the change is not
  /// told to nobody.
  @Test func aChangeWhileItIsMovedIsHeard() async throws {
    let coordinator = container.coordinator
    let (number, handle) = try container.create("f", "text")
    let listener = Listener()
    let party = coordinator.claims.join(name: "editor", process: 0, listener: listener)
    let claimed = try #require(try coordinator.claimed(number))
    _ = coordinator.claims.present(claimed.path, by: party)

    coordinator.beginMoving()
    let (old, new) = (try ItemName("f"), try ItemName("g"))
    let outcome = try container.catalog.rename(
      old, in: .root, to: new, in: .root, mode: .replace)
    container.system.release(handle)
    // Nothing tells that the news do not come too early: this is time enough for them. Without
    // suspending: in a starved thread pool that can last longer than news wait for a move.
    usleep(100_000)
    coordinator.noteMove(
      of: outcome.moved, from: (.root, old), to: (.root, new), replaced: nil, isExchange: false)
    coordinator.endMoving()

    try await eventually("the presenter has heard two things") {
      listener.heard.withLock { $0.count } >= 2
    }
    #expect(listener.heard.withLock { $0 } == [.item(.changed), .item(.moved)])
  }
}
