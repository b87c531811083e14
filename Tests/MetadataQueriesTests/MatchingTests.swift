import MetadataQueries
import Testing

@Suite struct MatchingTests {
  private func matches(
    _ text: String, _ values: [MetadataAttribute: MetadataValue], form: PredicateForm = .format
  ) throws -> Bool {
    PredicateMatcher(try QueryPredicate(text, form: form)).matches { values[$0] ?? .null }
  }

  @Test(arguments: [
    ("== 'a.txt'", "a.txt", true), ("== '*.txt'", "a.txt", true), ("== '*.txt'", ".txt", true),
    ("== '?.txt'", "a.txt", false), ("LIKE '?.txt'", "a.txt", true),
    ("LIKE '?.txt'", "ab.txt", false), ("LIKE '*'", "", true), ("LIKE 'a*b*c'", "aXbYbc", true),
    ("LIKE 'a*b*c'", "aXbYb", false), ("LIKE '\\*'", "x", false), ("LIKE '\\*'", "*", true),
    ("== '*.TXT'", "a.txt", false), ("==[c] '*.TXT'", "a.txt", true),
    ("LIKE[c] 'STRASSE'", "straße", true), ("LIKE[d] 'cafe'", "café", true),
    ("LIKE[d] 'cafe'", "cafe\u{301}", true), ("LIKE 'caf?'", "cafe\u{301}", true),
    ("LIKE[d] 'CAFE'", "café", false), ("LIKE[cd] 'CAF*'", "été café", false),
    ("LIKE[cd] 'ETE*'", "Été café", true), ("== 'café'", "cafe\u{301}", true),
    ("!= '*.txt'", "a.md", true), ("BEGINSWITH 'ab'", "abc", true),
    ("BEGINSWITH[c] 'AB'", "abc", true), ("ENDSWITH 'bc'", "abc", true),
    ("CONTAINS 'b'", "abc", true), ("CONTAINS ''", "abc", true), ("CONTAINS 'cb'", "abc", false),
    ("CONTAINS[cd] 'EE'", "idéee", true), ("IN {'a', 'b'}", "b", true), ("IN {'a*'}", "ab", false),
    ("IN[c] {'A'}", "a", true), ("< 'b'", "a", true), ("BETWEEN {'a', 'c'}", "b", true),
    ("LIKE '*a*a*a*a*a*a*a*a*b'", String(repeating: "a", count: 250), false),
    ("LIKE '*☂*'", "grün ☂.txt", true), ("LIKE 'gr?n*'", "grün ☂.txt", true),
  ])
  func textIsCompared(condition: String, name: String, result: Bool) throws {
    #expect(try matches("name \(condition)", [.name: .text(name)]) == result)
  }

  @Test func otherKindsAreCompared() throws {
    let isUploaded = try #require(MetadataAttribute(named: "isUploaded"))
    let percentDownloaded = try #require(MetadataAttribute(named: "percentDownloaded"))
    let item: [MetadataAttribute: MetadataValue] = [
      .size: .integer(10), isUploaded: .flag(true), .modified: .date(1_000_000_000),
      percentDownloaded: .integer(50),
    ]
    for text in [
      "size == 10", "size > 9.5", "size < 10.5", "size BETWEEN {10, 11}", "size IN {1, 10.0}",
      "isUploaded == YES", "isUploaded != 0", "modified < '2026-01-01'", "size != 11",
      "modified == '1970-01-01T00:00:01Z'", "NOT size < 10", "downloadingError == NULL",
      "NOT downloadingError == 'x'", "downloadingError != 'x'", "NOT name LIKE '*'", "size != NULL",
      "size == 10 AND (isUploaded == 0 OR percentDownloaded >= 50)", "TRUEPREDICATE",
      "NOT FALSEPREDICATE", "downloadingError IN {NULL}",
    ] {
      #expect(try matches(text, item), "\(text)")
    }
    for text in ["size > 10", "isUploaded == 0", "downloadingError < 'x'", "name == '*'"] {
      #expect(try !matches(text, item), "\(text)")
    }
  }

  @Test(
    "dates compare as times from 1901 to 2446, and a date outside of that as the nearest one",
    arguments: [
      ("modified > '2300-01-01'", true), ("modified > '1901-12-14'", true),
      ("modified == '2400-01-01T00:00:00Z'", true), ("modified < '2026-01-01'", false),
      ("modified BETWEEN {'2399-12-31', '9999-12-31'}", true), ("modified < '1850-01-01'", false),
      // Seconds from 2001 on.
      ("modified == CAST(12591158400, 'NSDate')", true),
      ("modified > CAST(1e300, 'NSDate')", false), ("modified > CAST(-1e300, 'NSDate')", true),
    ])
  func lateDatesAreCompared(text: String, result: Bool) throws {
    let late = MetadataValue.date(13_569_465_600 &* 1_000_000_000)
    #expect(try matches(text, [.modified: late]) == result)
    #expect(late.secondsSince1970 == 13_569_465_600)
    #expect(MetadataValue(secondsSince1970: 13_569_465_600) == late)
    #expect(MetadataValue(secondsSince1970: -1.5) == .date(-1_500_000_000))
    #expect(MetadataValue.date(-1_500_000_000).secondsSince1970 == -1.5)
  }

  @Test func whatIsDearIsAskedLast() throws {
    let matcher = PredicateMatcher(try QueryPredicate("isUploaded == 1 AND name == 'a'"))
    #expect(matcher.needsStatus)
    var asked: [MetadataAttribute] = []
    _ = matcher.matches {
      asked.append($0)
      return .text("b")
    }
    #expect(asked == [.name])
    #expect(try !PredicateMatcher(QueryPredicate("size > 1 OR isPackage == 1")).needsStatus)
  }

  @Test func everyNameOfAnAttributeIsItsOwn() throws {
    var names: [String: MetadataAttribute] = [:]
    for attribute in MetadataAttribute.allCases {
      for name in Set([attribute.key, attribute.constant?.name, attribute.constant?.value]) {
        guard let name else { continue }
        #expect(names.updateValue(attribute, forKey: name) == nil)
        #expect(MetadataAttribute(named: name) == attribute)
      }
    }
    #expect(names["kMDItemFSName"] == .name)
    let isUploaded = MetadataAttribute(named: "isUploaded")
    #expect(names["NSMetadataUbiquitousItemIsUploadedKey"] == isUploaded)
  }
}
