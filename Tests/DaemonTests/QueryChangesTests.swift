import Coordination
import Model
import Testing

@testable import Daemon

/// What events make a query look at again.
@Suite struct QueryChangesTests {
  private static let container = try! ContainerID("iCloud.com.example.test")

  private func changes(
    _ events: [(ItemEvent.Kind, String, String?)]
  ) throws -> QueryChanges {
    var changes = QueryChanges()
    for (kind, path, old) in events {
      func names(_ text: String) throws -> [ItemName] {
        try text.split(separator: "/").map { try ItemName(String($0)) }
      }
      changes.note(
        ItemEvent(
          time: Timestamp(nanoseconds: 1), kind: kind, container: Self.container,
          path: try names(path), oldPath: try old.map(names)))
    }
    return changes
  }

  private func place(_ text: String) -> QueryPlace { Array(text.utf8) }

  @Test func aPlaceIsLookedAtWithItsDirectory() throws {
    let made = try changes([(.created, "a/b/c", nil), (.removed, "d", nil), (.status, "e/f", nil)])
    let part = try #require(made.parts[Self.container])
    #expect(part.places == [place("a/b/c"), place("a/b"), place("d"), place(""), place("e/f")])
    #expect(part.trees.isEmpty && part.moves.isEmpty && !part.isWhole)
  }

  @Test func aMoveIsLookedAtOnBothSides() throws {
    let part = try #require(try changes([(.moved, "b/y", "a/x")]).parts[Self.container])
    #expect(part.moves == [QueryChanges.Move(old: place("a/x"), new: place("b/y"))])
    #expect(part.places == [place("a"), place("b")])
    #expect(
      try changes([(.statusBelow, "a", nil)]).parts[Self.container]?.trees == [place("a")])
  }

  @Test func ofVeryManyAllIsLookedAt() throws {
    let events = (0...QueryChanges.limit).map {
      (ItemEvent.Kind.changed, "d/\($0)", nil as String?)
    }
    let part = try #require(try changes(events).parts[Self.container])
    #expect(part.isWhole && part.count == 0)
    #expect(try changes([(.container, "", nil)]).parts[Self.container]?.isWhole == true)
    let lost = try changes([(.changed, "a", nil), (.overflow, "", nil), (.changed, "b", nil)])
    #expect(lost.isWhole && lost.parts.isEmpty && !lost.isEmpty)
  }

  @Test func placesAreComparedByWholeNames() {
    #expect(place("a/b").isAtOrBelow(place("a")) && place("a").isAtOrBelow(place("a")))
    #expect(!place("ab").isAtOrBelow(place("a")) && place("ab").isAtOrBelow(place("")))
    #expect(
      Set([place("a"), place("a/b/c"), place("ab")]).withoutNested() == [place("a"), place("ab")])
    let many = Set((0..<20).map { place("d\($0)") })
    #expect(many.covers(place("d7/x/y")) && !many.covers(place("d77")) && !many.covers(place("")))
  }
}
