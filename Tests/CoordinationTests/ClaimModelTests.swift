import Catalog
import Coordination
import Model
import Testing

/// Every state of small worlds of claims and presenters: exclusion, no lost wake-up, order, no
/// deadlock.
@Suite struct ClaimModelTests {
  private func path(_ names: String...) throws -> ClaimPath {
    var places: [Place] = []
    for (depth, name) in names.enumerated() {
      places.append(Place(1, InodeNumber(UInt64(depth + 1)), try ItemName(name)))
    }
    return ClaimPath(places)
  }

  private func claimant(_ party: UInt64) -> ClaimantID { ClaimantID(PartyID(party)) }

  private func check(_ world: ClaimWorld, _ name: String) {
    let findings = world.explore()
    #expect(findings.problems.isEmpty, "\(findings.problems.prefix(2))")
    print(
      "\(name): \(findings.states) states, \(findings.steps) steps, \(findings.grants) grants, "
        + "\(findings.refusals) refusals")
  }

  /// A directory, a file in it and its neighbour; three programs that nest.
  @Test func claimsAreExclusiveFairAndEnd() throws {
    let directory = try path("d")
    let file = try path("d", "f")
    let other = try path("d", "g")
    var world = ClaimWorld()
    for party in 1...3 {
      world.actors.append(
        ClaimWorld.Actor(
          claimant: claimant(UInt64(party)),
          claims: [
            [ClaimAccess(file, .reading([]))], [ClaimAccess(file, .writing([]))],
            [ClaimAccess(other, .writing([]))], [ClaimAccess(directory, .reading([]))],
            [ClaimAccess(directory, .writing([]))],
          ], depth: party < 3 ? 2 : 1, mayCancel: true))
    }
    world.mayDisconnect = true
    check(world, "nested claims")
  }

  /// Several items in one claim, in whatever order they are named.
  @Test func severalItemsAtOnceNeverDeadlock() throws {
    let one = try path("a")
    let two = try path("b")
    var world = ClaimWorld()
    for party in 1...4 {
      world.actors.append(
        ClaimWorld.Actor(
          claimant: claimant(UInt64(party)),
          claims: [
            [ClaimAccess(one, .writing([])), ClaimAccess(two, .writing([]))],
            [ClaimAccess(two, .writing([])), ClaimAccess(one, .reading([]))],
            [ClaimAccess(one, .reading([]))], [ClaimAccess(two, .writing([]))],
          ], depth: 1, mayCancel: true))
    }
    check(world, "several items")
  }

  /// Those who present are asked, and may claim before they answer.
  @Test func presentersAreAskedAndMaySave() throws {
    let directory = try path("d")
    let file = try path("d", "f")
    var world = ClaimWorld()
    world.presenters = [
      (PresenterID(1), PartyID(1), file), (PresenterID(2), PartyID(2), directory),
    ]
    for party in 1...3 {
      world.actors.append(
        ClaimWorld.Actor(
          claimant: claimant(UInt64(party)),
          claims: [
            [ClaimAccess(file, .writing([]))], [ClaimAccess(file, .reading([]))],
            [ClaimAccess(file, .writing(.forDeleting))],
            [ClaimAccess(directory, .reading(.withoutChanges))],
          ], depth: party == 1 ? 2 : 1, mayCancel: party == 2))
    }
    check(world, "presenters")
  }

  /// Items move while they are claimed and waited for.
  @Test func movesLoseNoWakeUp() throws {
    let file = try path("d", "f")
    let moved = try path("e")
    var world = ClaimWorld()
    for party in 1...3 {
      world.actors.append(
        ClaimWorld.Actor(
          claimant: claimant(UInt64(party)),
          claims: [
            [ClaimAccess(file, .writing([]))], [ClaimAccess(file, .reading([]))],
            [ClaimAccess(moved, .writing([]))], [ClaimAccess(file, .writing(.forReplacing))],
          ], depth: party == 1 ? 2 : 1, mayCancel: true))
    }
    world.moves = [(file, moved), (moved, file)]
    world.moveCount = 2
    check(world, "moves")
  }
}
