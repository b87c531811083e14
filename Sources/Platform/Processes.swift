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

  /// The process, its parent and so on, as far as it can be seen. A thread stands for its process.
  package static func lineage(of process: Int32) -> [Int32] {
    var result: [Int32] = []
    var current = process
    while current > 0, result.count < 64 {
      guard let status = status(of: current) else { break }
      result.append(status.group)
      current = status.parent
    }
    return result
  }

  /// The process that a thread is of, and the parent of that.
  private static func status(of process: Int32) -> (group: Int32, parent: Int32)? {
    guard let file = fopen("/proc/\(process)/status", "re") else { return nil }
    defer { fclose(file) }
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    var group: Int32?
    while getline(&line, &capacity, file) > 0 {
      guard let line else { break }
      let parts = String(cString: line).split(whereSeparator: \.isWhitespace)
      guard parts.count == 2, let value = Int32(parts[1]) else { continue }
      if parts[0] == "Tgid:" { group = value }
      if parts[0] == "PPid:", let group { return (group, value) }
    }
    return nil
  }

  /// As `ps` has it; its number where it cannot be seen.
  package static func name(of process: Int32) -> String {
    guard let file = fopen("/proc/\(process)/comm", "re") else { return "process \(process)" }
    defer { fclose(file) }
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    guard getline(&line, &capacity, file) > 0, let line else { return "process \(process)" }
    let name = String(cString: line).split(separator: "\n").first ?? ""
    return "\(name) (process \(process))"
  }
}
