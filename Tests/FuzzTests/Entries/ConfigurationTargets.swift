import Model

@testable import Daemon
@testable import MountDriver

/// Decoders of text that users write: the configuration, mount options, amounts.
extension FuzzTarget {
  static let configurationTargets: [FuzzTarget] = [
    FuzzTarget(
      "configuration", limit: 8192, seeds: { configurations.map { [UInt8]($0) } },
      run: {
        bytes in
        let text = bytes.text
        guard let read = try? Configuration.parse(text, path: "config.yaml", home: "/home/ada")
        else { return }
        try expect(
          read == (try? Configuration.parse(text, path: "config.yaml", home: "/home/ada")),
          "a configuration is read in two ways")
        for rule in read.hydration.allRules.prefix(8) {
          _ = rule.matches(executable: [UInt8]("/usr/bin/x"), command: "x", controlGroups: ["/a"])
        }
      }),
    FuzzTarget(
      "mount-options", limit: 1024,
      seeds: {
        ["policy=greedy,ro,allow_other,x-a=b", "nodev,dev,coordination=mandatory,passthrough=off"]
          .map { [UInt8]($0) }
      },
      run: { bytes in
        guard let options = try? MountOptions(parsing: [bytes.text]) else { return }
        let given = options.libraryOptions(source: "iCloud.com.example.notes")
        // One of ours with a comma would be two to libfuse.
        try expect(!given.contains { $0.contains(",") }, "libfuse is given an option with a comma")
        try expect(
          (try? MountOptions(parsing: [options.text])) == options,
          "“\(options.text)” are other options when they are read again")
      }),
    FuzzTarget(
      "mount-description", limit: 1024,
      seeds: {
        [
          """
          container iCloud.com.example.notes
          mountpoint 2f6d6e74
          options policy=greedy,ro,nodev
          device 0:57
          request 0102
          reply ff
          """
        ].map { [UInt8]($0) }
      },
      run: { bytes in
        guard let description = MountDescription(bytes) else { return }
        try expect(
          MountDescription(description.text) == description,
          "the description of a mount is another one when it is read again")
      }),
    FuzzTarget(
      "amount", limit: 128,
      seeds: { ["1.5 TiB", "20GB", "30%", "2MB/s", "off", "9.1e18"].map { [UInt8]($0) } },
      run: { bytes in
        let text = bytes.text
        _ = Configuration.amount(text)
        if let size = ByteSize(text) {
          try expect(ByteSize("\(size.bytes)") != nil, "\(size.bytes) bytes are no amount")
        }
        if let choice = RateChoice(text) {
          try expect(RateChoice(choice.stored) == choice, "\(choice.stored) is another rate")
        }
      }),
  ]

  private static let configurations = [
    """
    state: ~/state
    logLevel: debug
    mount: {policy: greedy}
    sync: {debounce: 1:30.5, snapshotAfter: 0x10, deletionShare: 0.5, deletionMinimum: 0o17}
    trash:
      days: 1_000
    """,
    """
    hydration:
      defaults: false
      rules:
        - {executable: "/opt/*", action: deny, error: EAGAIN}
        - &rule {cgroup: "/user.slice/*", action: range-only}
        - *rule
      unsent: {wait: .inf, error: EIO}
    packages: {extensions: [draw, -app]}
    """,
    """
    space: {limit: 30%, minimumFree: !!str 5GB}
    compaction: {minutes: 1e3, packs: 1, keepDays: 190:20:30}
    network: {uploadLimit: 2MB/s, downloadLimit: off, metered: auto}
    """,
    "? [a, {b: c}]\n: |\n  text\n--- \n", "<<: [{a: 1}, {b: 2}]",
    "a: !!timestamp 2001-12-14t21:59:43.10-05:00",
  ]
}
