internal import Glibc

/// What /proc tells of other processes.
package enum Processes {
  /// Of a process or one of its threads, by its number; none when it is gone or cannot be seen.
  package static func supplementaryGroups(of process: Int32) -> [UInt32] {
    guard let file = fopen("/proc/\(process)/status", "re") else { return [] }
    defer { fclose(file) }
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    while getline(&line, &capacity, file) > 0 {
      guard let line, case let text = String(cString: line), text.hasPrefix("Groups:") else {
        continue
      }
      return text.dropFirst("Groups:".count).split(whereSeparator: \.isWhitespace)
        .compactMap { UInt32($0) }
    }
    return []
  }
}
