import Coordination
import SystemPackage
import Testing

/// Which programs a rule means.
@Suite struct DownloadRuleTests {
  private func matches(
    _ rule: (executable: String?, controlGroup: String?), _ path: String?, command: String = "x",
    groups: [String] = []
  ) -> Bool {
    DownloadRule(
      executable: rule.executable, controlGroup: rule.controlGroup, access: .rangeOnly, name: "r"
    ).matches(
      executable: path.map { Array($0.utf8) }, command: command, controlGroups: groups)
  }

  @Test func aPathIsMatchedWholeAndANameByItsLastPart() {
    #expect(matches(("/usr/bin/tracker-miner*", nil), "/usr/bin/tracker-miner-fs-3"))
    #expect(!matches(("/usr/bin/tracker-miner*", nil), "/opt/usr/bin/tracker-miner-fs-3"))
    #expect(matches(("/opt/*/scan", nil), "/opt/a/b/scan"))
    #expect(matches(("*/bin/cat", nil), "/usr/bin/cat"))
    #expect(matches(("tumblerd", nil), "/usr/lib/x86_64-linux-gnu/tumbler-1/tumblerd"))
    #expect(!matches(("tumblerd", nil), "/usr/bin/tumblerd2"))
    #expect(matches(("baloo_file*", nil), "/usr/bin/baloo_file_extractor"))
    #expect(matches(("*", nil), "/anything"))
    #expect(matches(("[ab]?", nil), "/x/a1") && !matches(("[ab]?", nil), "/x/c1"))
  }

  @Test func whereTheExecutableMayNotBeSeenTheCommandStandsForItsName() {
    #expect(matches(("clamd", nil), nil, command: "clamd"))
    #expect(!matches(("/usr/sbin/clamd", nil), nil, command: "clamd"))
    #expect(!matches(("clamd", nil), "/usr/bin/cat", command: "clamd"))
  }

  @Test func aControlGroupIsMatchedInAnyHierarchy() {
    let groups = ["/", "/user.slice/user-1000.slice/backup.service"]
    #expect(matches((nil, "*/backup.service"), "/usr/bin/tar", groups: groups))
    #expect(!matches((nil, "*/backup.service"), "/usr/bin/tar", groups: ["/system.slice"]))
    #expect(!matches((nil, "*/backup.service"), "/usr/bin/tar"))
    #expect(matches(("tar", "*/backup.service"), "/usr/bin/tar", groups: groups))
    #expect(!matches(("cp", "*/backup.service"), "/usr/bin/tar", groups: groups))
  }

  @Test(arguments: [
    "/usr/libexec/tracker-miner-fs-3", "/usr/libexec/localsearch-3", "/usr/bin/baloo_file",
    "/usr/lib/tumbler-1/tumblerd", "/usr/bin/gdk-pixbuf-thumbnailer",
    "/usr/bin/totem-video-thumbnailer", "/usr/bin/ffmpegthumbnailer",
    "/usr/bin/evince-thumbnailer", "/usr/bin/clamscan", "/usr/sbin/clamd",
    "/usr/sbin/updatedb.plocate",
  ])
  func whatReadsEverythingIsLimitedByItself(_ path: String) {
    let rule = DownloadRule.defaults.first {
      $0.matches(executable: Array(path.utf8), command: "x", controlGroups: [])
    }
    #expect(rule?.access == .deny(.notPermitted))
  }

  @Test(arguments: [
    "/usr/bin/freshclam", "/usr/bin/bash", "/usr/bin/grep", "/usr/bin/python3.12", "/usr/bin/tar",
    "/usr/bin/nautilus", "/usr/bin/evince", "/usr/bin/totem",
  ])
  func whatPeopleUseIsNot(_ path: String) {
    let rule = DownloadRule.defaults.first {
      $0.matches(executable: Array(path.utf8), command: "x", controlGroups: [])
    }
    #expect(rule == nil)
  }

  @Test func theMoreCarefulOfTwoCounts() {
    let careful = DownloadAccess.deny(.resourceTemporarilyUnavailable)
    #expect(DownloadAccess.allow.limited(by: .rangeOnly) == .rangeOnly)
    #expect(DownloadAccess.rangeOnly.limited(by: .allow) == .rangeOnly)
    #expect(DownloadAccess.rangeOnly.limited(by: careful) == careful)
    #expect(careful.limited(by: .deny(.notPermitted)) == careful)
    #expect(DownloadAccess.allow.limited(by: .allow) == .allow)
  }

  @Test func marksAreReadAsTheyAreWritten() {
    for access in [
      DownloadAccess.rangeOnly, .deny(.notPermitted), .deny(.resourceTemporarilyUnavailable),
    ] {
      #expect(DownloadMark.text(access).map(DownloadMark.access) == access)
    }
    #expect(DownloadMark.text(.allow) == nil)
    #expect(DownloadMark.access("") == .allow && DownloadMark.access("allow") == .allow)
    for text in ["deny", "deny:", "deny:EIO", "no", "range-only-2", ":EAGAINX"] {
      #expect(DownloadMark.access(text) == .deny(.notPermitted), "\(text)")
    }
  }
}
