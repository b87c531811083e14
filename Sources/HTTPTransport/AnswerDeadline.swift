/// The time that a response may take: 50 kB/s on average, whatever length the server announces.
///
/// The announced length alone is no deadline, since a server may announce a gibibyte and send a
/// byte a second. So received bytes count as well: with them alone, twice the patience is granted.
struct AnswerDeadline {
  /// Monotonic nanoseconds.
  let began: UInt64
  let patience: Duration
  /// The size of the request's body.
  let sent: Int
  /// The maximum size of the response, as far as it is known.
  var mostBytes = 0

  private static let slowest: Int64 = 50_000

  init(began: UInt64, patience: Duration, sent: Int) {
    self.began = began
    self.patience = patience
    self.sent = sent
  }

  func allowsHead(at now: UInt64) -> Bool {
    passed(at: now) < patience * 2 + Self.time(sent)
  }

  func allows(received: Int, at now: UInt64) -> Bool {
    let passed = passed(at: now)
    return passed < patience + Self.time(sent) + Self.time(mostBytes)
      && passed < patience * 2 + Self.time(sent) + Self.time(received)
  }

  private func passed(at now: UInt64) -> Duration {
    .nanoseconds(Int64(clamping: now - min(began, now)))
  }

  private static func time(_ bytes: Int) -> Duration {
    .milliseconds(min(Int64(bytes), 1 << 40) * 1000 / slowest)
  }
}
