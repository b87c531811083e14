package import ControlProtocol
package import Coordination
internal import Dispatch
internal import FoundationEssentials
internal import Glibc
package import Model
internal import Platform
internal import SystemPackage

/// Who caused which download, in `downloads.log` of the state directory: a JSON object a line, of
/// which the last few megabytes are kept.
///
/// A program reads a file in hundreds of pieces. So what comes for one reason is gathered, and is a
/// line when nothing came for half a second, or after half a minute all the same, or when somebody
/// wants to see it. What is not a line yet when the daemon is killed is lost; nothing else depends
/// on it.
///
/// Any thread. Lock order: `file` is held while lines are written, above `state`.
package final class DownloadLog: Sendable {
  /// One reason for one item.
  package struct Reason: Hashable, Sendable {
    package let container: ContainerID
    package let item: ItemID
    package let cause: DownloadCause
    package let isDenied: Bool

    package init(container: ContainerID, item: ItemID, cause: DownloadCause, isDenied: Bool) {
      self.container = container
      self.item = item
      self.cause = cause
      self.isDenied = isDenied
    }
  }

  private struct Gathered {
    let path: PathBytes
    let time: Int64
    let began: UInt64
    var last: UInt64
    var bytes: UInt64 = 0
    var count: UInt64 = 0
  }

  private struct State {
    var gathered: [Reason: Gathered] = [:]
    var isWatched = false
    var isEmptying = false
  }

  private struct Place {
    var file: OpenFile?
    var size: UInt64 = 0
  }

  private let path: String
  private let limit: UInt64
  private let state = Lock(State())
  private let file = Lock(Place())
  private static let quiet: UInt64 = 500_000_000
  private static let longest: UInt64 = 30_000_000_000
  /// More are written at once; of so many more that the disk does not keep up, new ones are
  /// dropped.
  private static let mostGathered = 4096
  private static let mostKept = 4 * mostGathered

  package init(path: String, limit: UInt64 = 4 << 20) {
    self.path = path
    self.limit = limit
  }

  /// Never waits for the disk, since a program's read does this. `path` is asked for when the
  /// reason is new.
  package func note(_ reason: Reason, bytes: UInt64, path: () -> PathBytes) {
    let now = monotonicNanoseconds()
    if add(reason, bytes, now) { return }
    let new = Gathered(
      path: path(), time: SystemClock().nanoseconds(), began: now, last: now)
    let (mustEmpty, mustWatch) = state.withLock { state in
      if state.gathered[reason] == nil, state.gathered.count < Self.mostKept {
        state.gathered[reason] = new
      }
      let mustEmpty = state.gathered.count > Self.mostGathered && !state.isEmptying
      if mustEmpty { state.isEmptying = true }
      defer { state.isWatched = true }
      return (mustEmpty, !state.isWatched)
    }
    _ = add(reason, bytes, now)
    if mustEmpty {
      DispatchQueue.global().async {
        self.write()
        self.state.withLock { $0.isEmptying = false }
      }
    }
    if mustWatch { Task { await self.watch() } }
  }

  private func add(_ reason: Reason, _ bytes: UInt64, _ now: UInt64) -> Bool {
    state.withLock { state in
      guard var gathered = state.gathered[reason] else { return false }
      gathered.bytes += bytes
      gathered.count += 1
      gathered.last = max(gathered.last, now)
      state.gathered[reason] = gathered
      return true
    }
  }

  private func watch() async {
    while true {
      try? await Task.sleep(for: .nanoseconds(Int64(Self.quiet / 2)))
      write { gathered in
        // Under the lock: what is noted meanwhile would be later than an earlier look at the clock.
        let now = monotonicNanoseconds()
        return now >= gathered.last + Self.quiet || now >= gathered.began + Self.longest
      }
      let isOver = state.withLock { state in
        if state.gathered.isEmpty { state.isWatched = false }
        return state.gathered.isEmpty
      }
      if isOver { return }
    }
  }

  /// All that is known becomes lines now.
  package func write() { write { _ in true } }

  private func write(_ isDue: (Gathered) -> Bool) {
    file.withLock { place in
      let due = state.withLock { state in
        let due = state.gathered.filter { isDue($0.value) }
        for reason in due.keys { state.gathered[reason] = nil }
        return due
      }
      for (reason, gathered) in due.sorted(by: { $0.value.time < $1.value.time }) {
        put(Self.report(reason, gathered), &place)
      }
    }
  }

  private static func report(_ reason: Reason, _ gathered: Gathered) -> DownloadReport {
    let requester = reason.cause.requester
    return DownloadReport(
      time: Instant.text(nanoseconds: gathered.time),
      result: reason.isDenied ? .denied : .fetched, cause: reason.cause.kind.rawValue,
      path: gathered.path, container: reason.container.description, bytes: gathered.bytes,
      count: gathered.count, process: requester?.process, command: requester?.name,
      executable: requester?.executable.map { PathBytes($0) }, rule: reason.cause.rule)
  }

  private func put(_ report: DownloadReport, _ place: inout Place) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    guard let data = try? encoder.encode(report) else { return }
    if place.file == nil {
      place.file = try? OpenFile.open(path, flags: O_WRONLY | O_CREAT | O_APPEND, mode: 0o600)
      place.size = UInt64((try? place.file?.status().st_size) ?? 0)
    }
    guard let file = place.file else { return }
    let line = Array(data) + [0x0A]
    // A log that cannot be written is no reason to stop serving.
    _ = line.withUnsafeBytes { Glibc.write(file.descriptor, $0.baseAddress, $0.count) }
    place.size += UInt64(line.count)
    guard place.size > limit else { return }
    try? Files.rename(path, path + ".1")
    place = Place()
  }
}
