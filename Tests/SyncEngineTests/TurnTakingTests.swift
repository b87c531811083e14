import Backend
import Model
import RemoteStore
import SyncEngine
import TestWaiting
import Testing

@Suite struct TurnTakingTests {
  private let link = Link(parent: .documents, name: .documents)
  private let second: UInt64 = 1_000_000_000

  /// Gives how long the last of `count` answers, each `gap` seconds after what it answers, has to
  /// wait.
  private func pause(after count: Int, gap: UInt64) -> Duration? {
    var turns = TurnTaking()
    var now = 1_000 * second
    for _ in 0..<count {
      turns.received(link, at: now)
      now += gap * second
      turns.sent(link, at: now)
      now += second
    }
    return turns.pause(link, at: now - second)
  }

  @Test func aFewAnswersAreNoLoop() {
    #expect(pause(after: TurnTaking.limit - 1, gap: 1) == nil)
    #expect(pause(after: 50, gap: 31) == nil)
  }

  @Test func aLoopWaitsLongerAndLonger() {
    #expect(pause(after: TurnTaking.limit, gap: 1) == .seconds(5))
    #expect(pause(after: TurnTaking.limit + 1, gap: 1) == .seconds(10))
    #expect(pause(after: TurnTaking.limit + 3, gap: 1) == .seconds(40))
    #expect(pause(after: 100, gap: 1) == .seconds(300))
  }

  @Test func whoOnlyWritesOrOnlyReadsIsNotSlowed() {
    var turns = TurnTaking()
    for round in UInt64(0)..<50 { turns.sent(link, at: round * second) }
    #expect(turns.pause(link, at: 50 * second) == nil)
    for round in UInt64(50)..<100 { turns.received(link, at: round * second) }
    #expect(turns.pause(link, at: 100 * second) == nil)
  }

  @Test func aPauseEndsAndIsForgiven() {
    var turns = TurnTaking()
    for round in UInt64(0)..<10 {
      turns.received(link, at: round * second)
      turns.sent(link, at: round * second)
    }
    #expect(turns.paused(at: 10 * second).map(\.turns) == [10])
    #expect(turns.pause(link, at: 1_000 * second) == nil)
    turns.forgive()
    #expect(turns.paused(at: 10 * second).isEmpty)
  }

  @Test func manyNamesAreNotKeptForEver() {
    var turns = TurnTaking()
    for number in 0..<20_000 {
      turns.received(Link(parent: .random(), name: link.name), at: UInt64(number))
    }
    for _ in 0..<TurnTaking.limit {
      turns.received(link, at: second)
      turns.sent(link, at: second)
    }
    #expect(turns.pause(link, at: second) != nil)
  }
}

/// Two engines that answer each other for as long as they are let.
@Suite(.serialized) struct SyncLoopTests {
  @Test func devicesThatAnswerEachOtherAreSlowed() async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let devices = [
      try EngineDevice(store: store, secret: secret),
      try EngineDevice(store: store, secret: secret),
    ]
    try devices[0].write("Documents/file", [0])
    for device in devices { await device.sync.start() }
    // Each adds one to what the other wrote. Only the engines' own cycles carry it over.
    let programs = devices.enumerated().map { index, device in
      Task {
        var last: UInt8 = 0
        while !Task.isCancelled {
          if let bytes = try? await device.read("Documents/file"), let value = bytes.first,
            value % 2 == index, value != last || value == 0, value < 200
          {
            try? device.write("Documents/file", [value + 1])
            last = value
          }
          try? await Task.sleep(for: .milliseconds(20))
        }
      }
    }
    defer { for program in programs { program.cancel() } }
    var said: [String] = []
    try await eventually("the status of a device has an error") {
      for device in devices { said += await device.sync.status().errors }
      return !said.isEmpty
    }
    for program in programs { program.cancel() }
    for program in programs { await program.value }
    #expect(said.contains { $0.contains("in response to each other") }, "\(said)")
    // Nothing is lost by waiting.
    for device in devices + devices { try await device.sync.sync() }
    #expect(try await devices[0].read("Documents/file") == devices[1].read("Documents/file"))
    #expect(await devices[0].sync.status().errors.isEmpty)
    for device in devices { await device.end() }
  }
}
