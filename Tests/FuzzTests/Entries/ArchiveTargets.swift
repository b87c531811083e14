import Model
import RecordFormat

@testable import SyncEngine

/// Packages that another device archived.
extension FuzzTarget {
  static let archiveTargets: [FuzzTarget] = [
    FuzzTarget(
      "archive", limit: 16_384, seeds: { try archives() },
      run: { bytes in
        var input = InputReader(bytes)
        let (manifest, chunks) = layout(&input)
        guard let entries = blocking({ try? await Self.entries(manifest, chunks) }) else { return }
        let version = ContentVersion(
          id: VersionID(high: 1, low: 1), parent: nil, device: DeviceID(high: 2, low: 2),
          modified: Timestamp(nanoseconds: 0), size: manifest.size, manifest: manifest)
        guard
          let records = try? PackageArchive.records(
            of: entries, in: ItemID(high: 3, low: 3), as: version)
        else { return }
        try expect(records.count == entries.count, "an archive has other entries than records")
        // The archive of a tree that is one: by name no entry is there twice.
        let tree = PackageTree(entries, device: version.device, modified: version.modified)
        guard Set(entries.map(\.path)).count == entries.count else { return }
        let (again, parts) = archive(tree)
        let read = blocking { try? await Self.entries(again, parts) }
        try expect(read == tree.entries, "an archive made of an archive has other entries")
      })
  ]

  /// The number of chunks, the length of each, their bytes. A length with its highest bit set
  /// stands for one of the chunks before: one chunk may be many times in a manifest.
  private static func layout(_ input: inout InputReader) -> (Manifest, [ChunkID: [UInt8]]) {
    let lengths = (0..<Int(input.byte())).map { _ in input.word16() }
    var references: [ChunkReference] = []
    var bytes: [ChunkID: [UInt8]] = [:]
    func add(_ piece: [UInt8]) {
      guard !piece.isEmpty, let id = identity(bytes.count) else { return }
      bytes[id] = piece
      references.append(ChunkReference(id: id, length: UInt32(piece.count)))
    }
    for length in lengths {
      if length & 0x8000 != 0, !references.isEmpty {
        references.append(references[(length & 0x7FFF) % references.count])
      } else {
        add(input.take(length & 0x7FFF))
      }
    }
    add(input.all())
    return (Manifest(chunks: references), bytes)
  }

  private static func identity(_ number: Int) -> ChunkID? {
    ChunkID((0..<32).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) })
  }

  private static func entries(_ manifest: Manifest, _ chunks: [ChunkID: [UInt8]]) async throws
    -> [PackageTree.Entry]
  {
    try await PackageArchive.entries(of: manifest) { chunk in
      guard let bytes = chunks[chunk.id] else { throw BrokenProperty("there is no such chunk") }
      return bytes
    }
  }

  /// The archive with its frames. The files' chunks are not in it: nothing reads them.
  private static func archive(_ tree: PackageTree) -> (Manifest, [ChunkID: [UInt8]]) {
    var references: [ChunkReference] = []
    var bytes: [ChunkID: [UInt8]] = [:]
    for part in PackageArchive.parts(of: tree) {
      switch part {
      case .content(let manifest): references += manifest.chunks
      case .frame(let pieces):
        for piece in pieces {
          guard let id = identity(bytes.count + 1 << 32) else { continue }
          bytes[id] = piece
          references.append(ChunkReference(id: id, length: UInt32(piece.count)))
        }
      }
    }
    return (Manifest(chunks: references), bytes)
  }

  private static func archives() throws -> [[UInt8]] {
    let time = Timestamp(seconds: -5, nanoseconds: 250_000_000)
    let names = try ["Contents", "a.txt", "link", "empty"].map { try ItemName($0) }
    let chunk = try identity(1 << 40).map { ChunkReference(id: $0, length: 700) }
    let content = Manifest(chunks: [chunk].compactMap(\.self))
    let tree = PackageTree(
      [
        PackageTree.Entry(path: [names[0]], kind: .directory, mode: 0o755, modified: time),
        PackageTree.Entry(
          path: [names[0], names[1]], kind: .file, mode: 0o644, modified: time,
          attributes: ["user.colour": [1, 2, 3]], content: content),
        PackageTree.Entry(
          path: [names[2]], kind: .symbolicLink, mode: 0o777, modified: time,
          target: [UInt8]("Contents/a.txt")),
        PackageTree.Entry(
          path: [names[3]], kind: .file, mode: 0o600, modified: time, content: .empty),
      ], device: DeviceID(high: 1, low: 1), modified: time)
    return [tree, PackageTree([], device: tree.device, modified: time)].map { tree in
      let (manifest, bytes) = archive(tree)
      var result = [UInt8(manifest.chunks.count)]
      for chunk in manifest.chunks {
        result += [UInt8(chunk.length >> 8), UInt8(chunk.length & 0xFF)]
      }
      for chunk in manifest.chunks {
        result += bytes[chunk.id] ?? [UInt8](repeating: 0x2E, count: Int(chunk.length))
      }
      return result
    }
  }
}

/// Runs `body` on this thread. It may wait for nothing: a test that blocked a thread of the pool
/// until another one is free could block all tests.
private func blocking<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Value {
  let thread = CallingThread()
  let box = Box<Value>()
  Task(executorPreference: thread) { box.value = await body() }
  thread.run()
  guard let value = box.value else { fatalError("the body waits for something") }
  return value
}

/// Unchecked: only the thread of `blocking` has it.
private final class CallingThread: TaskExecutor, @unchecked Sendable {
  private var jobs: [UnownedJob] = []

  func enqueue(_ job: consuming ExecutorJob) { jobs.append(UnownedJob(job)) }

  func run() {
    while !jobs.isEmpty { jobs.removeFirst().runSynchronously(on: asUnownedTaskExecutor()) }
  }
}

/// Unchecked: only the thread of `blocking` has it.
private final class Box<Value>: @unchecked Sendable {
  var value: Value?
}
