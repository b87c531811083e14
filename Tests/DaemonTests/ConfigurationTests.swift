import ControlProtocol
import Coordination
import Daemon
import Model
import Platform
import SyncEngine
import Testing

@Suite struct ConfigurationTests {
  private func parse(_ text: String) throws(ControlError) -> Configuration {
    try Configuration.parse(text, path: "config.yaml", home: "/home/me")
  }

  @Test func theFileSetsWhatItNames() throws {
    let configuration = try parse(
      """
      state: ~/ubiquity   # a comment
      logLevel: debug
      mount:
        policy: greedy
      sync:
        debounce: 2.5
        deletionShare: 0.25
        deletionMinimum: 20
      trash:
        days: 7
      packages:
        extensions: [draw, -app]
      space:
        limit: 1.5 GiB
        minimumFree: 10%
      compaction:
        segments: 50
        keepDays: 0.5
      network: {uploadLimit: 2MB/s, downloadLimit: off, metered: no}
      """)
    #expect(configuration.state == "/home/me/ubiquity")
    #expect(configuration.logLevel == "debug")
    #expect(configuration.policy == "greedy")
    #expect(configuration.debounce == 2.5)
    #expect(configuration.syncSettings.deletions == DeletionGuard(share: 0.25, least: 20))
    #expect(Configuration().syncSettings.deletions == DeletionGuard())
    #expect(Configuration().syncSettings.keepRemovedDays == 30)
    #expect(configuration.keepRemovedDays == 7)
    #expect(configuration.packageTypes == PackageTypes.standard.changed(by: ["draw", "-app"]))
    #expect(Configuration().packageTypes == .standard)
    #expect(configuration.space == SpaceLimits(limit: .bytes(3 << 29), minimumFree: .share(0.1)))
    #expect(Configuration().space.isEmpty)
    for (text, bytes) in [("20GB", 20_000_000_000), ("268435456", 1 << 28), ("256MiB", 1 << 28)] {
      #expect(try parse("space: {limit: \(text)}").space.limit == .bytes(UInt64(bytes)))
    }
    #expect(configuration.syncSettings.compaction.snapshotSegments == 50)
    #expect(configuration.syncSettings.compaction.keepLog == CompactionPolicy.day / 2)
    #expect(Configuration().syncSettings.compaction == CompactionPolicy())
    #expect(configuration.network.uploadLimit?.bytes == 2_000_000)
    #expect(configuration.network.downloadLimit == nil)
    #expect(configuration.network.metered == .no)
    #expect(Configuration().network.metered == .auto)
    #expect(try parse("") == Configuration())
    #expect(try parse("# nothing\n") == Configuration())
  }

  @Test(arguments: [
    ("stat: /x", "stat"), ("mount: {polcy: greedy}", "mount.polcy"), ("sync: {x: 1}", "sync.x"),
    ("packages: {extensions: draw}", "packages.extensions"),
    ("packages: {extensions: [a/b]}", "packages.extensions"), ("packages: {x: []}", "packages.x"),
    ("mount: {policy: sometimes}", "policy"), ("logLevel: loud", "logLevel"),
    ("sync: {debounce: -1}", "debounce"), ("sync: {debounce: soon}", "debounce"),
    ("sync: {deletionShare: 1.5}", "deletionShare"), ("sync: {deletionMinimum: -1}", "Minimum"),
    ("space: {limit: much}", "space.limit"), ("space: {limit: 0}", "space.limit"),
    ("space: {limit: 120%}", "space.limit"), ("space: {limit: 20 GBit}", "space.limit"),
    ("space: {limit: 100KB}", "1MiB"), ("space: {minimumFree: 100%}", "space.minimumFree"),
    ("space: {minimumFree: -1GB}", "space.minimumFree"), ("space: 20GB", "space"),
    ("space: {most: 1GB}", "space.most"), ("trash: {days: -1}", "days"),
    ("trash: {years: 1}", "trash.years"),
    ("compaction: {days: 1}", "compaction.days"), ("compaction: {segments: -1}", "segments"),
    ("network: {uploadLimit: fast}", "network.uploadLimit"), ("network: {x: 1}", "network.x"),
    ("network: {metered: maybe}", "network.metered"), ("network: 1", "network"),
    ("state: relative", "state"), ("- a\n- b", "key"), ("a: [", "YAML"), ("mount: greedy", "mount"),
  ])
  func whatIsWrongIsNamed(_ text: String, _ named: String) {
    do throws(ControlError) {
      _ = try parse(text)
      Issue.record("“\(text)” was taken")
    } catch {
      #expect(error.status == .usage)
      #expect(error.message.contains(named), "\(error.message)")
      #expect(error.message.contains("config.yaml"), "\(error.message)")
    }
  }

  @Test("an open file is uploaded after 5 minutes without a write unless the file says otherwise")
  func snapshotAfter() throws {
    #expect(Configuration().syncSettings.snapshotQuiet == .seconds(300))
    #expect(try parse("sync: {debounce: 1}").syncSettings.snapshotQuiet == .seconds(300))
    for (text, quiet) in [
      ("300", .seconds(300)), ("90", .seconds(90)), ("0.5", .milliseconds(500)),
      ("1000000", .seconds(1_000_000)), ("0", nil),
    ] as [(String, Duration?)] {
      let settings = try parse("sync: {snapshotAfter: \(text)}").syncSettings
      #expect(settings.snapshotQuiet == quiet, "\(text)")
    }
  }

  @Test(
    "a wrong value of `sync.snapshotAfter` is refused with its key and its range",
    arguments: [
      "-1", "-0.001", "1000001", "5m", "5 minutes", "never", "''", "[300]", ".inf", ".nan",
    ])
  func wrongSnapshotAfter(value: String) {
    let error = #expect(throws: ControlError.self) {
      try parse("sync: {snapshotAfter: \(value)}")
    }
    #expect(error?.status == .usage)
    #expect(
      error?.message
        == "the configuration file \"config.yaml\": `sync.snapshotAfter` is not a number of "
        + "seconds from 0 to 1000000")
  }

  @Test(
    "a number to base 60 in the configuration is no number, however large it is",
    arguments: ["1:30", "9223372036854775807:1", "1:99999999999999999:0", "-1:9223372036854775807"])
  func base60(number: String) {
    for text in ["trash: {days: \(number)}", "sync: {deletionMinimum: \(number)}"] {
      #expect(throws: ControlError.self) {
        try Configuration.parse(text, path: "config.yaml", home: nil)
      }
    }
  }

  @Test func flagsWinOverTheEnvironmentAndThatOverTheFile() throws {
    var configuration = Configuration()
    func state(_ flag: String?, _ environment: [String: String]) throws -> String {
      try configuration.stateDirectory(flag: flag, environment: environment)
    }
    let home = ["HOME": "/home/me"]
    #expect(try state(nil, home) == "/home/me/.local/share/ubiquityfs")
    #expect(
      try state(nil, home.merging(["XDG_DATA_HOME": "/data"]) { $1 }) == "/data/ubiquityfs")
    configuration.state = "/file"
    #expect(try state(nil, home) == "/file")
    let set = home.merging(["UBIQUITYFS_STATE": "/environment//x/../y/"]) { $1 }
    #expect(try state(nil, set) == "/environment/y")
    #expect(try state("/flag", set) == "/flag")
    #expect(throws: ControlError.self) { try state("", set) }
    #expect(throws: ControlError.self) {
      try Configuration().stateDirectory(flag: nil, environment: [:])
    }
  }

  @Test func theFileIsFoundByTheEnvironment() throws {
    let scratch = try Scratch()
    try Files.makeDirectories(scratch.path + "/ubiquityfs")
    try Files.replace(scratch.path + "/ubiquityfs/config.yaml", with: Array("logLevel: error".utf8))
    try Files.replace(scratch.path + "/named", with: Array("logLevel: trace".utf8))
    func level(_ environment: [String: String]) throws -> String? {
      try Configuration.load(environment: environment).logLevel
    }
    let base = ["XDG_CONFIG_HOME": scratch.path]
    #expect(try level(base) == "error")
    let named = base.merging(["UBIQUITYFS_CONFIG": scratch.path + "/named"]) { $1 }
    #expect(try level(named) == "trace")
    #expect(try level(named.merging(["UBIQUITYFS_LOG_LEVEL": "info"]) { $1 }) == "info")
    #expect(try level(["XDG_CONFIG_HOME": scratch.path + "/none"]) == nil)
    #expect(throws: ControlError.self) {
      try level(["UBIQUITYFS_CONFIG": scratch.path + "/none"])
    }
  }
}
