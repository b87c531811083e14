import Backend
import BackendDirectory
import BackendSFTP
import Glibc
import Platform
import Testing

/// On OpenSSH's own server, which speaks over its standard input and output without a network.
@Suite struct SFTPTests {
  private let place: TemporaryDirectory

  init() throws { place = try TemporaryDirectory() }

  private static let server = "/usr/lib/openssh/sftp-server"

  private func store(_ more: [String: String] = [:]) throws -> any ObjectStore {
    try address().open(environment(more))
  }

  private func address() throws -> SFTPAddress {
    try SFTPAddress(url: "sftp://host\(place.path)/store", environment: [:])
  }

  private func environment(_ more: [String: String] = [:]) -> [String: String] {
    ["UBIQUITYFS_SFTP_COMMAND": Self.server].merging(more) { $1 }
  }

  @Test("the conformance suite", arguments: Conformance.cases.indices)
  func conformance(_ index: Int) async throws {
    let one = try await address().make(environment())
    try await Conformance.cases[index].check(
      Conformance(one: PollingStore(one), other: PollingStore(try store())))
  }

  @Test("a directory store and an SFTP store of one directory show the same objects")
  func sameDirectory() async throws {
    let remote = try await address().make(environment())
    let local = try DirectoryStore(path: place.path + "/store", createIfMissing: false)
    #expect(try await remote.putIfAbsent("a/b", [1, 2]))
    #expect(try await !local.putIfAbsent("a/b", [3]))
    try await local.replace("a/c", [4])
    #expect(try await remote.list(prefix: "a/", after: nil, limit: 10) == ["a/b", "a/c"])
    #expect(try await local.get("a/b") == [1, 2])
    #expect(try await remote.get("a/c") == [4])
  }

  @Test("a list shows an object that was put within the second of the list before")
  func listsAfterPuts() async throws {
    let (one, other) = (try await address().make(environment()), try store())
    for number in 10..<60 {
      #expect(try await one.putIfAbsent("log/\(number)", []))
      let last = number == 10 ? nil : "log/\(number - 1)"
      #expect(try await other.list(prefix: "log/", after: last, limit: 10) == ["log/\(number)"])
    }
  }

  @Test("a store whose directory is gone is unavailable, and hides nothing as empty")
  func missingDirectory() async throws {
    let store = try await address().make(environment())
    #expect(try await store.putIfAbsent("format", [1]))
    try Files.rename(place.path + "/store", place.path + "/elsewhere")
    for call in [
      { () async throws in _ = try await store.get("format") },
      { () async throws in _ = try await store.list(prefix: "", after: nil, limit: 1) },
      { () async throws in _ = try await store.putIfAbsent("x", []) },
      { () async throws in try await store.delete("x") },
    ] {
      await #expect {
        try await call()
      } throws: { error in
        if case StoreError.unavailable = error { true } else { false }
      }
    }
    try Files.rename(place.path + "/elsewhere", place.path + "/store")
    #expect(try await store.get("format") == [1])
  }

  @Test("a link where the store has a directory is refused")
  func links() async throws {
    let store = try await address().make(environment())
    try Files.makeDirectory(place.path + "/foreign")
    try Files.replace(place.path + "/foreign/x", with: [1])
    #expect(symlink(place.path + "/foreign", place.path + "/store/names") == 0)
    await #expect {
      try await store.list(prefix: "names/", after: nil, limit: 1)
    } throws: { error in
      if case StoreError.invalid = error { true } else { false }
    }
  }

  @Test("a server that ends is started again for the next call")
  func endedServer() async throws {
    _ = try await address().make(environment())
    let script = place.path + "/server"
    let once = place.path + "/once"
    try write(
      "[ -e \(once) ] && exec \(Self.server); touch \(once); echo 'it broke' >&2; exit 1\n",
      to: script)
    let store = try store(["UBIQUITYFS_SFTP_COMMAND": "/bin/sh \(script)"])
    do throws(StoreError) {
      _ = try await store.get("a")
      Issue.record("a server that had ended answered")
    } catch {
      guard case .unavailable(let text) = error else {
        Issue.record("\(error)")
        return
      }
      #expect(text.contains("it broke"))
    }
    await #expect(throws: StoreError.notFound("a")) { try await store.get("a") }
  }

  @Test(
    "bytes that are no protocol, and silence, fail",
    arguments: [
      "printf 'SSH-2.0-x\\r\\n'; sleep 60", "cat /dev/zero", "sleep 60",
      "printf '\\0\\0\\0\\5\\2\\0\\0\\0\\3'; printf '\\377\\377\\377\\377'; sleep 60",
      "printf '\\0\\0\\0\\5\\2\\0\\0\\0\\3'; cat >/dev/null",
      "printf '\\0\\0\\0\\5\\2\\0\\0\\0\\3\\0\\0\\0\\11\\150\\0\\0\\0\\1\\377\\377\\377\\377'; sleep 60",
    ])
  func hostileServers(_ answer: String) async throws {
    let script = place.path + "/server"
    try write(answer, to: script)
    let store = SFTPStore(
      try address(), environment: environment(["UBIQUITYFS_SFTP_COMMAND": "/bin/sh \(script)"]),
      patience: .milliseconds(300))
    await #expect {
      try await store.get("a", range: nil)
    } throws: { error in
      if case StoreError.unavailable = error { true } else { false }
    }
  }

  @Test(
    "a URL has a server and a directory",
    arguments: [
      ("sftp://me@nas.example.org/srv/data", "sftp://me@nas.example.org/srv/data"),
      ("sftp://nas:22/srv//data/", "sftp://nas/srv/data"),
      ("sftp://nas:2222/~/a%20b%25", "sftp://nas:2222/~/a b%25"),
      ("sftp://me@[fe80::1]:2222/x", "sftp://me@[fe80::1]:2222/x"),
    ])
  func addresses(_ url: String, _ complete: String) throws {
    let address = try SFTPAddress(url: url, environment: [:])
    #expect(address.description == complete)
    #expect(try SFTPAddress(url: complete, environment: [:]) == address)
  }

  @Test(
    "a URL that ssh could take for an option, or that names no directory, is refused",
    arguments: [
      "sftp://-oProxyCommand=x/a", "sftp://-l@host/a", "sftp://host", "sftp://host/",
      "sftp://host/~",
      "sftp://host/a/../b", "sftp:///a", "sftp://host:0/a", "sftp://host:x/a", "sftp://a b/c",
      "sftp://ho\u{0}st/a", "sftp://host/%00",
    ])
  func wrongAddresses(_ url: String) {
    #expect(throws: StoreError.self) { try SFTPAddress(url: url, environment: [:]) }
  }
}
