import Catalog
import Testing

@testable import FileSystem

@Suite struct NodeTableTests {
  private let table = NodeTable()

  @Test func lookupsAreForgottenAsOftenAsTheyWereCounted() {
    let numbers = (1...40).map { InodeNumber($0) } + [InodeNumber(1 << 40)]
    for (index, number) in numbers.enumerated() {
      for _ in 0...index { table.addLookup(number) }
    }
    #expect(table.count == 41)
    for (index, number) in numbers.enumerated() {
      #expect(!table.becameOrphan(number))
      if index > 0 { #expect(!table.forget(number, count: UInt64(index))) }
      #expect(table.forget(number, count: 1))
      #expect(!table.forget(number, count: 1))
    }
    #expect(table.count == 0)
  }

  @Test func moreIsForgottenThanWasCounted() {
    table.addLookup(InodeNumber(5))
    #expect(!table.forget(InodeNumber(5), count: .max))
    #expect(table.count == 0)
    #expect(table.becameOrphan(InodeNumber(5)))
  }

  @Test func whatIsOpenIsNotForgotten() {
    let number = InodeNumber(5)
    table.addLookup(number)
    table.update(number) { $0.openings += 1 }
    #expect(!table.becameOrphan(number))
    #expect(!table.forget(number, count: 1))
    table.update(number) { $0.openings -= 1 }
    #expect(table.count == 0)
    #expect(table.becameOrphan(number))
  }

  @Test("orphans of one page go one by one, each when it is forgotten")
  func orphansOfAPage() {
    let numbers = (16..<32).map { InodeNumber($0) }
    for number in numbers { table.addLookup(number) }
    for number in numbers { #expect(!table.becameOrphan(number)) }
    #expect(!table.forget(InodeNumber(40), count: 1))
    for number in numbers.reversed() { #expect(table.forget(number, count: 1)) }
    #expect(table.count == 0)
    #expect(table.removeAll() == [])
  }

  @Test func aStateStaysWhileTheKernelKnowsTheInode() {
    let number = InodeNumber(5)
    let cached = CachedContent(generation: 1, isLocal: true)
    table.addLookup(number)
    table.update(number) { $0.cached = cached }
    #expect(table.update(number) { $0.cached } == cached)
    #expect(!table.forget(number, count: 1))
    #expect(table.update(number) { $0.cached } == nil)
  }

  @Test func whatIsLeftAtTheEndAreOrphans() {
    for number in 1...40 { table.addLookup(InodeNumber(UInt64(number))) }
    for number in [3, 30] { #expect(!table.becameOrphan(InodeNumber(UInt64(number)))) }
    #expect(Set(table.removeAll()) == [InodeNumber(3), InodeNumber(30)])
    #expect(table.count == 0)
  }

  /// More than a page counts of one inode.
  @Test func countsGoOnBeyondAPage() {
    let number = InodeNumber(5)
    table.update(number) { $0.openings += 1 }
    table.update(number) { $0.lookups = 3 << 32 }
    table.addLookup(number)
    table.update(number) { $0.openings -= 1 }
    #expect(!table.becameOrphan(number))
    #expect(!table.forget(number, count: 1 << 32))
    #expect(!table.forget(number, count: 2 << 32))
    #expect(table.count == 1)
    #expect(table.forget(number, count: 1))
  }
}
