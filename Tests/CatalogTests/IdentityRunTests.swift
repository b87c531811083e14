import Model
import Testing

@testable import Catalog

@Suite struct IdentityRunTests {
  @Test("items that are made one after another have neighbouring identities")
  func newItemsAreNeighbours() throws {
    let fixture = try Fixture()
    let items = try (0..<100).map { try fixture.file(ItemName("n\($0)")).item }
    // One run may end among them.
    let steps = zip(items, items.dropFirst()).map { $1.high &- $0.high }
    #expect(steps.filter { $0 != 1 }.count <= 1)
    #expect(Set(items.map(\.low)).count == items.count)
  }

  @Test("a run ends after so many identities, and the next begins elsewhere")
  func runsEnd() {
    var random = SplitMix(state: 1)
    var run = IdentityRun<ItemKey>()
    let length = IdentityRun<ItemKey>.length
    let made = (0..<3 * length).map { _ in run.next(using: &random) }
    let starts = made.indices.filter { $0 == 0 || made[$0].high != made[$0 - 1].high &+ 1 }
    #expect(starts == [0, length, 2 * length])
    #expect(Set(made).count == made.count)
  }

  @Test("catalogs that open at the same moment make different identities")
  func catalogsDiffer() throws {
    let (one, other) = (try Fixture(), try Fixture())
    let items = try [one, other].map { try $0.file("n").item }
    #expect(items[0].high != items[1].high && items[0].low != items[1].low)
  }
}
