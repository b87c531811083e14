import Catalog
import Coordination
import Model
import Platform
import Testing

/// Files that programs have open for writing, as claims that nobody asked for.
@Suite struct ClaimTableTests {
  private let table = ClaimTable()
  private let file = WrittenFile(1, InodeNumber(5))
  private let path: ClaimPath

  init() throws { path = ClaimPath([Place(1, InodeNumber(1), try ItemName("file"))]) }

  /// Whether a claim for writing has been given, now or later.
  private func claim() -> Lock<Bool> {
    let isGiven = Lock(false)
    let claimant = ClaimantID(table.join(name: "a program"))
    table.claim([ClaimAccess(path, .writing([]))], by: claimant) { _, result in
      if case .success = result { isGiven.withLock { $0 = true } }
    }
    return isGiven
  }

  @Test("a claim waits for a file that was open before")
  func earlierWriter() {
    table.looking()
    table.entered(file, at: path, by: nil, name: "sh")
    let isGiven = claim()
    table.looked()
    #expect(!isGiven.withLock { $0 })
    table.left(file)
    #expect(isGiven.withLock { $0 })
  }

  @Test("an open that is told of after the last claim ended keeps no later claim out")
  func lateWriter() {
    // Its close is told of to nobody: no program claims anything then.
    table.entered(file, at: path, by: nil, name: "sh")
    #expect(!table.isActive)
    table.looking()
    let isGiven = claim()
    table.looked()
    #expect(isGiven.withLock { $0 })
  }
}
