import ControlProtocol
import Coordination
import Daemon
import SyncEngine
import SystemPackage
import Testing

/// `hydration` of the configuration.
@Suite struct HydrationSettingsTests {
  private func parse(_ text: String) throws(ControlError) -> HydrationSettings {
    try Configuration.parse(text, path: "config.yaml", home: "/home/me").hydration
  }

  @Test func rulesAreReadInOrder() throws {
    let settings = try parse(
      """
      hydration:
        rules:
          - {executable: /usr/bin/tracker-miner*, action: deny, error: EPERM}
          - {cgroup: "*/backup.service", action: range-only}
          - {executable: scan, cgroup: "/system.slice/*", action: deny, error: EAGAIN}
          - {executable: updatedb, action: allow}
          - {executable: x, action: deny}
        defaults: false
      """)
    #expect(
      settings.rules.map(\.access) == [
        .deny(.notPermitted), .rangeOnly, .deny(.resourceTemporarilyUnavailable), .allow,
        .deny(.notPermitted),
      ])
    #expect(
      settings.rules.map(\.executable) == [
        "/usr/bin/tracker-miner*", nil, "scan", "updatedb", "x",
      ])
    #expect(settings.rules[1].controlGroup == "*/backup.service")
    #expect(settings.rules[2].name == "rule 3: executable scan, cgroup /system.slice/*")
    #expect(settings.allRules == settings.rules)
  }

  @Test func thoseThatAreKnownComeAfterTheUsersOwn() throws {
    let settings = try parse("hydration: {rules: [{executable: clamd, action: allow}]}")
    #expect(settings.allRules.first?.access == .allow)
    #expect(settings.allRules.dropFirst().elementsEqual(DownloadRule.defaults))
    #expect(try parse("").allRules == DownloadRule.defaults)
    #expect(try parse("hydration: {defaults: false}").allRules.isEmpty)
  }

  @Test("the wait for content that is not uploaded, and its error, are configured")
  func unsentContent() throws {
    #expect(try parse("").unsent == UnsentContent(wait: .seconds(60), error: .timedOut))
    let settings = try parse("hydration: {unsent: {wait: 2.5, error: EIO}}")
    #expect(settings.unsent == UnsentContent(wait: .milliseconds(2500), error: .ioError))
  }

  @Test(arguments: [
    ("hydration: {unsent: {wait: -1}}", "not a number of seconds"),
    ("hydration: {unsent: {error: EPERM}}", "neither ETIMEDOUT nor EIO"),
    ("hydration: {unsent: {limit: 1}}", "unknown key `hydration.unsent.limit`"),
    ("hydration: 1", "has no keys"),
    ("hydration: {rule: []}", "unknown key `hydration.rule`"),
    ("hydration: {defaults: perhaps}", "neither true nor false"),
    ("hydration: {rules: x}", "not a list of rules"),
    ("hydration: {rules: [x]}", "rule 1 .* is not a list"),
    ("hydration: {rules: [{executable: x}]}", "has no `action`"),
    ("hydration: {rules: [{executable: x, action: forbid}]}", "the action \"forbid\""),
    ("hydration: {rules: [{action: deny}]}", "neither `executable` nor `cgroup`"),
    ("hydration: {rules: [{executable: '', action: deny}]}", "no text as `executable`"),
    ("hydration: {rules: [{executable: [a], action: deny}]}", "no text as `executable`"),
    ("hydration: {rules: [{executable: bin/x, action: deny}]}", "matches no program"),
    ("hydration: {rules: [{cgroup: backup.service, action: deny}]}", "matches no program"),
    (
      "hydration: {rules: [{executable: x, action: deny, error: EIO}]}",
      "known are EPERM and EAGAIN"
    ),
    (
      "hydration: {rules: [{executable: x, action: allow, error: EPERM}]}",
      "only for the action `deny`"
    ),
    ("hydration: {rules: [{executable: x, program: y, action: deny}]}", "unknown key `program`"),
    (
      "hydration: {rules: [{executable: x, action: deny}, {executable: y}]}",
      "rule 2 .* has no `action`"
    ),
  ])
  func whatIsWrongIsSaid(_ text: String, _ message: String) throws {
    let error = try #require(throws: ControlError.self) { try parse(text) }
    #expect(error.status == .usage)
    #expect(error.message.hasPrefix("the configuration file \"config.yaml\": "))
    #expect(try error.message.contains(Regex(message)), "\(error.message)")
  }
}
