import ControlProtocol
import Daemon
import Glibc
import Model
import Platform
import RemoteStore
import SystemPackage
import TestWaiting
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

  @Test func oneDaemonHoldsTheLock() async throws {
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
    // A program that another test starts has the descriptor too until its `exec`.
    try await eventually("the lock is free") { (try? state.lock()) != nil }
  }

  @Test("a link or a foreign file in the place of the lock is refused, and stays as it is")
  func plantedLock() throws {
    let scratch = try Scratch()
    let state = try StateDirectory.prepare(scratch.path + "/state")
    let victim = scratch.path + "/victim"
    try Files.create(victim, with: Array("precious".utf8))
    let place = state.path + "/daemon.lock"
    for plant in [symlink, link] as [(UnsafePointer<CChar>, UnsafePointer<CChar>) -> Int32] {
      #expect(plant(victim, place) == 0)
      #expect(throws: ControlError.self) { try state.lock() }
      #expect(try Files.read(victim) == Array("precious".utf8))
      try Files.remove(place)
    }
    _ = try state.lock()
  }

  @Test("the file of an account's secret is no link, and nobody else could read it")
  func keyFiles() throws {
    let scratch = try Scratch()
    let victim = scratch.path + "/victim"
    try Files.create(victim, with: [1])
    #expect(symlink(victim, scratch.path + "/linked") == 0)
    #expect(throws: Errno.self) { try Files.create(scratch.path + "/linked", with: [2]) }
    #expect(try Files.read(victim) == [1])
    // The temporary name cannot be guessed, so nothing can be planted there.
    try Files.replace(scratch.path + "/file", with: [3])
    #expect(try Files.names(in: scratch.path).sorted() == ["file", "linked", "victim"])
    #expect(try scratch.mode("file") == 0o600)
  }

  /// A daemon whose directory was made anew must leave the newer daemon's socket alone.
  @Test func aDirectoryMadeAnewHasAnotherLock() throws {
    let scratch = try Scratch()
    let state = try StateDirectory.prepare(scratch.path + "/state")
    let old = try state.lock()
    #expect(state.isLocked(by: old))
    try Files.removeTree(state.path)
    #expect(!state.isLocked(by: old))
    let new = try StateDirectory.prepare(state.path).lock()
    #expect(state.isLocked(by: new) && !state.isLocked(by: old))
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

  /// The environment that an account keeps after further sign-ins from these.
  private func kept(
    _ stored: [String: String]?, _ given: [String: String]...
  ) throws -> [String: String]? {
    let variables = try BackendAddress("s3://bucket").variables
    var account = StoredAccount(
      backend: "s3://bucket", format: "00", environment: stored)
    for environment in given {
      let before = account.environment
      let isChanged = account.take(environment, variables)
      #expect(isChanged == (account.environment != before))
    }
    return account.environment
  }

  @Test("a further sign-in with a proxy alone keeps the access keys")
  func proxyKeepsKeys() throws {
    let keys = ["AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"]
    let stored = keys.merging(["http_proxy": "http://old", "NO_PROXY": "a"]) { $1 }
    let proxy = ["https_proxy": "http://new"]
    let both = keys.merging(proxy) { $1 }
    #expect(try kept(stored, proxy) == both)
    #expect(try kept(stored, proxy, proxy, [:]) == both)
    // Half a pair of keys is none.
    #expect(try kept(both, ["AWS_ACCESS_KEY_ID": "other"]) == both)
    #expect(
      try kept(both, ["AWS_PROFILE": "work", "AWS_REGION": "eu-1"])
        == ["AWS_PROFILE": "work", "AWS_REGION": "eu-1", "https_proxy": "http://new"])
  }

  @Test("a further sign-in with access keys stores them where none were stored")
  func keysAreAdded() throws {
    let keys = ["AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"]
    let new = ["AWS_ACCESS_KEY_ID": "id 2", "AWS_SECRET_ACCESS_KEY": "key 2"]
    #expect(try kept(nil, keys) == keys)
    #expect(try kept(nil, keys, new) == new)
  }

  @Test("the account's figures are as of the time when the backend gave them")
  func figuresHaveATime() throws {
    let scratch = try Scratch()
    let keeper = QuotaKeeper(path: scratch.path + "/quota.json", account: "a")
    #expect(keeper.asOf == nil)
    keeper.note(AccountQuota(limit: 5, time: Timestamp(nanoseconds: 1), device: .random()))
    #expect(keeper.asOf == nil)
    keeper.note([], [], at: Timestamp(nanoseconds: 7))
    #expect(keeper.asOf == Timestamp(nanoseconds: 7))
    let later = QuotaKeeper(path: scratch.path + "/quota.json", account: "a")
    #expect(later.asOf == Timestamp(nanoseconds: 7) && later.limit == 5)
  }

  @Test func theAccountIsKeptSecret() throws {
    let scratch = try Scratch()
    let store = AccountStore(try StateDirectory.prepare(scratch.path + "/state"))
    #expect(try store.account() == nil)
    let account = StoredAccount(backend: "file:///x", format: "00")
    let secret = try AccountSecret("correct horse")
    try store.save(account, secret: secret)
    #expect(try store.account() == account)
    #expect(try store.secret() == secret)
    #expect(try scratch.mode("state/account.json") == 0o600)
    #expect(try scratch.mode("state/secret") == 0o600)
    chmod(scratch.path + "/state/secret", 0o640)
    #expect(throws: ControlError.self) { try store.secret() }

    chmod(scratch.path + "/state/account.json", 0o644)
    #expect(throws: ControlError.self) { try store.account() }
    chmod(scratch.path + "/state/account.json", 0o600)
    try store.forgetAccount()
    try store.forgetAccount()
    #expect(try store.account() == nil)
    #expect(!Files.exists(scratch.path + "/state/secret"))
  }

  @Test("the secret moves from the account file of an earlier release to a file of its own")
  func secretOfEarlierRelease() throws {
    let scratch = try Scratch()
    let state = try StateDirectory.prepare(scratch.path + "/state")
    let text = #"{"backend":"file:///x","format":"00","secret":"correct horse"}"#
    try Files.replace(state.account, with: Array(text.utf8))
    let store = AccountStore(state)
    let expected = StoredAccount(backend: "file:///x", format: "00")
    #expect(try store.account() == expected)
    #expect(try store.secret().text == "correct horse")
    let file = try OpenFile.open(state.account, flags: O_RDONLY)
    let bytes = try file.read(count: 4096, at: 0)
    #expect(!String(decoding: bytes, as: UTF8.self).contains("horse"))
    #expect(try store.account() == expected)
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
    let one = StoredAccount(backend: "file:///x", format: "00")
    let other = StoredAccount(backend: "file:///x", format: "01")
    #expect(one.formerIdentifier != other.formerIdentifier)
    #expect(one.formerIdentifier.utf8.count == 16)
  }
}
