import Catalog
import ContentStore
import Coordination
import Glibc
import Model
import MountDriver
import Platform
import SystemPackage
import TestWaiting
import Testing

/// A network that answers when told to, and then with as much of the content as was asked for.
final class SlowFetcher: ContentFetching {
  private struct Ticket: FetchTicket {
    let cancelled: @Sendable () -> Void
    func cancel() { cancelled() }
  }

  private struct State {
    var waiting: [@Sendable () -> Void] = []
    var isFast = false
  }

  let cancelled = Lock(0)
  let asked = Gate()
  private let state = Lock(State())
  private let queue = WorkQueue()
  private let coordinator: ContainerCoordinator

  init(_ coordinator: ContainerCoordinator) { self.coordinator = coordinator }

  deinit { queue.stop() }

  func fetch(
    _ number: InodeNumber, range: Range<UInt64>, cause: DownloadCause,
    completion: @escaping @Sendable (Result<Void, FetchFailure>) -> Void
  ) -> any FetchTicket {
    let work: @Sendable () -> Void = { [coordinator] in
      do {
        let inode = try coordinator.catalog.inode(number)
        let key = ContentKey(item: inode.item, generation: inode.generation)
        let partial = try coordinator.content.partial(key, size: inode.size)
        try partial.write([UInt8](repeating: 0x61, count: range.count), at: range.lowerBound)
        completion(.success(()))
      } catch {
        completion(.failure(.damaged("\(error)")))
      }
    }
    let isFast = state.withLock { state in
      if !state.isFast { state.waiting.append(work) }
      return state.isFast
    }
    if isFast { queue.add(work) }
    asked.open()
    return Ticket { [cancelled] in cancelled.withLock { $0 += 1 } }
  }

  /// Does not block the thread, which the child processes of the test need too.
  func waitUntilAsked() async throws {
    try await eventually("the fetcher is asked") { asked.wait(milliseconds: 0) }
  }

  func answer() {
    let waiting = state.withLock { state in
      state.isFast = true
      defer { state.waiting = [] }
      return state.waiting
    }
    for work in waiting { queue.add(work) }
  }
}

extension Mounted {
  /// A file of another device appears in the container's root: all of it but its content. Once for
  /// a mount.
  func appear(_ name: String, size: Int) throws { try appear([name], size: size) }

  func appear(_ names: [String], size: Int) throws {
    let catalog = coordinator.catalog
    guard let chunk = ChunkID([UInt8](repeating: 7, count: 32)) else { throw Errno.invalidArgument }
    let now = Timestamp(nanoseconds: 1_000_000_000)
    let records = try names.map { name in
      ItemRecord(
        id: .random(), kind: .file, links: [Link(parent: .root, name: try ItemName(name))],
        mode: 0o644, modified: now, created: now,
        content: ContentVersion(
          id: .random(), parent: nil, device: .random(), modified: now, size: UInt64(size),
          manifest: Manifest(chunks: [ChunkReference(id: chunk, length: UInt32(size))])))
    }
    try catalog.fold(
      LogChanges(upserts: records),
      to: LogPosition(sequence: 1, hash: [UInt8](repeating: 1, count: 32)))
    let result = try catalog.apply(
      records.map { .upsert($0, content: .placeholder, stamp: nil) }, isOpen: { _ in false },
      isOpenForWriting: { _ in false })
    coordinator.invalidate(result.invalidations)
    mount.waitForInvalidations()
  }
}

@Suite(.enabled(if: access("/dev/fuse", R_OK | W_OK) == 0))
struct WaitingTests {
  @Test
  func aReaderWaitsWhileOthersGoOn() async throws {
    let mounted = try Mounted()
    let fetcher = SlowFetcher(mounted.coordinator)
    mounted.coordinator.setFetcher(fetcher)
    try mounted.appear("far", size: 3 << 20)
    // More readers than there are threads.
    async let readers = mounted.run(
      """
      for i in $(seq 20); do dd if=far iflag=direct bs=128K skip=$i count=1 2>/dev/null | wc -c & done
      wait
      """)
    try await fetcher.waitUntilAsked()
    let others = try await mounted.run("stat -c '%s %b' far; echo x > near; cat near")
    #expect(others.output == "3145728 1\nx\n")
    fetcher.answer()
    let counts = try await readers.output.split(separator: "\n")
    #expect(counts == [Substring](repeating: "131072", count: 20))
    try mounted.mount.unmount()
  }

  @Test(
    arguments: ["cat far", "dd if=far iflag=direct bs=4096 count=1", "echo x >> far"])
  func aKilledReaderDoesNotWait(command: String) async throws {
    let mounted = try Mounted()
    let fetcher = SlowFetcher(mounted.coordinator)
    mounted.coordinator.setFetcher(fetcher)
    try mounted.appear("far", size: 1 << 20)
    let result = try await mounted.run("timeout -s KILL 0.5 bash -c '\(command)' || echo killed")
    #expect(result.output.hasSuffix("killed\n"))
    fetcher.answer()
    // The kernel lets go of a killed program's files in its own time.
    try await eventually("the mount is not busy") { try mounted.unmountedUnlessBusy() }
  }

  @Test
  func aMountEndsWhileReadersWait() async throws {
    let mounted = try Mounted()
    let fetcher = SlowFetcher(mounted.coordinator)
    mounted.coordinator.setFetcher(fetcher)
    try mounted.appear("far", size: 1 << 20)
    async let reader = mounted.run("exec < far; cd /; ! cat")
    try await fetcher.waitUntilAsked()
    mounted.mount.detach()
    #expect(try await reader.status == 0)
  }
}
