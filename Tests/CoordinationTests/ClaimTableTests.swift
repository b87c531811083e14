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
  private func claim(by party: PartyID? = nil) -> Lock<Bool> {
    let isGiven = Lock(false)
    let claimant = ClaimantID(party ?? table.join(name: "a program"))
    table.claim([ClaimAccess(path, .writing([]))], by: claimant) { _, result in
      if case .success = result { isGiven.withLock { $0 = true } }
    }
    return isGiven
  }

  /// The threads that have the file open, as the open table would say; 0 is one that is not known.
  private func opened(by threads: [Int32], _ parties: [Int32: PartyID] = [:]) {
    table.follow(file, at: path, found: parties, name: "sh") {
      (threads.count, threads.filter { $0 > 0 })
    }
  }

  private func watched(_ body: () -> Void) {
    table.looking()
    body()
    table.looked()
  }

  @Test("a claim waits for a file that was open before")
  func earlierWriter() {
    table.looking()
    opened(by: [0])
    let isGiven = claim()
    table.looked()
    #expect(!isGiven.withLock { $0 })
    opened(by: [])
    #expect(isGiven.withLock { $0 })
  }

  @Test("an open that is told of after the last claim ended keeps no later claim out")
  func lateWriter() {
    // Its close is told of to nobody: no program claims anything then.
    opened(by: [0])
    #expect(!table.isActive)
    watched { #expect(claim().withLock { $0 }) }
  }

  @Test("a file that is opened again while it is closed goes on being waited for")
  func reopenedWriter() {
    watched {
      opened(by: [4])
      let isGiven = claim()
      // The close is told of late.
      opened(by: [5])
      #expect(!isGiven.withLock { $0 })
      opened(by: [])
      #expect(isGiven.withLock { $0 })
    }
  }

  @Test("a program waits for a file that another program has open too, and no longer than that")
  func sharedWriter() {
    let party = table.join(name: "a program", process: 4)
    watched {
      opened(by: [4], [4: party])
      opened(by: [4, 9])
      let isGiven = claim(by: party)
      #expect(!isGiven.withLock { $0 })
      opened(by: [4])
      #expect(isGiven.withLock { $0 })
    }
  }

  @Test("a program's file stays its own when the thread that opened it has ended")
  func endedThread() {
    let party = table.join(name: "a program", process: 4)
    watched {
      opened(by: [7], [7: party])
      // Nobody can tell any more whose the thread was.
      opened(by: [7])
      #expect(claim(by: party).withLock { $0 })
    }
  }

  @Test("what a program has started keeps a file from others when the program has ended")
  func outlivingWriter() {
    let party = table.join(name: "a program", process: 4)
    watched {
      opened(by: [5], [5: party])
      let isGiven = claim()
      table.leave(party)
      #expect(!isGiven.withLock { $0 })
      opened(by: [])
      #expect(isGiven.withLock { $0 })
    }
  }

  @Test("the other connection of a process takes over the files of the one that ends")
  func heir() {
    let first = table.join(name: "a program", process: 4)
    let second = table.join(name: "a program", process: 4)
    watched {
      opened(by: [4], [4: first])
      let isGiven = claim(by: second)
      table.leave(first)
      #expect(isGiven.withLock { $0 })
    }
  }

  @Test("when nobody has the file open or claims it nothing is left")
  func nothingLeft() {
    let party = table.join(name: "a program", process: 4)
    watched { opened(by: [4, 0], [4: party]) }
    #expect(table.isEmpty && !table.isActive)
  }
}
