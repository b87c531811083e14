import ControlProtocol
import Daemon
import Glibc
import Platform
import Testing

@Suite struct StateTests {
  @Test func theStateDirectoryIsItsOwnersAlone() throws {
    let scratch = try Scratch()
    let path = scratch.path + "/deep/state"
    _ = try StateDirectory.prepare(path)
    #expect(try scratch.mode("deep/state") == 0o700)
    chmod(path, 0o755)
    _ = try StateDirectory.prepare(path)
    #expect(try scratch.mode("deep/state") == 0o700)
  }

  @Test(.enabled(if: geteuid() == 0)) func anotherUsersIsRefused() throws {
    let scratch = try Scratch()
    let path = scratch.path + "/state"
    try Files.makeDirectory(path)
    chown(path, 65534, 65534)
    do throws(ControlError) {
      _ = try StateDirectory.prepare(path)
      Issue.record("another user's directory was taken")
    } catch {
      #expect(error.status == .notPermitted)
      #expect(error.message.contains("another user"))
    }
  }

  @Test func oneDaemonHoldsTheLock() throws {
    let scratch = try Scratch()
    let state = try StateDirectory.prepare(scratch.path + "/state")
    var held: OpenFile? = try state.lock()
    #expect(held != nil)
    do throws(ControlError) {
      _ = try state.lock()
      Issue.record("the lock was given twice")
    } catch {
      #expect(error.status == .busy)
      #expect(error.message.contains("\(getpid())"))
    }
    held = nil
    _ = try state.lock()
  }

  @Test func offlineModeOutlivesTheDaemon() throws {
    let scratch = try Scratch()
    let state = try StateDirectory.prepare(scratch.path + "/state")
    #expect(!state.isOffline)
    try state.setOffline(true)
    #expect(try StateDirectory.prepare(state.path).isOffline)
    try state.setOffline(true)
    try state.setOffline(false)
    try state.setOffline(false)
    #expect(!state.isOffline)
  }

  @Test func theAccountIsKeptSecret() throws {
    let scratch = try Scratch()
    let store = AccountStore(try StateDirectory.prepare(scratch.path + "/state"))
    #expect(try store.account() == nil)
    let account = StoredAccount(backend: "file:///x", secret: "s", format: "00")
    try store.save(account)
    #expect(try store.account() == account)
    #expect(try scratch.mode("state/account.json") == 0o600)

    chmod(scratch.path + "/state/account.json", 0o644)
    #expect(throws: ControlError.self) { try store.account() }
    chmod(scratch.path + "/state/account.json", 0o600)
    try store.forgetAccount()
    try store.forgetAccount()
    #expect(try store.account() == nil)
  }

  @Test func aDamagedAccountIsSaidSo() throws {
    let scratch = try Scratch()
    let state = try StateDirectory.prepare(scratch.path + "/state")
    for text in ["", "{", "{}", #"{"backend":5}"#] {
      try Files.replace(state.account, with: Array(text.utf8))
      do throws(ControlError) {
        _ = try AccountStore(state).account()
        Issue.record("“\(text)” was taken for an account")
      } catch {
        #expect(error.message.contains("damaged"))
      }
    }
  }

  @Test func accountsAtOneAddressAreToldApart() {
    let one = StoredAccount(backend: "file:///x", secret: "s", format: "00")
    let other = StoredAccount(backend: "file:///x", secret: "s", format: "01")
    #expect(one.identifier != other.identifier)
    #expect(one.identifier.utf8.count == 16)
  }
}
