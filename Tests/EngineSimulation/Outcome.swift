/// What came of one run, as the process that did it tells the one that asked for it.
struct Outcome {
  var seed: UInt64 = 0
  var trace: UInt64 = 0
  var acts = 0
  var pieces = 0
  var devices = 0
  var problems: [String] = []
  var tally: [String: Int] = [:]
  /// The process came to its end.
  var isWhole = false

  /// A line for each thing, the last one says that it is the last.
  var text: String {
    var lines = ["seed \(seed)", "trace \(trace)", "acts \(acts)", "pieces \(pieces)"]
    lines.append("devices \(devices)")
    lines += problems.map { "problem \($0.split(separator: "\n").joined(separator: " / "))" }
    lines += tally.sorted { $0.key < $1.key }.map { "tally \($0.value) \($0.key)" }
    return lines.joined(separator: "\n") + "\nend\n"
  }

  init() {}

  init(_ text: String) {
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: " ", maxSplits: 1)
      let rest = parts.count > 1 ? String(parts[1]) : ""
      switch parts.first {
      case "seed": seed = UInt64(rest) ?? 0
      case "trace": trace = UInt64(rest) ?? 0
      case "acts": acts = Int(rest) ?? 0
      case "pieces": pieces = Int(rest) ?? 0
      case "devices": devices = Int(rest) ?? 0
      case "problem": problems.append(rest)
      case "tally":
        let parts = rest.split(separator: " ", maxSplits: 1)
        if parts.count == 2 { tally[String(parts[1])] = Int(parts[0]) }
      case "end": isWhole = true
      default: break
      }
    }
  }
}

/// What came of many.
struct Totals {
  private(set) var runs = 0
  private(set) var acts = 0
  private(set) var pieces = 0
  private(set) var devices = 0
  private(set) var failures = 0
  private(set) var tally: [String: Int] = [:]

  mutating func add(_ outcome: Outcome) {
    runs += 1
    acts += outcome.acts
    pieces += outcome.pieces
    devices += outcome.devices
    tally.merge(outcome.tally, uniquingKeysWith: +)
    if !outcome.problems.isEmpty || !outcome.isWhole { failures += 1 }
  }

  private func sum(_ isCounted: (String) -> Bool) -> Int {
    tally.reduce(0) { $0 + (isCounted($1.key) ? $1.value : 0) }
  }

  func description(seconds: Double) -> String {
    let crashes = sum { $0.hasPrefix("crash") }
    let places = tally.keys.count { $0.hasPrefix("crash at ") }
    let faults = sum { $0.hasPrefix("store") && !$0.hasSuffix("answered") }
    return """
      \(runs) runs, \(devices) devices, \(acts) acts, \(pieces) pieces, \(crashes) crashes \
      (at \(places) fault points and between pieces), \(faults) faults of the store, \
      \(failures) failed, \(Int(seconds.rounded())) s
      """
  }
}
