import Glibc
import MetadataQueries
import Testing

@Suite struct PredicateTests {
  @Test(
    arguments: [
      ("NSMetadataItemFSNameKey == '*.txt'", "name == '*.txt'"),
      ("kMDItemFSName like[cd] \"*.TXT\"", "name LIKE[cd] '*.TXT'"),
      ("size>=10 && !isUploaded=1", "size >= 10 AND NOT isUploaded == TRUE"),
      ("a == 1".replacing("a", with: "size"), "size == 1"),
      ("5 < size", "size > 5"),
      ("size = 5.0 OR size == '6'", "size == 5 OR size == 6"),
      ("size == 1 and (size == 2 or size == 3)", "size == 1 AND (size == 2 OR size == 3)"),
      ("(size == 1 OR size == 2) AND NOT (size == 3 AND size == 4)", nil),
      ("size BETWEEN {1, 2}", nil),
      ("name IN {'a', 'b\\'c'}", nil),
      ("name IN {}", nil),
      ("modified > '2026-01-31'", "modified > CAST('2026-01-31T00:00:00.000000000Z', 'NSDate')"),
      (
        "created <= CAST(0, 'NSDate')",
        "created <= CAST('2001-01-01T00:00:00.000000000Z', 'NSDate')"
      ),
      (
        "modified == '2026-01-31T09:05:00.25+01:30'",
        "modified == CAST('2026-01-31T07:35:00.250000000Z', 'NSDate')"
      ),
      (
        "NSMetadataUbiquitousItemDownloadingStatusKey == NSMetadataUbiquitousItemDownloadingStatusNotDownloaded",
        "downloadingStatus == 'notDownloaded'"
      ),
      ("downloadingError != nil", "downloadingError != NULL"),
      ("TRUEPREDICATE", nil), ("not falsepredicate", "NOT FALSEPREDICATE"),
      ("name CONTAINS[c] 'x' OR name BEGINSWITH 'y' OR name ENDSWITH[d] 'z'", nil),
      ("name == '\\u00e9\\n\\\\ \\*'", "name == 'é\\n\\\\ \\\\*'"),
    ] as [(String, String?)])
  func whatIsMeantIsUnderstood(text: String, printed: String?) throws {
    let predicate = try QueryPredicate(text)
    #expect(predicate.description == printed ?? text)
    #expect(try QueryPredicate(predicate.description) == predicate)
  }

  @Test(arguments: [
    ("*.txt", "name LIKE '*.txt'"),
    ("'my file'", "name LIKE 'my file'"),
    ("name", "name LIKE 'name'"),
    ("*.txt OR *.md", "name LIKE '*.txt' OR name LIKE '*.md'"),
    ("*.txt size > 10", "name LIKE '*.txt' AND size > 10"),
    ("name == report", "name == 'report'"),
    ("name LIKE[c] *.TXT", "name LIKE[c] '*.TXT'"),
    ("name ==[c] 'a'", "name ==[c] 'a'"),
    ("downloadingStatus==notDownloaded", "downloadingStatus == 'notDownloaded'"),
    ("isUploaded == 0", "isUploaded == FALSE"),
    ("NOT *.txt", "NOT name LIKE '*.txt'"),
    ("!*.txt", "NOT name LIKE '*.txt'"),
    ("draft!.txt", "name LIKE 'draft!.txt'"),
    ("[a]*", "name LIKE '[a]*'"),
    ("2026", "name LIKE '2026'"),
    ("name == 2026", "name == '2026'"),
    ("10 < size", "size > 10"),
    ("kind IN {file, directory}", "kind IN {'file', 'directory'}"),
    ("(a* OR b*) kind == file", "(name LIKE 'a*' OR name LIKE 'b*') AND kind == 'file'"),
  ])
  func theCommandLineNeedsFewerQuotes(text: String, printed: String) throws {
    let predicate = try QueryPredicate(text, form: .commandLine)
    #expect(predicate.description == printed)
    #expect(try QueryPredicate(printed) == predicate)
  }

  @Test(arguments: [
    ("", 0, "a condition"), ("size >", 6, "expected a value"), ("size > 'x'", 7, "a number"),
    ("sise > 1", 0, "no attribute \"sise\""), ("Size > 1", 0, "did you mean size?"),
    ("name == 'x", 8, "no closing"), ("name ~ 'x'", 5, "no meaning"),
    ("(size == 1", 10, "\")\""), ("size == 1)", 9, "the end"),
    ("size == 1 size == 2", 10, "the end"),
    ("size LIKE '1'", 5, "is not text"), ("name MATCHES 'x'", 5, "no regular expressions"),
    ("isUploaded == 2", 14, "0 or 1"), ("modified > 5", 11, "a date"),
    ("modified > '2026-02-29'", 11, "a date"), ("size BETWEEN {1}", 13, "two values"),
    ("size IN 1", 8, "a list"), ("downloadingStatus == 'here'", 21, "notDownloaded"),
    ("name < NULL", 7, "NULL"), ("size == %@", 8, "no argument"), ("%x == 1", 0, "expected %@"),
    ("name ==[x] 'a'", 8, "c, d or cd"), ("name == x", 8, "in quotes"),
    ("ANY name == 'a'", 0, "ANY"),
    ("size == CAST('x', 'NSNumber')", 13, "not a number"), ("'*.txt'", 7, "an operator"),
  ])
  func whatIsWrongIsSaidWithItsPlace(text: String, offset: Int, reason: String) {
    let error = #expect(throws: PredicateError.self) { try QueryPredicate(text) }
    #expect(error?.offset == offset, "\(text)")
    #expect(error?.reason.contains(reason) == true, "\(error?.reason ?? "")")
  }

  @Test func theCommandLineRefusesWhatIsMeantAsATerm() {
    for text in [
      "size >", "sise == 1", "name ==", "size > 10 )", "( *.txt", "NOT", "a OR",
      "isUploaded == maybe",
    ] {
      #expect(throws: PredicateError.self, "\(text)") {
        try QueryPredicate(text, form: .commandLine)
      }
    }
  }

  @Test func aCaretStandsBelowThePlace() {
    let error = #expect(throws: PredicateError.self) { try QueryPredicate("size > ") }
    #expect(
      error?.description
        == """
        the predicate is not valid at character 8: expected a value, but the predicate ends here
          size > 
                 ^
        """)
  }

  @Test func argumentsTakeTheirPlaces() throws {
    let predicate = try QueryPredicate(
      "%K LIKE %@ AND size > %ld AND modified >= %@ AND kind IN %@ AND size BETWEEN %@",
      arguments: [
        .value(.text("NSMetadataItemFSNameKey")), .value(.text("it's *")), .value(.integer(5)),
        .value(.date(1)), .list([.text("file")]), .list([.integer(1), .number(2)]),
      ])
    #expect(
      predicate.description
        == "name LIKE 'it\\'s *' AND size > 5 AND modified >= "
        + "CAST('1970-01-01T00:00:00.000000001Z', 'NSDate') AND kind IN {'file'} AND size BETWEEN {1, 2}"
    )
    #expect(try QueryPredicate(predicate.description) == predicate)
    for (text, arguments): (String, [PredicateArgument]) in [
      ("size > 1", [.value(.integer(1))]), ("%K > 1", [.value(.text("nothing"))]),
      ("size IN %@", [.value(.integer(1))]), ("size == %@", [.list([])]),
      ("size == %f", [.value(.number(.infinity))]), ("size == %K", [.value(.text("size"))]),
    ] {
      #expect(throws: PredicateError.self, "\(text)") {
        try QueryPredicate(text, arguments: arguments)
      }
    }
  }

  @Test("the time for open brackets grows with their number, not with its square")
  func openBrackets() throws {
    func nanoseconds(_ count: Int) throws -> Int {
      let text = String(repeating: "[ ", count: count) + "x"
      return try (0..<3).map { _ in
        let start = Self.processorTime()
        _ = try QueryPredicate(text, form: .commandLine)
        return Self.processorTime() - start
      }.min() ?? 0
    }
    #expect(try nanoseconds(32_000) < 20 * nanoseconds(4_000))
  }

  /// Of this thread, in nanoseconds: other processes have no part in it.
  private static func processorTime() -> Int {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return time.tv_sec * 1_000_000_000 + time.tv_nsec
  }

  @Test func depthAndLengthAreBounded() throws {
    func nested(_ depth: Int) -> String {
      String(repeating: "(", count: depth) + "size == 1" + String(repeating: ")", count: depth)
    }
    _ = try QueryPredicate(nested(QueryPredicate.maximumDepth - 1))
    for text in [
      nested(QueryPredicate.maximumDepth), nested(30_000), String(repeating: "NOT ", count: 10_000),
      "name == '" + String(repeating: "x", count: 70_000) + "'",
      "size == " + String(repeating: "CAST(", count: 13_000),
    ] {
      #expect(throws: PredicateError.self) { try QueryPredicate(text) }
    }
    let cast =
      String(repeating: "CAST(", count: 99) + "5" + String(repeating: ", 'NSNumber')", count: 99)
    #expect(try QueryPredicate("size == " + cast).description == "size == 5")
    let wide = Array(repeating: "size == 1", count: 4_000).joined(separator: " OR ")
    #expect(try QueryPredicate(wide).description == wide)
  }
}
