import ControlProtocol
import Testing

@Suite struct InstantTests {
  /// The right column is what `date -u -d @SECONDS` says.
  @Test(arguments: [
    (0, "1970-01-01T00:00:00.000000000Z"),
    (1, "1970-01-01T00:00:00.000000001Z"),
    (-1, "1969-12-31T23:59:59.999999999Z"),
    (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
    (1_709_251_199_123_456_789, "2024-02-29T23:59:59.123456789Z"),
    (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000000Z"),
    (-2_208_988_800_000_000_000, "1900-01-01T00:00:00.000000000Z"),
    (Int64.min, "1677-09-21T00:12:43.145224192Z"),
    (Int64.min + 1, "1677-09-21T00:12:43.145224193Z"),
    (Int64.max, "2262-04-11T23:47:16.854775807Z"),
  ])
  func timesAreText(_ nanoseconds: Int64, _ text: String) {
    #expect(Instant.text(nanoseconds: nanoseconds) == text)
  }
}
