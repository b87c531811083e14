import Backend
import BackendS3
import Glibc
import Testing

private let cephEndpoint = getenv("UBIQUITYFS_TEST_S3").map { String(cString: $0) }

/// A real store: `.ci/test` starts a Ceph of one node and says in the environment where it is.
@Suite(.enabled(if: cephEndpoint != nil)) struct CephTests {
  /// Each test has a prefix of its own in a bucket that `.ci/test` made.
  private static func store(_ prefix: String, _ more: [String: String] = [:]) throws -> S3Store {
    let environment = [
      "AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret", "no_proxy": "*",
    ]
    return try S3Store(
      S3Address("s3://ubiquityfs/\(prefix)?endpoint=\(cephEndpoint ?? "")"),
      environment: environment.merging(more) { $1 })
  }

  private static var newPrefix: String { "test-\(UInt64.random(in: 0...UInt64.max))" }

  @Test(arguments: Conformance.cases.indices) func conforms(_ index: Int) async throws {
    let prefix = Self.newPrefix
    try await Conformance.cases[index].check(
      Conformance(
        one: PollingStore(try Self.store(prefix)), other: PollingStore(try Self.store(prefix))))
  }

  @Test func conditionsAreHonoured() async throws {
    let store = try Self.store(Self.newPrefix)
    try await store.checkConditions()
    #expect(try await store.list(prefix: "", after: nil, limit: 10) == [])
  }

  @Test func longObjectsGoInParts() async throws {
    let store = try Self.store(Self.newPrefix)
    let bytes = (0..<(33 << 20) + 5).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 11) }
    #expect(try await store.putIfAbsent("long", bytes))
    #expect(try await store.get("long") == bytes)
    #expect(try await !store.putIfAbsent("long", bytes.reversed()))
    try await store.replace("long", bytes.reversed())
    #expect(try await store.get("long", range: 0..<5) == Array(bytes.reversed()[..<5]))
  }

  @Test func longListsComeInPages() async throws {
    let store = try Self.store(Self.newPrefix)
    let keys = (0..<1100).map { "k/\(10_000 + $0)" }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for start in stride(from: 0, to: keys.count, by: 100) {
        group.addTask { for key in keys[start..<start + 100] { try await store.replace(key, []) } }
      }
      try await group.waitForAll()
    }
    #expect(try await store.list(prefix: "k/", after: nil, limit: 5000) == keys)
    #expect(
      try await store.list(prefix: "k/", after: keys[50], limit: 1025) == Array(keys[51..<1076]))
  }

  @Test func wrongKeysAreSaid() async throws {
    for (name, value) in [("AWS_ACCESS_KEY_ID", "nobody"), ("AWS_SECRET_ACCESS_KEY", "wrong")] {
      let store = try Self.store("x", [name: value])
      do throws(StoreError) {
        _ = try await store.list(prefix: "", after: nil, limit: 1)
        Issue.record("a wrong \(name) was taken")
      } catch {
        guard case .notPermitted = error else {
          Issue.record("\(error)")
          continue
        }
      }
    }
  }

  @Test func aBucketThatIsNotThereIsSaid() async throws {
    let store = try S3Store(
      S3Address("s3://no-such-bucket?endpoint=\(cephEndpoint ?? "")"),
      environment: [
        "AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret", "no_proxy": "*",
      ])
    do throws(StoreError) {
      _ = try await store.list(prefix: "", after: nil, limit: 1)
      Issue.record("it was listed")
    } catch {
      #expect(error.description.contains("does not exist"))
    }
  }
}
