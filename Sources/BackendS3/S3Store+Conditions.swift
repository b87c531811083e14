package import Backend

extension S3Store {
  private static let racers = 16

  /// Tries whether of many that put one object at the same time exactly one is told that it did,
  /// and the object is that one's. Throws `.invalid` where it is not so: on such a store devices
  /// would write over each other's changes. Leaves nothing behind.
  package func checkConditions() async throws(StoreError) {
    let key = "probe/\(Self.randomName())"
    var failure: StoreError?
    var winners: [UInt8] = []
    do {
      winners = try await withThrowingTaskGroup(of: UInt8?.self) { group in
        for racer in 0..<UInt8(Self.racers) {
          let bytes = [racer]
          group.addTask { try await self.racingPut(key, bytes) ? racer : nil }
        }
        return try await group.reduce(into: [UInt8]()) { if let winner = $1 { $0.append(winner) } }
      }
    } catch {
      failure = error as? StoreError ?? .cancelled
    }
    var bytes: [UInt8] = []
    var isTakenAgain = false
    do throws(StoreError) {
      bytes = try await get(key, range: nil)
      isTakenAgain = try await putIfAbsent(key, [])
    } catch {
      failure = failure ?? error
    }
    try? await delete(key)
    if let failure { throw failure }
    let wrong: String
    if winners.count != 1 {
      wrong =
        "of \(Self.racers) that put one object at once \(winners.count) were told that they did"
    } else if bytes != winners {
      wrong = "the object is of another than the one who was told so"
    } else if isTakenAgain {
      wrong = "an object that was there was put again"
    } else {
      return
    }
    throw .invalid(
      "\(connection.place) does not honour conditional puts (If-None-Match: *): \(wrong); devices would "
        + "write over each other there. Use a store that has them, such as Amazon S3, Ceph or MinIO"
    )
  }

  /// A store may ask for it to be done again when two meet; that is no answer.
  private func racingPut(_ key: String, _ own: [UInt8]) async throws(StoreError) -> Bool {
    var left = 8
    while true {
      do throws(StoreError) {
        return try await putIfAbsent(key, own)
      } catch {
        left -= 1
        guard left > 0, let pause = error.pauseBeforeRetry else { throw error }
        // What was done and not told counts as done.
        if let bytes = try? await get(key, range: nil) { return bytes == own }
        try? await Task.sleep(for: pause + .milliseconds(Int.random(in: 50...400)))
      }
    }
  }
}
