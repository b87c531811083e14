import Catalog
import Coordination
import Model
import Testing

/// Which requests are refused while the kernel may know another inode by a name.
@Suite struct StaleNamesTests {
  private let names = StaleNames()
  private let name: KernelName
  private let other: KernelName

  init() throws {
    name = KernelName(InodeNumber(5), try ItemName("name"))
    other = KernelName(InodeNumber(5), try ItemName("other"))
  }

  @Test("a request is refused once, whoever else asks, and also if the kernel hears meanwhile")
  func refusedOnce() {
    #expect(!names.mustAskAgain(name, by: 1))
    names.begin()
    #expect(names.mustAskAgain(name, by: 1))
    #expect(names.mustAskAgain(name, by: 2))
    #expect(!names.mustAskAgain(name, by: 1))
    names.end()
    #expect(!names.mustAskAgain(name, by: 2))
    // Nothing is left of these requests: the next ones are others.
    names.begin()
    #expect(names.mustAskAgain(name, by: 1))
    #expect(names.mustAskAgain(name, by: 2))
  }

  @Test("a request that comes again may be in another directory, and another request drops it")
  func refusedElsewhere() throws {
    names.begin()
    #expect(names.mustAskAgain(name, by: 1))
    let elsewhere = KernelName(InodeNumber(6), try ItemName("name"))
    #expect(!names.mustAskAgain(elsewhere, by: 1))
    #expect(names.mustAskAgain(name, by: 1))
    #expect(names.mustAskAgain(other, by: 1))
    #expect(names.mustAskAgain(name, by: 1))
  }

  @Test("a thread that nobody knows is not refused: it could not be known again")
  func unknownThread() {
    names.begin()
    #expect(!names.mustAskAgain(name, by: 0))
  }

  @Test("a name in doubt makes no other name stale, and counts as often as it was given")
  func doubt() {
    names.begin(doubting: [name])
    names.begin(doubting: [name, other])
    names.end(doubting: [name, other])
    #expect(names.isStale(name))
    #expect(!names.isStale(other))
    names.end(doubting: [name])
    #expect(!names.isStale(name))
  }
}
