internal import Glibc

/// What programs watch with inotify and fanotify in one file system.
package struct InodeWatches: Sendable {
  /// All of it, or too much to say.
  package private(set) var isEverything = false
  package private(set) var inodes: Set<UInt64> = []

  package init() {}

  /// As if everything was watched.
  package static var everything: InodeWatches {
    var result = InodeWatches()
    result.isEverything = true
    return result
  }

  package var isEmpty: Bool { !isEverything && inodes.isEmpty }

  package func contains(_ inode: UInt64) -> Bool { isEverything || inodes.contains(inode) }

  /// Of what processes this one may look into: all for root, else those of the same user. `device`
  /// is as in `/proc/self/mountinfo`. Source: proc_pid_fdinfo(5).
  package static func read(ofDevice device: String) -> InodeWatches {
    var result = InodeWatches()
    let parts = device.split(separator: ":").compactMap { UInt64($0) }
    guard parts.count == 2 else { return result }
    // The kernel's own form of a device's number.
    let number = parts[0] << 20 | parts[1]
    for process in (try? Files.names(in: "/proc")) ?? [] where UInt32(process) != nil {
      for descriptor in (try? Files.names(in: "/proc/\(process)/fd")) ?? [] {
        let target = Files.linkTarget("/proc/\(process)/fd/\(descriptor)")
        guard target == "anon_inode:inotify" || target == "anon_inode:[fanotify]" else { continue }
        let text = Files.smallText("/proc/\(process)/fdinfo/\(descriptor)", limit: 1 << 20)
        result.add(text ?? "", number)
      }
    }
    return result
  }

  /// Lines such as `inotify wd:1 ino:2b sdev:800013 mask:...` and `fanotify mnt_id:1d ...`.
  mutating func add(_ text: String, _ device: UInt64) {
    for line in text.split(separator: "\n") {
      let isFanotify = line.hasPrefix("fanotify ")
      guard isFanotify || line.hasPrefix("inotify ") else { continue }
      var fields: [Substring: UInt64] = [:]
      for field in line.split(separator: " ") {
        let pair = field.split(separator: ":", maxSplits: 1)
        if pair.count == 2, let value = UInt64(pair[1], radix: 16) { fields[pair[0]] = value }
      }
      if isFanotify, fields["mnt_id"] != nil { isEverything = true }
      guard fields["sdev"] == device else { continue }
      if let inode = fields["ino"] {
        inodes.insert(inode)
      } else if isFanotify {
        isEverything = true
      }
    }
  }
}
