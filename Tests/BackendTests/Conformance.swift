import Backend
import Testing

/// What every store must do, each as a function of a pair of stores that show the same objects: the
/// same store twice, or two instances on one place.
struct Conformance {
  let one: any ObjectStore
  let other: any ObjectStore

  static let cases: [(name: String, check: @Sendable (Conformance) async throws -> Void)] = [
    ("objects come back whole", { try await $0.wholeObjects() }),
    ("ranges are cut at the end", { try await $0.ranges() }),
    ("an object is put once", { try await $0.putOnce() }),
    ("one of many racing puts wins", { try await $0.racingPuts() }),
    ("replace replaces", { try await $0.replacing() }),
    ("lists are ordered, after a key, and limited", { try await $0.lists() }),
    ("lists have the sizes of objects", { try await $0.sizes() }),
    ("stored names are those of all objects, and of the top alone", { try await $0.storedNames() }),
    ("delete is idempotent", { try await $0.deletes() }),
    ("what could leave the store is no key", { try await $0.badKeys() }),
    ("news are told", { try await $0.news() }),
  ]

  func wholeObjects() async throws {
    for count in [0, 1, 4096, 3 << 20] {
      let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) }
      #expect(try await one.putIfAbsent("a/b/\(count)", bytes))
      #expect(try await other.get("a/b/\(count)") == bytes)
    }
    await #expect(throws: StoreError.notFound("a/none")) { try await one.get("a/none") }
    await #expect(throws: StoreError.notFound("a/b")) { try await one.get("a/b") }
    await #expect(throws: StoreError.notFound("a/b/1/c")) { try await one.get("a/b/1/c") }
  }

  func ranges() async throws {
    let bytes = Array(UInt8(0)...99)
    #expect(try await one.putIfAbsent("r", bytes))
    #expect(try await other.get("r", range: 10..<20) == Array(UInt8(10)..<20))
    #expect(try await other.get("r", range: 90..<200) == Array(UInt8(90)..<100))
    #expect(try await other.get("r", range: 100..<200) == [])
    #expect(try await other.get("r", range: 500..<UInt64.max) == [])
    #expect(try await other.get("r", range: 5..<5) == [])
  }

  func putOnce() async throws {
    #expect(try await one.putIfAbsent("k", [1]))
    #expect(try await !other.putIfAbsent("k", [2]))
    #expect(try await !one.putIfAbsent("k", [3]))
    #expect(try await other.get("k") == [1])
  }

  func racingPuts() async throws {
    for round in 0..<20 {
      let key = "race/\(round)/object"
      let winners = try await withThrowingTaskGroup(of: UInt8?.self) { group in
        for contender in UInt8(0)..<8 {
          let store = contender.isMultiple(of: 2) ? one : other
          let bytes = [UInt8](repeating: contender, count: 10_000)
          group.addTask { try await store.putIfAbsent(key, bytes) ? contender : nil }
        }
        return try await group.reduce(into: [UInt8]()) { if let winner = $1 { $0.append(winner) } }
      }
      #expect(winners.count == 1)
      #expect(
        try await other.get(key) == [UInt8](repeating: try #require(winners.first), count: 10_000))
    }
  }

  func replacing() async throws {
    try await one.replace("x/y", [1, 2, 3])
    try await other.replace("x/y", [4])
    #expect(try await one.get("x/y") == [4])
    #expect(try await !one.putIfAbsent("x/y", [5]))
  }

  func lists() async throws {
    // '-' and '.' stand before '/', digits and letters behind it.
    let keys = ["a-b", "a.b/c", "a/b", "a/b-c/d", "a/b/c1", "a/b0", "a0", "b/1", "b/10", "b/2"]
      .filter { $0 != "a/b" }
    for key in keys.shuffled() { #expect(try await one.putIfAbsent(key, [])) }
    let sorted = keys.sorted { Array($0.utf8).lexicographicallyPrecedes(Array($1.utf8)) }
    #expect(try await other.list(prefix: "", after: nil, limit: 100) == sorted)
    for limit in 0...sorted.count {
      #expect(
        try await one.list(prefix: "", after: nil, limit: limit) == Array(sorted.prefix(limit)))
    }
    for prefix in ["a", "a/", "a/b", "a/b/", "b/1", "none/", "a-b/"] {
      let expected = sorted.filter { $0.hasPrefix(prefix) }
      #expect(try await other.list(prefix: prefix, after: nil, limit: 100) == expected)
      for after in sorted + ["a/b", "a/b/", "a/zzz", "0", "zzz"] {
        let rest = expected.filter { Array(after.utf8).lexicographicallyPrecedes(Array($0.utf8)) }
        #expect(try await other.list(prefix: prefix, after: after, limit: 100) == rest)
      }
    }
  }

  func sizes() async throws {
    for count in [0, 1, 70_000] {
      #expect(try await one.putIfAbsent("s/\(count)", [UInt8](repeating: 7, count: count)))
    }
    try await one.replace("s/1", [1, 2, 3])
    let expected = [("s/0", 0), ("s/1", 3), ("s/70000", 70_000)].map {
      ListedObject(key: $0.0, size: $0.1)
    }
    #expect(try await other.listObjects(prefix: "s/", after: nil, limit: 10) == expected)
    #expect(
      try await other.listObjects(prefix: "s/", after: "s/0", limit: 1) == [expected[1]])
  }

  func storedNames() async throws {
    let container = "containers/" + String(repeating: "a", count: 32) + "/"
    let keys = [container + "log/1", container + "log/2", container + "packs/x"]
    for key in keys + ["format", "names/n"] { #expect(try await one.putIfAbsent(key, [])) }
    let top = try await other.storedNames(prefix: "", after: nil, limit: 10)
    // A directory has one for temporary files.
    #expect(top.filter { $0 != "tmp/" } == ["containers/", "format", "names/"])
    #expect(try await other.storedNames(prefix: "", after: nil, limit: 1) == ["containers/"])
    for limit in 0...keys.count {
      let names = try await other.storedNames(prefix: "containers/", after: nil, limit: limit)
      #expect(names == Array(keys.prefix(limit)))
    }
    for (index, key) in keys.enumerated() {
      let names = try await other.storedNames(prefix: "containers/", after: key, limit: 10)
      #expect(names == Array(keys[(index + 1)...]))
    }
    #expect(try await other.storedNames(prefix: "none/", after: nil, limit: 10) == [])
  }

  func deletes() async throws {
    #expect(try await one.putIfAbsent("d/e/f", [1]))
    try await other.delete("d/e/f")
    try await other.delete("d/e/f")
    try await one.delete("never/was")
    await #expect(throws: StoreError.notFound("d/e/f")) { try await one.get("d/e/f") }
    #expect(try await one.list(prefix: "", after: nil, limit: 10) == [])
    #expect(try await other.putIfAbsent("d/e/f", [2]))
    #expect(try await one.get("d/e/f") == [2])
  }

  func badKeys() async throws {
    let long = String(repeating: "x", count: 201)
    let bad = [
      "", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a/..", ".hidden", "a\0b",
      "a b", "ä", "a\\b", "a*", "tmp", "tmp/x", long, "a\nb", "%2e%2e/a", "~",
    ]
    for key in bad {
      await #expect(throws: StoreError.self, "\(key)") { try await one.get(key) }
      await #expect(throws: StoreError.self, "\(key)") { try await one.putIfAbsent(key, [1]) }
      await #expect(throws: StoreError.self, "\(key)") { try await one.replace(key, [1]) }
      await #expect(throws: StoreError.self, "\(key)") { try await one.delete(key) }
    }
    for prefix in ["../", "/", "a//", ".", "tmp/", "a/../"] {
      await #expect(throws: StoreError.self, "\(prefix)") {
        try await one.list(prefix: prefix, after: nil, limit: 1)
      }
    }
    #expect(try await one.list(prefix: "", after: nil, limit: 10) == [])
  }

  func news() async throws {
    var early = one.news(prefix: "n/log/").makeAsyncIterator()
    #expect(try await other.putIfAbsent("n/log/1", [1]))
    #expect(await early.next() != nil)
    var late = one.news(prefix: "n/log/").makeAsyncIterator()
    #expect(try await other.putIfAbsent("n/log/2", [1]))
    #expect(await late.next() != nil)
  }
}
