internal import Model

extension ObjectStore {
  /// Tries whether exactly one of many racing puts of one object succeeds, whether the object is
  /// that one's, and whether a later put fails. Throws `.invalid` if not: on such a store devices
  /// would overwrite each other's changes. Leaves nothing behind.
  ///
  /// `place`: the store's name in messages. `advice`: the end of the message, a sentence.
  package func checkConditionalPuts(
    place: String, advice: String, racers: Int = 16
  ) async throws(StoreError) {
    let key = "probe/" + Hex.encode((0..<16).map { _ in UInt8.random(in: 0...255) })
    var failure: StoreError?
    var winners: [UInt8] = []
    do {
      winners = try await withThrowingTaskGroup(of: UInt8?.self) { group in
        for racer in 0..<UInt8(clamping: racers) {
          group.addTask { try await racingPut(key, [racer]) ? racer : nil }
        }
        return try await group.reduce(into: [UInt8]()) { if let winner = $1 { $0.append(winner) } }
      }
    } catch {
      failure = error as? StoreError ?? .cancelled
    }
    var bytes: [UInt8] = []
    var isPutAgain = false
    do throws(StoreError) {
      bytes = try await get(key, range: nil)
      isPutAgain = try await putIfAbsent(key, [])
    } catch {
      failure = failure ?? error
    }
    try? await delete(key)
    if let failure { throw failure }
    let defect: String
    if winners.count != 1 {
      defect = "\(winners.count) of \(racers) concurrent puts of one object succeeded"
    } else if bytes != winners {
      defect = "the backend stored another object than the one whose put succeeded"
    } else if isPutAgain {
      defect = "a conditional put replaced an existing object"
    } else {
      return
    }
    throw .invalid(
      "\(place) does not honour conditional puts: \(defect). Devices would overwrite each other's "
        + "changes. \(advice)")
  }

  /// A store may ask for a retry when two puts meet, which is no answer.
  private func racingPut(_ key: String, _ own: [UInt8]) async throws(StoreError) -> Bool {
    var left = 8
    while true {
      do throws(StoreError) {
        return try await putIfAbsent(key, own)
      } catch {
        left -= 1
        guard left > 0, let pause = error.pauseBeforeRetry else { throw error }
        // The put may have been done although its answer was lost.
        if let bytes = try? await get(key, range: nil) { return bytes == own }
        try? await Task.sleep(for: pause + .milliseconds(Int.random(in: 50...400)))
      }
    }
  }
}
