internal import Glibc
internal import SystemPackage

/// Which files of one file system programs have locked.
package struct FileLocks: Sendable, Hashable {
  package var inodes: Set<UInt64>
  /// The processes that hold the locks. A lock of an open file description (fcntl(2), F_OFD_SETLK)
  /// has nobody.
  package var processes: Set<Int32>

  package init(inodes: Set<UInt64> = [], processes: Set<Int32> = []) {
    self.inodes = inodes
    self.processes = processes
  }

  private static let longestList = 16 << 20

  /// `device` is as in `/proc/self/mountinfo`. Nil: it cannot be told. Source: proc_locks(5).
  package static func read(ofDevice device: String) -> FileLocks? {
    let parts = device.split(separator: ":").compactMap { UInt64($0) }
    guard parts.count == 2, let file = try? OpenFile.open("/proc/locks", flags: O_RDONLY) else {
      return nil
    }
    var bytes: [UInt8] = []
    while bytes.count < longestList {
      guard let piece = try? file.read(count: 1 << 16, at: UInt64(bytes.count)) else { return nil }
      if piece.isEmpty {
        return parse(String(decoding: bytes, as: UTF8.self), major: parts[0], minor: parts[1])
      }
      bytes += piece
    }
    return nil
  }

  /// Lines such as `1: POSIX  ADVISORY  WRITE 3568 00:2f:129 0 EOF`. One that waits has `->` in it.
  package static func parse(_ text: String, major: UInt64, minor: UInt64) -> FileLocks {
    var result = FileLocks()
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ").filter { $0 != "->" }
      guard words.count >= 6, let process = Int32(words[4]) else { continue }
      let place = words[5].split(separator: ":")
      guard place.count == 3, UInt64(place[0], radix: 16) == major,
        UInt64(place[1], radix: 16) == minor, let inode = UInt64(place[2])
      else { continue }
      result.inodes.insert(inode)
      if process > 0 { result.processes.insert(process) }
    }
    return result
  }
}
