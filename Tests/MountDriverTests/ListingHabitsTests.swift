import Testing

@testable import MountDriver

struct ListingHabitsTests {
  private let habits = ListingHabits()

  @Test func aThreadThatOnlyListsGetsNames() {
    for directory in UInt64(1)..<10 { #expect(!habits.begins(7, directory)) }
  }

  @Test func aThreadThatLooksAtWhatItListedGetsAllFromThenOn() {
    #expect(!habits.begins(7, 1))
    habits.looked(7, in: 1)
    for directory in UInt64(1)..<10 { #expect(habits.begins(7, directory)) }
  }

  @Test func lookingElsewhereSaysNothing() {
    #expect(!habits.begins(7, 1))
    habits.looked(7, in: 2)
    habits.looked(8, in: 1)
    #expect(!habits.begins(7, 1))
  }

  @Test func threadsThatShareAPlaceStartAnew() {
    #expect(!habits.begins(7, 1))
    habits.looked(7, in: 1)
    #expect(!habits.begins(7 + 256, 1))
    #expect(!habits.begins(7, 1))
  }
}
