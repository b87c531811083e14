/// Until when an answer has to have come: 50 KB/s on the whole, whatever length the store
/// announces.
///
/// An announced length alone is no deadline, since a store may announce a gibibyte and send a byte
/// a second. So the bytes that have come count as well: with them alone, twice the patience is
/// granted.
struct AnswerDeadline {
  let began: UInt64
  let patience: Duration
  /// Bytes of the request's own body.
  let sent: Int
  /// Bytes that the answer may have, as far as is known.
  var mostBytes = 0

  private static let slowest: Int64 = 50_000

  init(began: UInt64, patience: Duration, sent: Int) {
    self.began = began
    self.patience = patience
    self.sent = sent
  }

  /// How long the head of the answer may take.
  var forHead: Duration { patience * 2 + Self.time(sent) }

  func allows(received: Int, at now: UInt64) -> Bool {
    let passed = Duration.nanoseconds(Int64(clamping: now - min(began, now)))
    return passed < patience + Self.time(sent) + Self.time(mostBytes)
      && passed < patience * 2 + Self.time(sent) + Self.time(received)
  }

  private static func time(_ bytes: Int) -> Duration {
    .milliseconds(min(Int64(bytes), 1 << 40) * 1000 / slowest)
  }
}

extension Duration {
  var inNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
  }
}
