import Model

@testable import ControlProtocol
@testable import MetadataQueries

/// Predicates, which any program may send, and dates.
extension FuzzTarget {
  static let queryTargets: [FuzzTarget] = [
    FuzzTarget(
      "predicate", limit: 70_000, seeds: { predicates.map { [0] + [UInt8]($0) } },
      run: {
        try checkPredicate($0, .format)
      }),
    FuzzTarget(
      "predicate-words", limit: 70_000,
      seeds: {
        (predicates + ["*.txt", "size>5 name:x", "a\\*b [x] OR !c"]).map { [0] + [UInt8]($0) }
      },
      run: {
        try checkPredicate($0, .commandLine)
      }),
    FuzzTarget(
      "pattern", limit: 512, seeds: { [[3] + [UInt8]("a*b?\\*\nabxb*"), [0] + [UInt8]("É*\né")] },
      run: { bytes in
        var input = InputReader(bytes)
        let options = MetadataComparison.Options(rawValue: input.byte() & 3)
        let parts = input.all().split(separator: 0x0A, maxSplits: 1).map { Array($0).text }
        let pattern = TextPattern(parts.first ?? "", options: options, hasQuestionMark: true)
        _ = pattern.matches(parts.last ?? "")
        let name = parts.last ?? ""
        try expect(
          TextPattern("*", options: options, hasQuestionMark: true).matches(name),
          "* does not match “\(name)”")
      }),
    FuzzTarget(
      "date", limit: 256,
      seeds: {
        [
          "2026-01-31T09:05:00.000000001Z", "1901-12-13 20:45:52+01:30", "2446-05-10",
          "0001-01-01T23:59:60-23:59", "9999-12-31",
        ].map { [UInt8]($0) }
      },
      run: { bytes in
        if let nanoseconds = DateText.nanoseconds(bytes.text) {
          let text = Instant.text(nanoseconds: nanoseconds)
          try expect(
            DateText.nanoseconds(text) == nanoseconds, "“\(text)” is read as another time")
        }
        guard bytes.count >= 8 else { return }
        let word = bytes.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let time = Timestamp(nanoseconds: Int64(bitPattern: word))
        let text = Instant.text(time)
        try expect(
          DateText.nanoseconds(text) == time.nanoseconds,
          "“\(text)” is read as another time")
        if let value = MetadataValue(secondsSince1970: Double(bitPattern: word)) {
          try expect(value.secondsSince1970 != nil, "a date is none")
        }
      }),
  ]

  /// The first byte says which item is asked.
  private static func checkPredicate(_ bytes: [UInt8], _ form: PredicateForm) throws {
    var input = InputReader(bytes)
    let seed = Int64(input.byte())
    let text = input.all().text
    let predicate: QueryPredicate
    do throws(PredicateError) {
      predicate = try QueryPredicate(text, form: form)
    } catch {
      _ = error.description
      return
    }
    let arguments: [PredicateArgument] = [.value(.text("x")), .list([.integer(1), .integer(2)])]
    _ = try? QueryPredicate(text, form: form, arguments: arguments)
    let matcher = PredicateMatcher(predicate)
    let value: (MetadataAttribute) -> MetadataValue = { attribute in
      switch attribute.kind {
      case .text: seed == 1 ? .null : .text("Ünïcode.name \(seed)")
      case .number: .integer(seed)
      case .flag: .flag(seed & 1 == 0)
      case .date: .date(seed << 55)
      }
    }
    let matches = matcher.matches(value)
    // The daemon's text of a predicate is read as the same predicate.
    let shown = predicate.description
    guard shown.unicodeScalars.count <= 65_536 else { return }
    let again: QueryPredicate
    do throws(PredicateError) { again = try QueryPredicate(shown) } catch {
      throw BrokenProperty("“\(shown)” is no predicate: \(error.reason)")
    }
    try expect(again.description == shown, "“\(shown)” is read as another predicate")
    try expect(
      PredicateMatcher(again).matches(value) == matches, "“\(shown)” matches other items")
  }

  private static let predicates = [
    "name LIKE[cd] '*.t?t' AND (size >= 5 OR NOT isPinned == TRUE)",
    "modified > CAST('2026-01-31T09:05:00Z', 'NSDate') && size BETWEEN {1, 2.5e3}",
    "kMDItemFSName == \"a\\u00e9\\n\" || downloadingStatus IN {'current', 'downloaded'}",
    "5 < size", "uploadingError != NULL", "TRUEPREDICATE", "created < CAST(1e9, 'NSDate')",
    "percentDownloaded == CAST(CAST('5', 'NSNumber'), 'NSNumber')", "%K == %@",
  ]
}
