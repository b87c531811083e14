internal import Glibc
package import SystemPackage

/// What a program may cause.
package enum DownloadAccess: Hashable, Sendable {
  case allow
  /// What it reads, and nothing ahead of that.
  case rangeOnly
  /// Nothing; this is what it gets for its reads.
  case deny(Errno)

  /// The more careful of the two.
  package func limited(by other: DownloadAccess) -> DownloadAccess {
    switch (self, other) {
    case (.deny, _): self
    case (_, .deny): other
    case (.rangeOnly, _), (_, .rangeOnly): .rangeOnly
    case (.allow, .allow): .allow
    }
  }

  /// EPERM and EAGAIN: what a rule may answer with.
  package static let errors: [String: Errno] = [
    "EPERM": .notPermitted, "EAGAIN": .resourceTemporarilyUnavailable,
  ]
}

/// One of `hydration.rules`: which programs, and what they may cause. Patterns are those of
/// fnmatch(3), where `*` is for `/` too.
package struct DownloadRule: Hashable, Sendable {
  /// Of the path of the file that a program runs; without a `/`, of its last part.
  package let executable: String?
  /// Of its place in a hierarchy of control groups.
  package let controlGroup: String?
  package let access: DownloadAccess
  /// What the log calls it.
  package let name: String

  package init(
    executable: String? = nil, controlGroup: String? = nil, access: DownloadAccess, name: String
  ) {
    self.executable = executable
    self.controlGroup = controlGroup
    self.access = access
    self.name = name
  }

  /// Where the executable may not be seen the command's name stands for it, as it does without a
  /// path.
  package func matches(executable path: [UInt8]?, command: String, controlGroups: [String]) -> Bool
  {
    if let executable {
      let candidate: [UInt8]
      if executable.contains("/") {
        guard let path else { return false }
        candidate = path
      } else {
        candidate = path?.split(separator: 0x2F).last.map(Array.init) ?? Array(command.utf8)
      }
      guard Self.match(executable, candidate) else { return false }
    }
    if let controlGroup {
      guard controlGroups.contains(where: { Self.match(controlGroup, Array($0.utf8)) }) else {
        return false
      }
    }
    return true
  }

  private static func match(_ pattern: String, _ text: [UInt8]) -> Bool {
    (text + [0]).withUnsafeBufferPointer { buffer in
      buffer.withMemoryRebound(to: CChar.self) { text in
        text.baseAddress.map { fnmatch(pattern, $0, 0) == 0 } ?? false
      }
    }
  }

  // MARK: Those that are there without being written down

  /// Programs that read whatever they find without anybody waiting for it: indexers, makers of
  /// thumbnails, virus scanners. By the names that Debian, Fedora and their makers give them.
  private static let careless: [(kind: String, executables: [String])] = [
    (
      "indexer",
      [
        "tracker-miner-fs*", "tracker-extract*", "localsearch*", "baloo_file*", "recollindex",
        "nepomuk*", "strigidaemon", "beagled", "updatedb*",
      ]
    ),
    (
      "thumbnailer",
      [
        "tumblerd", "*-thumbnailer", "gnome-thumbnail-font", "ffmpegthumbnailer", "ffmpegthumbs",
      ]
    ),
    (
      "virus scanner",
      [
        "clamscan", "clamdscan", "clamd", "clamonacc", "savscand", "wdavdaemon",
        "falcon-sensor*", "kesl", "ds_am",
      ]
    ),
  ]

  package static let defaults: [DownloadRule] = careless.flatMap { group in
    group.executables.map {
      DownloadRule(
        executable: $0, access: .deny(.notPermitted), name: "default: \(group.kind) \($0)")
    }
  }
}
