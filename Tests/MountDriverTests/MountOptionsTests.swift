import MountDriver
import Testing

@Suite struct MountOptionsTests {
  @Test func theContractsOptionsAreUnderstood() throws {
    let options = try MountOptions(parsing: ["policy=greedy,ro", "allow_other,list_status"])
    #expect(options.policy == .greedy)
    #expect(options.isReadOnly)
    #expect(options.allowsOthers)
    #expect(options.listsStatus)
  }

  @Test func whatMountPassesAlongIsAccepted() throws {
    let options = try MountOptions(
      parsing: ["defaults,noauto,user,_netdev,x-systemd.automount,x-gvfs-show,comment=a b,noatime"])
    #expect(options.kernelOptions == ["noatime"])
  }

  @Test("nodiratime is accepted, and libfuse, which refuses it, is not given it")
  func nodiratimeIsAccepted() throws {
    #expect(try MountOptions(parsing: ["nodiratime"]).kernelOptions == [])
  }

  @Test("allow_dev and allow_suid stand for dev and suid, which mount(8) withholds")
  func devAndSuidHaveOtherNames() throws {
    let options = try MountOptions(parsing: ["nosuid,nodev,allow_dev,allow_suid"])
    #expect(options.kernelOptions == ["dev", "suid"])
  }

  @Test func laterOnesWin() throws {
    let options = try MountOptions(parsing: ["ro,nodev,exec", "rw,dev,noexec"])
    #expect(!options.isReadOnly)
    #expect(options.kernelOptions == ["dev", "noexec"])
  }

  @Test func pollingCanBeSwitchedOff() throws {
    #expect(try MountOptions(parsing: []).isEager)
    #expect(try !MountOptions(parsing: ["busy_poll=off"]).isEager)
  }

  @Test(arguments: [
    "policy=lazy", "policy", "casefold=1", "coordination=perhaps", "coordination", "what", "ro=1",
    "busy_poll", "busy_poll=on",
  ])
  func othersAreRefused(option: String) {
    #expect(throws: MountOptions.Invalid.self) { try MountOptions(parsing: [option]) }
  }
}
