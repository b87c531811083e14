import Daemon
import Glibc
import Logging
import Platform

/// A directory of a test's own; removed with it.
final class Scratch {
  let path: String

  init() throws {
    var template = Array("/tmp/ubiquityfs-daemon-test-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw Failure() }
    path = String(
      decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit { try? Files.removeTree(path) }

  struct Failure: Error {}

  func mode(_ name: String) throws -> UInt32 {
    try Files.status(path + "/" + name).st_mode & 0o7777
  }
}

let quietLogger: Logger = {
  Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
}()
