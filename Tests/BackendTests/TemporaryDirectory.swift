import Glibc
import Platform

/// A directory that goes with its last reference.
final class TemporaryDirectory: Sendable {
  let path: String

  init() throws {
    let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    path = "\(base)/ubiquityfs-test-\(getpid())-\(UInt64.random(in: 0...UInt64.max))"
    try Files.makeDirectory(path)
  }

  deinit { try? Files.removeTree(path) }
}

func write(_ text: String, to path: String) throws {
  try Files.replace(path, with: Array(text.utf8))
}
