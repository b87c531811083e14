internal import Glibc
internal import Platform

extension Workloads {
  static func reading(_ sizes: Sizes) -> [Workload] {
    let buffer = Buffer(count: 1 << 20)
    let other = Buffer(count: 1 << 20)
    let warm: Workload.Step = { place, _ in
      try Calls.readFile(place.path(Fixture.bigFile.rawValue), with: buffer)
    }
    func workload(
      _ name: String, _ title: String, _ target: Double, _ operations: Int, _ operation: String,
      _ body: @escaping (String) throws -> Void
    ) -> Workload {
      Workload(
        name: name, title: title, target: target, operations: operations, operation: operation,
        fixtures: [.bigFile], prepare: warm,
        body: { place, _ in try body(place.path(Fixture.bigFile.rawValue)) })
    }
    let size = sizes.bigFile
    return [
      workload(
        "read-sequential", "sequential read, opened again, warm", 1.3, size >> 20, "MiB",
        { try Calls.readFile($0, with: buffer) }),
      workload(
        "read-random", "random 4 KiB reads", 1.5, sizes.randomReads, "read",
        { try Calls.readRandomly($0, size: size, count: sizes.randomReads, with: buffer) }),
      workload(
        "read-two-readers", "two readers at once", 1.5, 2 * size >> 20, "MiB",
        { try readTwice($0, buffer, other) }),
      workload(
        "read-mmap", "mmap scan", 1.5, size >> 20, "MiB",
        { guard try Calls.scanMapping($0) != 0 else { throw Failure("the file is empty") } }),
    ]
  }

  private static func readTwice(_ path: String, _ mine: Buffer, _ other: Buffer) throws {
    let done = Gate()
    let failure = Lock<String?>(nil)
    inBackground {
      do { try Calls.readFile(path, with: other) } catch {
        failure.withLock { $0 = "\(error)" }
      }
      done.open()
    }
    defer { done.wait() }
    try Calls.readFile(path, with: mine)
    done.wait()
    if let failure = failure.withLock({ $0 }) { throw Failure(failure) }
  }

  static func writing(_ sizes: Sizes) -> [Workload] {
    let buffer = Buffer(count: 1 << 20)
    let small = Buffer(count: 4096)
    func sequential(_ name: String, _ title: String, synchronized: Bool) -> Workload {
      Workload(
        name: name, title: title, target: 1.2, operations: sizes.written >> 20, operation: "MiB",
        prepare: { _, stage in try stage.settle() },
        body: { place, _ in
          try Calls.writeFile(
            place.path("written"), bytes: sizes.written, with: buffer, synchronized: synchronized)
        },
        finish: { place, _ in unlink(place.path("written")) })
    }
    func random(
      _ name: String, _ title: String, _ count: Int, _ synchronizing: Calls.Synchronizing
    ) -> Workload {
      Workload(
        name: name, title: title, target: 1.5, operations: count, operation: "write",
        fixtures: [.bigFile], prepare: { _, stage in try stage.settle() },
        body: { place, _ in
          try Calls.writeRandomly(
            place.path(Fixture.bigFile.rawValue), size: sizes.bigFile, count: count, with: small,
            synchronizing: synchronizing)
        })
    }
    return [
      random("write-random", "random 4 KiB writes", sizes.randomWrites, .never),
      random(
        "write-random-fsync", "random 4 KiB writes, fsync at the end", sizes.randomWrites, .atTheEnd
      ),
      random(
        "write-random-fsync-each", "random 4 KiB writes, fsync after each",
        sizes.synchronizedWrites, .eachTime),
      sequential("write-sequential", "sequential write", synchronized: false),
      sequential("write-sequential-fsync", "sequential write, fsync", synchronized: true),
    ]
  }
}
