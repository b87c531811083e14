import ControlProtocol
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
      compaction:
        segments: 50
        keepDays: 0.5
      """)
    #expect(configuration.state == "/home/me/ubiquity")
    #expect(configuration.logLevel == "debug")
    #expect(configuration.policy == "greedy")
    #expect(configuration.debounce == 2.5)
    #expect(configuration.syncSettings.deletions == DeletionGuard(share: 0.25, least: 20))
    #expect(Configuration().syncSettings.deletions == DeletionGuard())
    #expect(configuration.keepRemovedDays == 7)
    #expect(configuration.packageTypes == PackageTypes.standard.changed(by: ["draw", "-app"]))
    #expect(Configuration().packageTypes == .standard)
    #expect(configuration.syncSettings.compaction.snapshotSegments == 50)
    #expect(configuration.syncSettings.compaction.keepLog == CompactionPolicy.day / 2)
    #expect(Configuration().syncSettings.compaction == CompactionPolicy())
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
    ("trash: {days: -1}", "days"), ("trash: {years: 1}", "trash.years"),
    ("compaction: {days: 1}", "compaction.days"), ("compaction: {segments: -1}", "segments"),
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
