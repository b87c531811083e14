import ArgumentParser
import ControlProtocol
import Model
import Testing

@testable import ubiquityfs

/// Which command line means what. That they work is tested on real mounts.
@Suite struct ArgumentTests {
  private func parse<Command: ParsableCommand>(_: Command.Type, _ arguments: String) throws
    -> Command
  {
    let parsed = try UbiquityCommand.parseAsRoot(
      arguments.split(separator: " ").map(String.init))
    return try #require(parsed as? Command, "\(arguments) is \(type(of: parsed))")
  }

  @Test func mountTakesAContainerOrAll() throws {
    let one = try parse(MountCommand.self, "mount iCloud.a.b /m -o ro,policy=greedy -o x-y=1")
    #expect(one.id == "iCloud.a.b" && one.mountpoint == "/m")
    #expect(one.optionList == ["ro", "policy=greedy", "x-y=1"])
    #expect(try parse(MountCommand.self, "mount -oro iCloud.a.b /m").optionList == ["ro"])
    let all = try parse(MountCommand.self, "mount --all /m --foreground")
    #expect(all.all == "/m" && all.foreground)
    for wrong in ["mount", "mount iCloud.a.b", "mount --all /m x", "mount a b c"] {
      #expect(throws: (any Error).self, "\(wrong)") { try parse(MountCommand.self, wrong) }
    }
  }

  @Test func globalOptionsStandAnywhere() throws {
    for line in [
      "--state /s --json status", "status --state /s --json", "status --json --state=/s x",
    ] {
      let status = try parse(StatusCommand.self, line)
      #expect(status.options.state == "/s" && status.options.json, "\(line)")
    }
    let nested = try parse(
      AccountCommand.SignIn.self,
      "account sign-in --backend file:///x --device-name d --secret-file f --quiet")
    #expect(nested.backend == "file:///x" && nested.deviceName == "d" && nested.secretFile == "f")
    #expect(nested.options.quiet)
  }

  @Test func everyCommandIsThere() throws {
    _ = try parse(AccountCommand.Status.self, "account status")
    #expect(try parse(AccountCommand.SignOut.self, "account sign-out --force").force)
    _ = try parse(AccountCommand.List.self, "account devices")
    let remove = try parse(AccountCommand.Remove.self, "account devices remove lost other")
    #expect(remove.devices == ["lost", "other"] && remove.secretFile == nil)
    #expect(
      try parse(AccountCommand.Rotate.self, "account rotate --secret-file f").secretFile == "f")
    #expect(try parse(AccountCommand.Pair.self, "account pair --yes").yes)
    _ = try parse(AccountCommand.Secret.self, "account secret")
    #expect(try parse(AccountCommand.Quota.self, "account quota").size == nil)
    #expect(try parse(AccountCommand.Quota.self, "account quota 10G --json").size == "10G")
    #expect(try parse(StorageCommand.Show.self, "storage --json").options.json)
    #expect(try parse(StorageCommand.Show.self, "--json storage").options.json)
    #expect(try parse(StorageCommand.Show.self, "storage iCloud.a.b").container == "iCloud.a.b")
    let deletion = try parse(
      StorageCommand.Delete.self, "storage delete iCloud.a.b --document a b --document c --yes")
    #expect(deletion.document == ["a", "b", "c"] && deletion.yes && !deletion.otherData)
    #expect(try parse(StorageCommand.Delete.self, "storage delete x.y --other-data").otherData)
    #expect(try parse(StorageCommand.Delete.self, "storage delete x.y --all").all)
    _ = try parse(ContainerCommand.Create.self, "container create x.y")
    _ = try parse(ContainerCommand.List.self, "container list")
    #expect(try parse(ContainerCommand.Delete.self, "container delete x.y --yes").yes)
    _ = try parse(UnmountCommand.self, "unmount /m")
    _ = try parse(UnmountCommand.self, "umount /m")
    #expect(try parse(EvictCommand.self, "evict a b").paths == ["a", "b"])
    #expect(try parse(DownloadCommand.self, "download a --no-wait").noWait)
    _ = try parse(PinCommand.self, "pin a")
    _ = try parse(UnpinCommand.self, "unpin a")
    #expect(try parse(PolicyCommand.self, "policy a").policy == nil)
    #expect(try parse(PolicyCommand.self, "policy a downloadLazily").policy == "downloadLazily")
    let sync = try parse(SyncCommand.self, "sync --wait --timeout 2.5 a")
    #expect(sync.wait && sync.timeout == 2.5 && sync.paths == ["a"])
    #expect(try parse(SyncCommand.self, "sync --confirm-deletions a").confirmDeletions)
    #expect(try parse(SyncCommand.self, "sync --restore-deletions --wait").restoreDeletions)
    #expect(throws: (any Error).self) {
      try parse(SyncCommand.self, "sync --confirm-deletions --restore-deletions")
    }
    _ = try parse(OfflineCommand.On.self, "offline on")
    _ = try parse(OfflineCommand.Off.self, "offline off")
    let limit = try parse(LimitCommand.self, "limit --up 2MB/s --down off")
    #expect(limit.up == "2MB/s" && limit.down == "off")
    #expect(try parse(MeteredCommand.self, "metered auto").mode == .auto)
    #expect(try parse(MeteredCommand.self, "metered").mode == nil)
    _ = try parse(VersionsCommand.List.self, "versions list a")
    #expect(try parse(VersionsCommand.Cat.self, "versions cat a 1").version == "1")
    #expect(
      try parse(VersionsCommand.Resolve.self, "versions resolve a --keep 1 2 --keep 3").keep
        == ["1", "2", "3"])
    #expect(try parse(LogCommand.self, "log --follow -n 5").lines == 5)
    #expect(try parse(LogCommand.self, "log --downloads --json").downloads)
    #expect(try parse(EventsCommand.self, "events").path == nil)
    #expect(try parse(EventsCommand.self, "events a").path == "a")
    let query = try parse(QueryCommand.self, "query --scope data,documents --watch name == *.txt")
    #expect(query.watch && query.predicate == ["name", "==", "*.txt"])
    #expect(QueryCommand.text(["name", "==", "a b"]) == "name == 'a b'")
    #expect(QueryCommand.text(["*.txt", "size > 5"]) == "*.txt size > 5")
    _ = try parse(DoctorCommand.self, "doctor")
    #expect(try parse(FsckCommand.self, "fsck --repair").repair)
    _ = try parse(VersionCommand.self, "version")
    #expect(try parse(DaemonCommand.self, "daemon --log-level debug").logLevel == "debug")
    _ = try parse(CompletionCommand.self, "completion zsh")
  }

  @Test(arguments: [
    "frobnicate", "status --no-such-flag", "evict", "sync --timeout soon", "sync --timeout -1",
    "completion tcsh", "daemon --log-level loud", "offline", "metered perhaps", "limit 2MB/s",
    "account", "versions resolve a",
    "container delete", "log -n -1", "coordinate read x", "coordinate -- true", "events a b",
    "run -- true", "run --no-download", "run --no-download grep x", "run --range-only",
    "run --no-download --error EIO -- true", "run --range-only --error EPERM -- true",
    "query", "query --scope elsewhere x", "query size>", "query sise == 1", "query ( *.txt",
    "kv list", "storage delete iCloud.a.b", "storage delete iCloud.a.b --all --other-data",
    "storage notes", "account quota lots",
  ])
  func wrongUsageIsTwo(_ line: String) {
    #expect(UbiquityCommand.run(line.split(separator: " ").map(String.init)) == 2)
  }

  /// What one command line says is not part of the next.
  @Test func aCommandIsToBeSaidEachTime() {
    for line in ["coordinate -- true", "coordinate read x", "coordinate write x"] {
      #expect(UbiquityCommand.run(line.split(separator: " ").map(String.init)) == 2, "\(line)")
    }
  }

  @Test func sizesAreReadAsPeopleWriteThem() {
    let sizes: [(String, UInt64)] = [
      ("0", 0), ("1048576", 1 << 20), ("10G", 10 << 30), ("10g", 10 << 30), ("10GiB", 10 << 30),
      ("10 GiB", 10 << 30), ("1.5M", 3 << 19), ("500MB", 500_000_000), ("2TB", 2_000_000_000_000),
      ("3k", 3072), ("7B", 7),
    ]
    for (text, bytes) in sizes { #expect(ByteSize(text)?.bytes == bytes, "\(text)") }
    for wrong in ["", "G", "-1", "1e9", "10 X", "1..2", ".", "iB", "1iB", "99999999999T", "0x10"] {
      #expect(ByteSize(wrong) == nil, "\(wrong)")
    }
  }

  @Test func containersAreCheckedBeforeADaemonIsStarted() {
    for line in ["container create notes", "mount iCloud.* /m", "container delete x.y"] {
      #expect(UbiquityCommand.run(line.split(separator: " ").map(String.init)) == 2, "\(line)")
    }
    #expect(UbiquityCommand.run(["container", "create", ""]) == 2)
  }

  @Test func laterCommandsAreNotInTheHelp() {
    let help = UbiquityCommand.helpMessage()
    for later in ["kv"] { #expect(!help.contains("  \(later) ")) }
    let nowThere = [
      "account", "mount", "evict", "fsck", "coordinate", "run", "events", "query", "storage",
    ]
    for now in nowThere {
      #expect(help.contains("  \(now) "))
    }
  }
}
