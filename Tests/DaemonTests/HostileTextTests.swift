import Daemon
import Glibc
import Logging
import Model
import Platform
import Testing

/// Text that other users, devices and stores choose.
@Suite struct HostileTextTests {
  @Test(
    "control characters and those that turn the direction of text are written as numbers",
    arguments: [
      ("plain ä 漢 🙂", "plain ä 漢 🙂"), ("\u{1B}[2J", "\\u{1b}[2J"), ("a\rb", "a\\u{d}b"),
      ("\u{9B}31m", "\\u{9b}31m"), ("\u{202E}gpj.exe", "\\u{202e}gpj.exe"),
      ("two\nlines\tone", "two\nlines\tone"), ("\u{7F}\u{0}", "\\u{7f}\\u{0}"),
    ])
  func visible(text: String, shown: String) {
    #expect(VisibleText.of(text) == shown)
  }

  @Test("a field of a line has no newline, not even one after a return")
  func fields() {
    #expect(VisibleText.field("a\tb\nc\r\nd") == "a\\tb\\nc\\u{d}\\nd")
  }

  @Test(
    "a log line stays one line without control characters, for any text",
    arguments: [("\n", " "), ("\r\n", "\\u{d} ")])
  func logLines(newline: String, shown: String) throws {
    let scratch = try Scratch()
    let sink = LogSink(path: scratch.path + "/log", isDetached: true)
    sink.logger("test", level: .info).info("name \u{1B}]0;x\u{7}\(newline)forged line")
    let bytes = try Files.read(scratch.path + "/log")
    #expect(bytes.filter { $0 == 0x0A }.count == 1)
    let text = String(decoding: bytes, as: UTF8.self)
    #expect(text.hasSuffix("info test: name \\u{1b}]0;x\\u{7}\(shown)forged line\n"))
  }

  @Test("a bucket that is reached without encryption over a network has a warning")
  func warnings() throws {
    func warning(_ endpoint: String) throws -> String? {
      try BackendAddress("s3://bucket/prefix?region=eu-1&endpoint=\(endpoint)").warning
    }
    #expect(try warning("http://s3.example.org")?.contains("not encrypted") == true)
    #expect(try warning("http://127.0.0.1.example.org")?.contains("not encrypted") == true)
    for endpoint in [
      "https://s3.example.org", "http://127.0.0.1:9000", "http://localhost:9000", "http://[::1]:1",
    ] {
      #expect(try warning(endpoint) == nil)
    }
    #expect(try BackendAddress("file:///srv/cloud").warning == nil)
  }
}
