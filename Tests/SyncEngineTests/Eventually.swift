import Testing

/// Waits until a condition holds, and fails after the deadline.
func eventually(
  _ condition: String, within seconds: Int = 120, _ isSo: () async throws -> Bool
) async throws {
  let end = ContinuousClock.now + .seconds(seconds)
  while try await !isSo() {
    try #require(ContinuousClock.now < end, "\(condition): not within \(seconds) s")
    try await Task.sleep(for: .milliseconds(5))
  }
}
