internal import Glibc

/// What /proc tells of other processes.
package enum Processes {
  /// Of a process or one of its threads, by its number; none when it is gone or cannot be seen.
  package static func supplementaryGroups(of process: Int32) -> [UInt32] {
    firstLine(of: process, "status") { words in
      words.first == "Groups:" ? words.dropFirst().compactMap { UInt32($0) } : nil
    } ?? []
  }

  /// The process, its parent and so on, as far as it can be seen. A thread stands for its process.
  package static func lineage(of process: Int32, limit: Int = 64) -> [Int32] {
    var result: [Int32] = []
    var current = process
    while current > 0, result.count < limit {
      guard let status = status(of: current) else { break }
      result.append(status.group)
      current = status.parent
    }
    return result
  }

  /// The process that a thread is of, and the parent of that.
  private static func status(of process: Int32) -> (group: Int32, parent: Int32)? {
    var group: Int32?
    return firstLine(of: process, "status") { words in
      guard words.count == 2, let value = Int32(words[1]) else { return nil }
      if words[0] == "Tgid:" { group = value }
      return words[0] == "PPid:" ? group.map { ($0, value) } : nil
    }
  }

  /// As `ps` has it; its number where it cannot be seen.
  package static func name(of process: Int32) -> String {
    let name = firstLine(of: process, "comm") { $0.joined(separator: " ") }
    return name.map { "\($0) (process \(process))" } ?? "process \(process)"
  }

  /// What `body` makes of the first line of a file of the process of which it makes something; it
  /// gets the line's words.
  private static func firstLine<Result>(
    of process: Int32, _ file: String, _ body: ([Substring]) -> Result?
  ) -> Result? {
    guard let file = fopen("/proc/\(process)/\(file)", "re") else { return nil }
    defer { fclose(file) }
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    while getline(&line, &capacity, file) > 0 {
      guard let line else { break }
      if let result = body(String(cString: line).split(whereSeparator: \.isWhitespace)) {
        return result
      }
    }
    return nil
  }
}
